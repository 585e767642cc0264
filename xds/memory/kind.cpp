#include "xds/memory/kind.h"

#include <fmt/format.h>

#include "xds/memory/cuda.h"
#include "xds/memory/dmabuf.h"
#include "xds/memory/host.h"
#include "xds/memory/sim.h"

namespace fabric::xds::memory {

Status Kind::peer_memory(const void* /*address*/) const {
    return {Code::invalid, ENOTSUP, std::string(name()) + " memory has no kernel module for it"};
}
Status Kind::settle_remote_writes(const void* /*address*/, size_t /*length*/) const { return {}; }
Status Kind::pin(void* /*host*/, size_t /*length*/, const void* /*near*/) const { return {}; }
void Kind::unpin(void* /*host*/) const {}

const std::vector<const Kind*>& kinds() {
    static const auto* list = [] {
        auto* found = new std::vector<const Kind*>;
        found->push_back(&sim());
        found->push_back(&dmabuf());
        if (const Kind* gpu = cuda()) found->push_back(gpu);
        found->push_back(&host());
        return found;
    }();
    return *list;
}

const Kind* kind_named(std::string_view name) {
    for (const Kind* kind : kinds())
        if (kind->name() == name) return kind;
    return nullptr;
}

Result<Place> locate(const void* address, size_t length) {
    if (address == nullptr) return Status(Code::invalid, EFAULT, "buffer: a null pointer");
    for (const Kind* kind : kinds()) {
        std::optional<Allocation> allocation = kind->identify(address);
        if (!allocation) continue;
        if (!allocation->contains(address, length))
            return Status(Code::invalid, EFAULT,
                          fmt::format("buffer {} of {} bytes leaves its {} allocation of {} bytes at {:#x}", address,
                                      length, kind->name(), allocation->size, allocation->base));
        return Place{kind, *allocation};
    }
    return Status(Code::invalid, EFAULT, "buffer: memory of no known kind");
}

}  // namespace fabric::xds::memory
