#include "xds/memory/host.h"

#include <atomic>
#include <cstring>

#include "common/crc32c.h"

namespace fabric::xds::memory {
namespace {

class Host : public Kind {
  public:
    std::string_view name() const override { return "host"; }
    std::optional<Allocation> identify(const void* /*address*/) const override { return Allocation{}; }
    bool host_accessible() const override { return true; }
    Status copy_in(void* to, const void* from_host, size_t length) const override {
        std::memcpy(to, from_host, length);
        return {};
    }
    Status copy_out(void* to_host, const void* from, size_t length) const override {
        std::memcpy(to_host, from, length);
        return {};
    }
    Result<uint32_t> crc32c(uint32_t seed, const void* from, size_t length) const override {
        return crc32c_extend(seed, from, length);
    }
    Result<DmaBuf> export_dmabuf(const void* /*address*/, size_t /*length*/) const override {
        return Status(Code::invalid, ENOTSUP, "host memory is registered by address, not by dma-buf");
    }
    size_t aperture(int /*device*/) const override { return SIZE_MAX; }
    std::optional<Device> device(unsigned /*index*/) const override { return std::nullopt; }
    Result<std::unique_ptr<WorkStream>> open_stream(void* native) const override { return ThreadStream::open(native); }
};

}  // namespace

Place host_place(const void* start, size_t size) {
    static std::atomic<uint64_t> last{0};
    return {&host(), {last.fetch_add(1) + 1, -1, reinterpret_cast<uintptr_t>(start), size}};
}

const Kind& host() {
    static const Host instance;
    return instance;
}

}  // namespace fabric::xds::memory
