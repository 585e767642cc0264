// The directory tree that a target serves: every path is resolved beneath its root by the kernel (openat2(2) with
// RESOLVE_BENEATH), as the user who asks.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/fs/filesystem.h"
#include "common/identity/identity.h"
#include "xds/protocol/messages.h"
#include "xds/security/capability.h"
#include "xds/target/config.h"
#include "xds/target/write_behind.h"

namespace fabric::xds::target {

// Who a connection acts for.
struct User {
    security::Id client{};
    uint32_t uid = 0, gid = 0;
    std::vector<gid_t> groups;

    identity::Credentials credentials() const { return {uid, gid, groups}; }
};

// An open file of a connection. Immutable but for `direct`; shared by the requests that use it.
struct OpenFile {
    UniqueFd fd;
    UniqueFd direct_fd;            // none: the file system refuses O_DIRECT
    uint32_t alignment = 0;        // of direct I/O, bytes
    uint32_t flags = 0;            // wire::open_flags it was opened with
    security::Capability grant;    // range and expiry; rights are in flags
    std::optional<fs::FileId> id;  // none: its file system is not the root's
};

struct Opened {
    std::shared_ptr<OpenFile> file;
    wire::Attributes attributes;
    std::optional<fs::FileId> id;  // none: its file system is not the root's
};

wire::Attributes attributes_of(const struct stat& status);
// Views the bytes of `id`.
wire::FileId on_wire(const fs::FileId& id);

// Thread safe.
class Tree {
  public:
    // `behind`, null for none, outlives it.
    static Result<std::unique_ptr<Tree>> open(const Config& config, WriteBehind* behind = nullptr);

    // As `user`: with the flags and the mode of an open request. Blocks.
    Result<Opened> open_path(const User& user, std::string_view path, uint32_t flags, uint32_t mode);
    // With a capability that was checked before. Blocks.
    Result<Opened> open_id(const wire::FileId& id, uint32_t flags, const security::Capability& grant);
    // As `user`. Blocks.
    Result<Opened> stat_path(const User& user, std::string_view path);
    Result<Opened> stat_file(const OpenFile& file);

    // Whether somebody may hold newer bytes of files than the tree has.
    bool others_write() const { return behind_ != nullptr; }
    // As `user`, before open_for_batch, where others write: the tree has all of these files on return. Blocks.
    Status settle_batch(const User& user, std::span<const std::string_view> paths);
    // Within a call made as the user: a regular file, opened for reading.
    Result<UniqueFd> open_for_batch(std::string_view path, struct stat& status);
    identity::Pool& identities() { return *identities_; }

  private:
    Tree() = default;
    Result<UniqueFd> resolve(std::string_view path, int flags, uint32_t mode) const;
    Status settle(int fd);
    Result<Opened> finish(UniqueFd fd, uint32_t flags);

    WriteBehind* behind_ = nullptr;
    UniqueFd root_;
    std::string path_;
    Direct direct_ = Direct::automatic;
    fs::FilesystemPtr filesystem_;
    std::unique_ptr<identity::Pool> identities_;
};

}  // namespace fabric::xds::target
