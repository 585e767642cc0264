// Host memory with a type and a shape, page aligned: what the safetensors loader makes where nobody gives it other
// memory.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>
#include <vector>

#include "xds/python/dlpack.h"

namespace fabric::xds::python {

// An element type as safetensors names it.
struct ElementType {
    const char* name;
    size_t size;         // bytes
    const char* format;  // of the struct module; for types that it does not know unsigned integers of the same size
    DlDataType dlpack;   // lanes 0: DLPack 0.8 has no such type
};
// Null: no such type.
const ElementType* element_type(const std::string& name);

class Tensor {
  public:
    // ValueError: an unknown type, or a negative or impossible shape.
    Tensor(const std::string& type, std::vector<int64_t> shape);

    const ElementType& type() const { return *type_; }
    const std::vector<int64_t>& shape() const { return shape_; }
    size_t size() const { return size_; }  // bytes
    // PEP 3118.
    pybind11::buffer_info buffer() const;
    // A capsule that shares the memory.
    pybind11::capsule dlpack() const;

  private:
    const ElementType* type_;
    std::vector<int64_t> shape_;
    size_t size_ = 0;
    std::shared_ptr<char> memory_;
};

}  // namespace fabric::xds::python
