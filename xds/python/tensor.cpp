#include "xds/python/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace py = pybind11;

namespace fabric::xds::python {
namespace {

constexpr size_t page = 4096;

constexpr ElementType types[] = {
    {"BOOL", 1, "?", {dl_bool, 8, 1}},  {"U8", 1, "B", {dl_uint, 8, 1}},      {"I8", 1, "b", {dl_int, 8, 1}},
    {"U16", 2, "H", {dl_uint, 16, 1}},  {"I16", 2, "h", {dl_int, 16, 1}},     {"U32", 4, "I", {dl_uint, 32, 1}},
    {"I32", 4, "i", {dl_int, 32, 1}},   {"U64", 8, "Q", {dl_uint, 64, 1}},    {"I64", 8, "q", {dl_int, 64, 1}},
    {"F16", 2, "e", {dl_float, 16, 1}}, {"BF16", 2, "H", {dl_bfloat, 16, 1}}, {"F32", 4, "f", {dl_float, 32, 1}},
    {"F64", 8, "d", {dl_float, 64, 1}}, {"F8_E4M3", 1, "B", {0, 8, 0}},       {"F8_E5M2", 1, "B", {0, 8, 0}},
};

// What a DLPack consumer holds.
struct Exported : DlManagedTensor {
    std::shared_ptr<char> memory;
    std::vector<int64_t> shape;
};

}  // namespace

const ElementType* element_type(const std::string& name) {
    const auto* found =
        std::find_if(std::begin(types), std::end(types), [&](const auto& type) { return name == type.name; });
    return found == std::end(types) ? nullptr : found;
}

Tensor::Tensor(const std::string& type, std::vector<int64_t> shape)
    : type_(element_type(type)), shape_(std::move(shape)) {
    if (type_ == nullptr) throw py::value_error("no such element type: " + type);
    size_ = type_->size;
    for (int64_t length : shape_)
        if (length < 0 || __builtin_mul_overflow(size_, static_cast<size_t>(length), &size_) || size_ > SIZE_MAX / 2)
            throw py::value_error("impossible shape");
    size_t room = std::max((size_ + page - 1) / page * page, page);
    memory_.reset(static_cast<char*>(std::aligned_alloc(page, room)), [](char* memory) { std::free(memory); });
    if (memory_ == nullptr) throw std::bad_alloc();
}

py::buffer_info Tensor::buffer() const {
    std::vector<py::ssize_t> strides(shape_.size());
    auto stride = static_cast<py::ssize_t>(type_->size);
    for (size_t i = shape_.size(); i-- > 0; stride *= shape_[i]) strides[i] = stride;
    return {memory_.get(),
            static_cast<py::ssize_t>(type_->size),
            type_->format,
            static_cast<py::ssize_t>(shape_.size()),
            std::vector<py::ssize_t>(shape_.begin(), shape_.end()),
            strides};
}

py::capsule Tensor::dlpack() const {
    if (type_->dlpack.lanes == 0) throw py::value_error(std::string("DLPack has no element type ") + type_->name);
    auto exported = std::make_unique<Exported>();
    exported->memory = memory_;
    exported->shape = shape_;
    exported->tensor = {memory_.get(),
                        {dl_cpu, 0},
                        static_cast<int32_t>(shape_.size()),
                        type_->dlpack,
                        exported->shape.data(),
                        nullptr,
                        0};
    exported->context = nullptr;
    exported->deleter = [](DlManagedTensor* self) { delete static_cast<Exported*>(self); };
    // Once a consumer has taken the tensor it renames the capsule, and ends the tensor itself.
    PyObject* capsule = PyCapsule_New(static_cast<DlManagedTensor*>(exported.get()), dl_fresh, [](PyObject* object) {
        if (!PyCapsule_IsValid(object, dl_fresh)) return;
        auto* managed = static_cast<DlManagedTensor*>(PyCapsule_GetPointer(object, dl_fresh));
        managed->deleter(managed);
    });
    if (capsule == nullptr) throw py::error_already_set();
    exported.release();
    return py::reinterpret_steal<py::capsule>(capsule);
}

}  // namespace fabric::xds::python
