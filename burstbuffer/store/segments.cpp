#include "burstbuffer/store/segments.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>

#include "common/fault.h"
#include "common/log.h"

namespace fabric::store {

namespace {

constexpr std::string_view suffix = ".seg";

// The number in "00000012.seg", or nothing.
bool parse_name(std::string_view name, uint32_t& number) {
    if (!name.ends_with(suffix)) return false;
    name.remove_suffix(suffix.size());
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    return error == std::errc() && end == name.data() + name.size();
}

Result<std::vector<uint32_t>> numbers_in(const std::string& folder) {
    std::unique_ptr<DIR, int (*)(DIR*)> listing(opendir(folder.c_str()), closedir);
    if (listing == nullptr) return Status::from_errno(errno, "opendir segments " + folder);
    std::vector<uint32_t> numbers;
    while (const dirent* entry = readdir(listing.get())) {
        uint32_t number = 0;
        if (parse_name(entry->d_name, number)) numbers.push_back(number);
    }
    std::ranges::sort(numbers);
    return numbers;
}

Status full(const std::string& folder, const std::string& why) {
    return {Code::unavailable, ENOSPC, fmt::format("store {}: no room: {}", folder, why)};
}

}  // namespace

Segments::Segments(std::string folder, const Limits& limits) : folder_(std::move(folder)), limits_(limits) {}

std::string Segments::path_of(uint32_t number) const { return fmt::format("{}/{:08}{}", folder_, number, suffix); }

Result<std::unique_ptr<Segments>> Segments::open(const std::string& folder, const Limits& limits,
                                                 const std::map<uint32_t, Known>& known) {
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return Status::from_errno(errno, "mkdir " + folder);
    std::unique_ptr<Segments> segments(new Segments(folder, limits));
    Result<std::vector<uint32_t>> numbers = numbers_in(folder);
    if (!numbers.ok()) return numbers.status();
    for (uint32_t number : *numbers) FABRIC_RETURN_IF_ERROR(segments->add_existing(number, known));
    segments->order_by_age();
    for (const auto& [number, what] : known) {
        if (what.use.records > 0 && !segments->segments_.contains(number)) {
            log::error("{} is gone, and with it {} records, {} of them not yet drained", segments->path_of(number),
                       what.use.records, what.use.dirty);
        }
    }
    return segments;
}

Status Segments::add_existing(uint32_t number, const std::map<uint32_t, Known>& known) {
    std::string path = path_of(number);
    UniqueFd file(::open(path.c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
    if (!file) return Status::from_errno(errno, "open " + path + " with O_DIRECT");
    Segment& segment = segments_[number];
    segment.number = number;
    segment.file = std::move(file);
    segment.sealed = true;
    if (auto found = known.find(number); found != known.end()) {
        segment.use = found->second.use;
        segment.end = found->second.end;
    }
    // The last segment that was written goes on being written; what a crash left behind its last record is reused.
    uint32_t blocks = static_cast<uint32_t>(limits_.segment_size / Place::block_size);
    if (segment.use.records > 0 && segment.end < blocks) {
        Segment*& active = active_[static_cast<size_t>(Stream::fresh)];
        if (active != nullptr) active->sealed = true;
        segment.sealed = false;
        active = &segment;
    }
    free_if_empty(segment);
    segment.freed_at = 0;  // nobody in this process has seen what lies there
    return {};
}

// By when they were last written. Numbers say nothing: segments are reused.
void Segments::order_by_age() {
    std::vector<std::pair<int64_t, Segment*>> times;
    for (auto& [number, segment] : segments_) {
        struct stat status {};
        if (fstat(segment.file.get(), &status) != 0) status.st_mtim = {};
        times.emplace_back(status.st_mtim.tv_sec * int64_t{1'000'000'000} + status.st_mtim.tv_nsec, &segment);
    }
    std::ranges::stable_sort(times, {}, [](const auto& pair) { return pair.first; });
    for (auto& [time, segment] : times) segment->born = ++births_;
}

// Reuse keeps its place in the file: readers may still be at what lies there, until the grace period is over.
void Segments::free_if_empty(Segment& segment) {
    if (!segment.sealed || segment.free || segment.pending != 0 || segment.use.records != 0) return;
    segment.free = true;
    segment.freed_at = grace_.now();
    free_.push_back(segment.number);
}

Result<Segments::Segment*> Segments::reuse() {
    if (free_.empty()) return static_cast<Segment*>(nullptr);
    Segment& segment = segments_.at(free_.front());
    if (!grace_.passed(segment.freed_at)) return static_cast<Segment*>(nullptr);
    free_.pop_front();
    segment.free = segment.sealed = false;
    segment.end = 0;
    return &segment;
}

Result<Segments::Segment*> Segments::create(uint32_t beside) {
    uint64_t allocated = segments_.size() * limits_.segment_size;
    uint64_t needed = (uint64_t{1} + beside) * limits_.segment_size;
    if (limits_.capacity != 0 && allocated + needed > limits_.capacity) {
        return full(folder_, fmt::format("{} bytes are allocated, the capacity is {}", allocated, limits_.capacity));
    }
    struct statvfs space {};
    if (statvfs(folder_.c_str(), &space) != 0) return Status::from_errno(errno, "statvfs " + folder_);
    uint64_t available = uint64_t{space.f_bavail} * space.f_frsize;
    if (available < limits_.reserve + needed) {
        return full(folder_, fmt::format("its file system has {} bytes free, {} of these stay free", available,
                                         limits_.reserve));
    }
    uint32_t number = segments_.empty() ? 1 : segments_.rbegin()->first + 1;
    std::string path = path_of(number);
    UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600));
    if (!file) return errno == ENOSPC ? full(folder_, "no inode") : Status::from_errno(errno, "create " + path);
    int error = fault::hit("store.preallocate");
    if (error == 0 && fallocate(file.get(), 0, 0, static_cast<off_t>(limits_.segment_size)) != 0) error = errno;
    UniqueFd folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (error == 0 && (fsync(file.get()) != 0 || !folder || fsync(folder.get()) != 0)) error = errno;
    if (error != 0) {
        unlink(path.c_str());
        return error == ENOSPC ? full(folder_, "fallocate") : Status::from_errno(error, "preallocate " + path);
    }
    Segment& segment = segments_[number];
    segment.number = number;
    segment.file = std::move(file);
    return &segment;
}

Status Segments::start_new(Stream stream, Room room) {
    Segment*& active = active_[static_cast<size_t>(stream)];
    if (active != nullptr) {
        Segment& before = *active;
        before.sealed = true;
        active = nullptr;
        free_if_empty(before);
    }
    uint32_t spare = room == Room::all ? 0 : limits_.spare;
    auto free = static_cast<uint32_t>(free_.size());
    Result<Segment*> next = free > spare ? reuse() : static_cast<Segment*>(nullptr);
    if (next.ok() && *next == nullptr) next = create(spare - std::min(spare, free));
    if (!next.ok()) return next.status();
    active = *next;
    active->stream = stream;
    active->born = ++births_;
    return {};
}

Result<Place> Segments::allocate(uint32_t blocks, Stream stream, Room room) {
    uint32_t size = static_cast<uint32_t>(limits_.segment_size / Place::block_size);
    if (blocks == 0 || blocks > size) return Status::invalid("store: a piece that does not fit into a segment");
    std::unique_lock lock(mutex_);
    // Asked often, though it is needed when a segment is full: at one moment there is nearly always a reader inside,
    // and a new segment would be made beside free ones.
    if (!free_.empty()) grace_.passed(segments_.at(free_.front()).freed_at);
    Segment*& active = active_[static_cast<size_t>(stream)];
    if (active == nullptr || active->end + blocks > size) FABRIC_RETURN_IF_ERROR(start_new(stream, room));
    Place place{active->number, active->end};
    active->end += blocks;
    ++active->pending;
    return place;
}

void Segments::keep(const Place& place) {
    std::unique_lock lock(mutex_);
    ++segments_.at(place.segment).pending;
}

void Segments::settle(const Place& place) {
    std::unique_lock lock(mutex_);
    Segment& segment = segments_.at(place.segment);
    --segment.pending;
    free_if_empty(segment);
}

void Segments::use(uint32_t number, const SegmentUse& change) {
    std::unique_lock lock(mutex_);
    auto found = segments_.find(number);
    if (found == segments_.end()) return;  // its file is gone; the index forgets its records one by one
    found->second.use += change;
    free_if_empty(found->second);
}

Result<int> Segments::descriptor(uint32_t number) const {
    std::shared_lock lock(mutex_);
    auto found = segments_.find(number);
    if (found == segments_.end()) return Status::from_errno(ENOENT, "segment " + path_of(number));
    return found->second.file.get();
}

std::vector<Segments::Info> Segments::full_ones() const {
    std::vector<const Segment*> found;
    std::shared_lock lock(mutex_);
    for (const auto& [number, segment] : segments_) {
        if (segment.sealed && !segment.free) found.push_back(&segment);
    }
    std::ranges::sort(found, {}, [](const Segment* segment) { return segment->born; });
    std::vector<Info> infos;
    for (const Segment* segment : found) infos.push_back({segment->number, segment->stream, segment->use});
    return infos;
}

bool Segments::has_dirty() const {
    std::shared_lock lock(mutex_);
    return std::ranges::any_of(segments_, [](const auto& one) { return one.second.use.dirty != 0; });
}

Segments::Usage Segments::usage() const {
    std::shared_lock lock(mutex_);
    Usage usage;
    usage.allocated = segments_.size() * limits_.segment_size;
    usage.free = free_.size() * limits_.segment_size;
    for (const auto& [number, segment] : segments_) {
        usage.live += static_cast<uint64_t>(segment.use.bytes);
        usage.records += static_cast<uint64_t>(segment.use.records);
        usage.dirty_records += static_cast<uint64_t>(segment.use.dirty);
    }
    usage.capacity = limits_.capacity;
    struct statvfs space {};
    if (statvfs(folder_.c_str(), &space) == 0) {
        uint64_t available = uint64_t{space.f_bavail} * space.f_frsize;
        uint64_t possible = usage.allocated + available - std::min(available, limits_.reserve);
        if (usage.capacity == 0 || possible < usage.capacity) usage.capacity = possible;
    }
    return usage;
}

}  // namespace fabric::store
