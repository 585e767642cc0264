#include "xds/client/transfer.h"

#include <climits>

#include "xds/client/local.h"

namespace fabric::xds::client {

Result<size_t> transfer(File& file, DataOperation::Direction direction, void* memory, size_t length, off_t offset) {
    if (offset < 0 || length > SSIZE_MAX || length > INT64_MAX - static_cast<uint64_t>(offset))
        return Status::invalid("impossible offset or length");
    if (length == 0) return size_t{0};
    Result<Way> way = choose_way(file, memory, length, direction);
    if (!way.ok()) return way.status();
    auto from = static_cast<uint64_t>(offset);
    if (file.is_local()) {
        int64_t moved = transfer_locally(file, direction, memory, length, from, way->kind());
        if (moved < 0) return Status::from_errno(static_cast<int>(-moved), file.path());
        return static_cast<size_t>(moved);
    }
    DataOperation operation;
    operation.set(file, direction, memory, length, from, *way);
    FABRIC_RETURN_IF_ERROR(file.context()->run(operation));
    return static_cast<size_t>(operation.result());
}

}  // namespace fabric::xds::client
