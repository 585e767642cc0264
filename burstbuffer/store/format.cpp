#include "burstbuffer/store/format.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <string_view>

#include "common/log.h"

namespace fabric::store {

namespace {

constexpr std::string_view first_line = "fabric store";
constexpr uint64_t block = 4096;
constexpr uint64_t smallest_segment = uint64_t{1} << 20;
constexpr uint64_t largest_segment = uint64_t{1} << 34;

Status damaged(const std::string& path, size_t line, const std::string& why) {
    return {Code::corrupt, EINVAL,
            fmt::format("{}:{}: {}; this is not, or no longer, a store's FORMAT file", path, line, why)};
}

template <typename T>
bool read_number(std::string_view text, T& number) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

Result<std::string> new_uuid() {
    std::ifstream source("/proc/sys/kernel/random/uuid");
    std::string uuid;
    if (!(source >> uuid)) return Status::from_errno(EIO, "read /proc/sys/kernel/random/uuid");
    return uuid;
}

Result<std::set<std::string>> names_in(const std::string& folder) {
    std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
    if (listing == nullptr) return Status::from_errno(errno, "opendir store folder " + folder);
    std::set<std::string> names;
    while (const dirent* entry = readdir(listing.get())) names.insert(entry->d_name);
    for (const char* always : {".", "..", "lost+found"}) names.erase(always);
    return names;
}

// The file is there whole or not at all, also after a power cut.
Status write_durably(const std::string& folder, const std::string& name, const std::string& text) {
    std::string path = folder + "/" + name, next = path + ".new";
    UniqueFd file(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file) return Status::from_errno(errno, "create " + next);
    if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
        return Status::from_errno(errno != 0 ? errno : EIO, "write " + next);
    }
    if (fsync(file.get()) != 0) return Status::from_errno(errno, "fsync " + next);
    if (rename(next.c_str(), path.c_str()) != 0) return Status::from_errno(errno, "rename " + next);
    UniqueFd parent(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!parent || fsync(parent.get()) != 0) return Status::from_errno(errno, "fsync " + folder);
    return {};
}

// From here on an older program refuses the store, instead of taking what it does not know for damage.
Result<Format> upgrade(Format format, const std::string& folder) {
    log::info("store {}: upgraded from format {} to {}", folder, format.version, Format::current);
    format.version = Format::current;
    FABRIC_RETURN_IF_ERROR(write_durably(folder, "FORMAT", format.print()));
    return format;
}

std::string owner_of(int lock) {
    char text[64] = {};
    ssize_t length = pread(lock, text, sizeof(text) - 1, 0);
    int process = length > 0 ? atoi(text) : 0;
    if (process <= 0) return "another process";
    std::string name;
    std::getline(std::ifstream(fmt::format("/proc/{}/comm", process)), name);
    return fmt::format("process {} ({})", process, name.empty() ? "of another machine or container" : name);
}

}  // namespace

std::string Format::print() const {
    return fmt::format("{} {}\nuuid={}\nsegment_size={}\n", first_line, version, uuid, segment_size);
}

Result<Format> Format::parse(const std::string& text, const std::string& path) {
    std::istringstream lines(text);
    std::string line;
    Format format;
    if (!std::getline(lines, line) || !line.starts_with(first_line) || line.size() <= first_line.size() ||
        !read_number(std::string_view(line).substr(first_line.size() + 1), format.version)) {
        return damaged(path, 1, "does not begin with \"fabric store VERSION\"");
    }
    if (format.version > current || format.version == 0) {
        return Status(
            Code::config, ENOTSUP,
            fmt::format("{}:1: the store has format {}, this program knows formats 1 to {}: use the newer program",
                        path, format.version, current));
    }
    for (size_t number = 2; std::getline(lines, line); ++number) {
        size_t equals = line.find('=');
        std::string_view key = std::string_view(line).substr(0, equals);
        std::string_view value =
            equals == std::string::npos ? std::string_view() : std::string_view(line).substr(equals + 1);
        if (key == "uuid" && value.size() == 36) {
            format.uuid = value;
        } else if (key != "segment_size" || !read_number(value, format.segment_size)) {
            return damaged(path, number, "unknown or damaged line \"" + line + "\"");
        }
    }
    if (format.uuid.empty() || format.segment_size < smallest_segment || format.segment_size > largest_segment ||
        format.segment_size % block != 0) {
        return damaged(path, 1, "uuid or segment_size is missing or impossible");
    }
    return format;
}

Result<UniqueFd> lock_folder(const std::string& folder) {
    std::string path = folder + "/LOCK";
    UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock) return Status::from_errno(errno, "open " + path);
    if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) return Status::from_errno(errno, "flock " + path);
        return Status(Code::unavailable, EBUSY,
                      fmt::format("the store {} is in use by {}: a store has one owner", folder, owner_of(lock.get())));
    }
    std::string owner = fmt::format("{}\n", getpid());
    if (ftruncate(lock.get(), 0) != 0 || pwrite(lock.get(), owner.data(), owner.size(), 0) < 0) {
        return Status::from_errno(errno, "write " + path);
    }
    return lock;
}

Result<Format> open_format(const std::string& folder, uint64_t segment_size) {
    std::string path = folder + "/FORMAT";
    std::ifstream file(path);
    if (file) {
        std::ostringstream text;
        text << file.rdbuf();
        Result<Format> format = Format::parse(text.str(), path);
        if (!format.ok() || format->version == Format::current) return format;
        return upgrade(*format, folder);
    }
    Result<std::set<std::string>> names = names_in(folder);
    if (!names.ok()) return names.status();
    for (const char* own : {"LOCK", "FORMAT.new"}) names->erase(own);
    if (!names->empty()) {
        return Status(Code::config, ENOTEMPTY,
                      fmt::format("{} has no FORMAT file but holds \"{}\": give the store an empty folder of its own",
                                  folder, *names->begin()));
    }
    Result<std::string> uuid = new_uuid();
    if (!uuid.ok()) return uuid.status();
    Format format{.uuid = *uuid, .segment_size = segment_size};
    // Checked as it will be read.
    Result<Format> checked = Format::parse(format.print(), path);
    if (!checked.ok()) return checked.status();
    FABRIC_RETURN_IF_ERROR(write_durably(folder, "FORMAT", format.print()));
    return checked;
}

}  // namespace fabric::store
