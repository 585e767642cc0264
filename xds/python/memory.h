// Memory of Python objects, however they offer it.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>

namespace fabric::xds::python {

enum class Use { read, write };

// The contiguous bytes of an object, which is kept alive and, where it can be locked, locked for as long. Taken in this
// order: __cuda_array_interface__ (version 3), the buffer protocol (PEP 3118), __dlpack__ (host and CUDA devices).
// TypeError: none of them; ValueError: not contiguous, or read only and to be written. With the GIL held, destruction
// too.
class Memory {
  public:
    Memory(const pybind11::object& owner, Use use);
    ~Memory();
    Memory(Memory&& other) noexcept;
    Memory& operator=(Memory&&) = delete;

    void* data() const { return data_; }
    size_t size() const { return size_; }

  private:
    bool take_cuda_array(Use use);
    bool take_buffer(Use use);
    bool take_dlpack();

    pybind11::object owner_;
    pybind11::object capsule_;  // of __dlpack__
    Py_buffer view_{};
    bool viewed_ = false;
    void* data_ = nullptr;
    size_t size_ = 0;  // bytes
};

}  // namespace fabric::xds::python
