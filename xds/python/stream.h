// Requests of Python in the order of a stream.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

#include "xds/client/include/xds.hpp"
#include "xds/python/memory.h"

namespace fabric::xds::python {

// Keeps what requests use until the next sync() or the end. With the GIL held, which is given up while it waits.
class PyStream {
  public:
    PyStream(const std::string& kind, uintptr_t native);
    ~PyStream();
    PyStream(const PyStream&) = delete;
    PyStream& operator=(const PyStream&) = delete;

    std::shared_ptr<::xds::Transfer> read(const ::xds::File& file, const pybind11::object& target, off_t offset);
    std::shared_ptr<::xds::Transfer> write(const ::xds::File& file, const pybind11::object& source, off_t offset);
    // What it throws is told by sys.unraisablehook.
    void call(const pybind11::object& function);
    void sync();
    void close();

  private:
    struct InUse {
        Memory memory;
        std::shared_ptr<::xds::Transfer> transfer;
    };
    InUse& keep(const pybind11::object& object, Use use, off_t offset);

    std::vector<InUse> in_use_;
    ::xds::Stream stream_;
};

}  // namespace fabric::xds::python
