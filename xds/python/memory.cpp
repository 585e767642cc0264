#include "xds/python/memory.h"

#include <string>
#include <utility>

#include "xds/python/dlpack.h"

namespace py = pybind11;

namespace fabric::xds::python {
namespace {

size_t product(const py::handle& shape) {
    size_t elements = 1;
    for (const py::handle& length : shape) elements *= py::cast<size_t>(length);
    return elements;
}

// "<f4" and the like: the element's size is what follows the kind.
size_t item_size(const std::string& type) {
    if (type.size() < 3) throw py::value_error("__cuda_array_interface__: typestr " + type);
    return std::stoul(type.substr(2));
}

bool contiguous(const py::object& strides, const py::tuple& shape, size_t item) {
    if (strides.is_none()) return true;
    auto list = strides.cast<py::tuple>();
    size_t expected = item;
    for (size_t i = shape.size(); i-- > 0;) {
        if (shape[i].cast<size_t>() > 1 && list[i].cast<size_t>() != expected) return false;
        expected *= shape[i].cast<size_t>();
    }
    return true;
}

}  // namespace

Memory::Memory(const py::object& owner, Use use) : owner_(owner) {
    if (take_cuda_array(use) || take_buffer(use) || take_dlpack()) return;
    throw py::type_error(
        "memory is wanted: an object with the buffer protocol, __cuda_array_interface__ or __dlpack__, not " +
        py::str(py::type::of(owner)).cast<std::string>());
}

Memory::Memory(Memory&& other) noexcept
    : owner_(std::move(other.owner_)),
      capsule_(std::move(other.capsule_)),
      view_(other.view_),
      viewed_(std::exchange(other.viewed_, false)),
      data_(other.data_),
      size_(other.size_) {}

Memory::~Memory() {
    if (viewed_) PyBuffer_Release(&view_);
}

bool Memory::take_cuda_array(Use use) {
    if (!py::hasattr(owner_, "__cuda_array_interface__")) return false;
    auto description = owner_.attr("__cuda_array_interface__").cast<py::dict>();
    auto data = description["data"].cast<py::tuple>();
    auto shape = description["shape"].cast<py::tuple>();
    size_t item = item_size(description["typestr"].cast<std::string>());
    if (use == Use::write && data[1].cast<bool>()) throw py::value_error("the device memory is read only");
    if (description.contains("strides") && !contiguous(description["strides"], shape, item))
        throw py::value_error("the device memory is not contiguous");
    data_ = reinterpret_cast<void*>(data[0].cast<uintptr_t>());
    size_ = product(shape) * item;
    return true;
}

bool Memory::take_buffer(Use use) {
    if (!PyObject_CheckBuffer(owner_.ptr())) return false;
    // PyBUF_SIMPLE: contiguous bytes, or BufferError.
    if (PyObject_GetBuffer(owner_.ptr(), &view_, use == Use::write ? PyBUF_WRITABLE : PyBUF_SIMPLE) != 0) {
        py::error_already_set error;
        throw py::value_error(std::string("the memory cannot be used: ") + error.what());
    }
    viewed_ = true;
    data_ = view_.buf;
    size_ = static_cast<size_t>(view_.len);
    return true;
}

bool Memory::take_dlpack() {
    if (!py::hasattr(owner_, "__dlpack__")) return false;
    capsule_ = owner_.attr("__dlpack__")();
    auto* managed = static_cast<DlManagedTensor*>(PyCapsule_GetPointer(capsule_.ptr(), dl_fresh));
    if (managed == nullptr) throw py::error_already_set();
    // The capsule keeps its name, so the producer's own destructor lets go of the tensor with it.
    const DlTensor& tensor = managed->tensor;
    switch (tensor.device.type) {
        case dl_cpu:
        case dl_cuda:
        case dl_cuda_host:
        case dl_cuda_managed:
            break;
        default:
            throw py::value_error("__dlpack__: memory of device type " + std::to_string(tensor.device.type));
    }
    int64_t elements = 1;
    for (int32_t i = tensor.dimensions; i-- > 0;) {
        if (tensor.strides != nullptr && tensor.shape[i] > 1 && tensor.strides[i] != elements)
            throw py::value_error("__dlpack__: the memory is not contiguous");
        elements *= tensor.shape[i];
    }
    data_ = static_cast<char*>(tensor.data) + tensor.byte_offset;
    size_ = static_cast<size_t>(elements) * ((tensor.type.bits * tensor.type.lanes + 7U) / 8U);
    return true;
}

}  // namespace fabric::xds::python
