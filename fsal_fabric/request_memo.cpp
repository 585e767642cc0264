#include "fsal_fabric/request_memo.h"

#include <array>
#include <optional>

namespace fabric::fsal {
namespace {

// A request by its memory and its time of arrival: the memory alone is used again for the next one.
struct Request {
    const nfs_request_t* data = nullptr;
    timespec start{};

    bool operator==(const Request& other) const {
        return data == other.data && start.tv_sec == other.start.tv_sec && start.tv_nsec == other.start.tv_nsec;
    }
};

Request current_request() { return {.data = op_ctx->nfs_reqdata, .start = op_ctx->start_time}; }

struct Kept {
    Request request;
    std::optional<fs::FileId> id;
    uint64_t changes = 0;
    RequestMemo memo;
};

// A folder and an object in it, and room for the other two of a rename.
struct Memory {
    std::array<Kept, 4> kept;
    size_t next = 0;
};

thread_local Memory memory;

Kept* find_kept(const fs::FileId& id, const Request& request) {
    for (Kept& one : memory.kept) {
        if (one.id && one.request == request && *one.id == id) return &one;
    }
    return nullptr;
}

}  // namespace

const RequestMemo* RequestMemo::find(const Object& object) {
    Request request = current_request();
    if (request.data == nullptr) return nullptr;
    Kept* kept = find_kept(object.id, request);
    return kept != nullptr && kept->changes == object.changes.load() ? &kept->memo : nullptr;
}

void RequestMemo::remember(const fs::FileId& id, uint64_t changes, const struct statx& status, bool has_no_acl) {
    Request request = current_request();
    if (request.data == nullptr) return;
    Kept* kept = find_kept(id, request);
    if (kept == nullptr) kept = &memory.kept[memory.next++ % memory.kept.size()];
    *kept = {.request = request, .id = id, .changes = changes, .memo = {.status = status, .has_no_acl = has_no_acl}};
}

}  // namespace fabric::fsal
