// The part of DLPack (https://dmlc.github.io/dlpack/latest/c_api.html) that is exchanged here: its structures, version
// 0.8.
#pragma once

#include <cstdint>

namespace fabric::xds::python {

enum DlDeviceType : int32_t { dl_cpu = 1, dl_cuda = 2, dl_cuda_host = 3, dl_cuda_managed = 13 };
enum DlTypeCode : uint8_t { dl_int = 0, dl_uint = 1, dl_float = 2, dl_bfloat = 4, dl_bool = 6 };

struct DlDevice {
    int32_t type;
    int32_t id;
};

struct DlDataType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};

struct DlTensor {
    void* data;
    DlDevice device;
    int32_t dimensions;
    DlDataType type;
    int64_t* shape;
    int64_t* strides;  // in elements; null: contiguous, last index fastest
    uint64_t byte_offset;
};

struct DlManagedTensor {
    DlTensor tensor;
    void* context;
    void (*deleter)(DlManagedTensor*);
};

// Names of the capsules, before and after somebody took the tensor.
inline constexpr const char* dl_fresh = "dltensor";
inline constexpr const char* dl_used = "used_dltensor";

}  // namespace fabric::xds::python
