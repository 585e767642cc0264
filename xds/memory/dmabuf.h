// Memory that another driver exported as a dma-buf: this process has a descriptor of it, and perhaps no way to touch
// it. It gets addresses of this process, without any right, that stand for it in requests.
#pragma once

#include "xds/memory/kind.h"

namespace fabric::xds::memory {

const Kind& dmabuf();
// `length` bytes of the dma-buf from `offset` on; the descriptor may be closed afterwards. The first address that
// stands for it, of an allocation of its own. Where the exporter lets it be mapped (memory files do, most GPUs do not)
// its bytes can be copied; otherwise only a card reaches them.
Result<void*> dmabuf_add(int fd, uint64_t offset, size_t length);
// EINVAL: not the first address of one.
Status dmabuf_remove(void* address);

}  // namespace fabric::xds::memory
