#include "fsal_fabric/data/write_back.h"

#include <unistd.h>

#include <climits>

#include "common/fs/stat.h"
#include "fsal_fabric/caller.h"
#include "fsal_fabric/data/runtime.h"
#include "fsal_fabric/descriptor_path.h"

namespace fabric::fsal {
namespace {

writeback::WriteBack* write_back() {
    node::Node* node = data_runtime().burst_buffer.get();
    return node != nullptr ? &node->write_back() : nullptr;
}

// Where the file is now; empty where the kernel does not know, as of a file that was opened by its handle and that
// nobody has looked up by name.
std::string path_of(int fd) {
    char path[PATH_MAX];
    DescriptorPath link(fd);
    ssize_t length = ::readlink(link.c_str(), path, sizeof path - 1);
    if (length <= 0) return {};
    path[length] = '\0';
    struct stat here {
    }, there{};
    if (::fstat(fd, &here) != 0 || ::lstat(path, &there) != 0) return {};
    bool same = here.st_dev == there.st_dev && here.st_ino == there.st_ino;
    return same ? std::string(path, static_cast<size_t>(length)) : std::string();
}

// Looked for once: a file stays with the rule that it was first written under, until it leaves the server's cache or is
// renamed.
std::optional<size_t> rule_of(writeback::WriteBack& buffer, Object& object, int fd) {
    if (!buffer.has_rules()) return std::nullopt;
    int rule = object.file.rule.load(std::memory_order_relaxed);
    if (rule == FileData::rule_unknown) {
        std::string path = path_of(fd);
        if (path.empty()) return std::nullopt;
        std::optional<size_t> found = buffer.rule_of(path);
        rule = found ? static_cast<int>(*found) : FileData::no_rule;
        object.file.rule.store(rule, std::memory_order_relaxed);
    }
    return rule == FileData::no_rule ? std::nullopt : std::optional(static_cast<size_t>(rule));
}

}  // namespace

bool undrained(const Object& object) {
    writeback::WriteBack* buffer = write_back();
    return buffer != nullptr && object.type == REGULAR_FILE && buffer->dirty(object.id);
}

// A file with set-id bits goes the usual way, on which the kernel takes them away or leaves them.
Result<size_t> hold_write(Object& object, int fd, uint64_t offset, std::span<const iovec> from, size_t length) {
    writeback::WriteBack* buffer = write_back();
    if (buffer == nullptr || length == 0) return size_t{0};
    std::optional<size_t> rule = rule_of(*buffer, object, fd);
    if (!rule && !buffer->dirty(object.id)) return size_t{0};
    Result<struct stat> file = fs::stat_of(fd);
    if (!file.ok()) return file.status();
    if ((file->st_mode & (S_ISUID | S_ISGID)) != 0) {
        if (Status status = buffer->flush(object.id); !status.ok()) return status;
        return size_t{0};
    }
    return buffer->write({object.id, object.filesystem, fd}, rule, offset, from, length);
}

std::optional<Status> commit_held(const Object& object) {
    if (!undrained(object)) return std::nullopt;
    uint64_t before = write_verifier();
    Status status = write_back()->commit(object.id);
    // What was lost the clients send again, as the verifier tells them.
    return write_verifier() != before ? Status() : status;
}

Status read_undrained(const Object& object, int fd, uint64_t offset, size_t length, char* to) {
    return write_back()->read(object.id, fd, offset, length, to);
}

int drain_first(const Object& object) {
    if (!undrained(object)) return 0;
    Status status = write_back()->flush(object.id);
    return status.errno_value();
}

int truncate_object(const Object& object, int fd, uint64_t size) {
    if (write_back() == nullptr) return truncate_as_caller(fd, size);
    return write_back()->truncate(object.id, size, [=] { return truncate_as_caller(fd, size); });
}

std::optional<timespec> visible_mtime(const Object& object) {
    writeback::WriteBack* buffer = write_back();
    if (buffer == nullptr || object.type != REGULAR_FILE) return std::nullopt;
    return buffer->mtime(object.id);
}

void note_unlinked(const Object& object) {
    if (undrained(object)) write_back()->unlinked(object.id);
}

void note_attributes_set(const Object& object, const fsal_attrlist& set) {
    if (!FSAL_TEST_MASK(set.valid_mask, ATTR_MTIME | ATTR_MTIME_SERVER) || !undrained(object)) return;
    timespec time = set.mtime;
    if (FSAL_TEST_MASK(set.valid_mask, ATTR_MTIME_SERVER)) clock_gettime(CLOCK_REALTIME, &time);
    write_back()->set_mtime(object.id, time);
}

}  // namespace fabric::fsal
