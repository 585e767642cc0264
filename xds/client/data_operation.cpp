#include "xds/client/data_operation.h"

#include <algorithm>

#include "xds/memory/host.h"

namespace fabric::xds::client {
namespace {

// Pieces that may be lost with their connections before a request gives up.
constexpr unsigned most_losses = 256;

Status no_direct_way(Context& context, const memory::Place& place) {
    if (context.over_rdma())
        return {Code::invalid, ENOTSUP, std::string("mode direct_only: ") + context.way_to(place).why};
    return {Code::invalid, ENOTSUP,
            "mode direct_only: the connection to " + context.address() +
                " is TCP, over which a storage node cannot reach this process's memory; it takes an RDMA network card "
                "on both sides (" +
                context.why_not_direct() + ")"};
}

Pace::Sort sort_of(const Way& way, DataOperation::Direction direction, uint64_t length) {
    return {way.place.kind, way.place.allocation.device, direction == DataOperation::Direction::read, length};
}

// Memory of an accelerator, over RDMA.
void choose_for_device(Context& context, Way& way, const Pace::Sort& sort, bool counts) {
    transport::DeviceMemory::Verdict verdict = context.way_to(way.place);
    way.staged = verdict.way == transport::DeviceMemory::Way::none;
    way.reason = verdict.why;
    if (way.staged || context.settings().mode != Mode::automatic) return;
    way.measured = true;
    Pace::Route route = counts ? context.pace().choose(sort) : context.pace().likely(sort);
    if (route == Pace::Route::direct) return;
    way.staged = true;
    way.reason = context.pace().measured(sort) ? "the connection is RDMA; through host memory was measured to be faster"
                                               : "the connection is RDMA; through host memory, to measure that way too";
}

}  // namespace

Result<Way> choose_way(const File& file, const void* address, size_t length, DataOperation::Direction direction,
                       bool counts) {
    Result<memory::Place> place = memory::locate(address, length);
    if (!place.ok()) return place.status();
    Way way;
    way.place = *place;
    if (file.is_local()) {
        way.path = XDS_PATH_LOCAL;
        way.reason = "the file is not on a mount of the gateway";
        return way;
    }
    Context& context = *file.context();
    way.place = context.look_up(*place, address, length);
    Mode mode = context.settings().mode;
    bool host = way.kind().host_accessible(), rdma = context.over_rdma();
    way.staged = mode == Mode::staged || !host;
    if (mode == Mode::staged)
        way.reason = "mode staged";
    else if (rdma && host)
        way.reason = "the connection is RDMA; host memory";
    else if (rdma)
        choose_for_device(context, way, sort_of(way, direction, length), counts);
    else if (host)
        way.reason = mode == Mode::tcp ? "mode tcp" : "the connection is TCP; host memory";
    else
        way.reason = "the connection is TCP, and only the memory's own copy functions reach it";
    if (mode == Mode::direct_only && (!rdma || way.staged)) return no_direct_way(context, way.place);
    way.path = way.staged ? XDS_PATH_STAGED : (rdma ? XDS_PATH_DIRECT : XDS_PATH_TCP);
    return way;
}

void DataOperation::set(File& file, Direction direction, void* memory, uint64_t length, uint64_t offset,
                        const Way& way) {
    file_ = &file;
    direction_ = direction;
    memory_ = static_cast<char*>(memory);
    length_ = length;
    offset_ = offset;
    way_ = way;
    next_ = 0;
    short_at_ = UINT64_MAX;
    again_.clear();
    losses_ = 0;
    moved_ = {};
    first_copied_ = nullptr;
    if (way.measured) began_ = std::chrono::steady_clock::now();
    limit = file.context()->settings().timeout;
}

// At most what the device's aperture has room for.
size_t DataOperation::piece_size() const {
    size_t piece = file_->context()->settings().piece;
    if (way_.staged || way_.kind().host_accessible()) return piece;
    return std::max<size_t>(std::min(piece, way_.kind().aperture(way_.place.allocation.device)), 1);
}

bool DataOperation::has_more() const {
    return !failed() && (first_copied_ != nullptr || !again_.empty() || (next_ < length_ && next_ < short_at_));
}

DataOperation::Range DataOperation::next_range() const {
    if (!again_.empty()) return again_.back();
    return {next_, static_cast<size_t>(std::min<uint64_t>(piece_size(), length_ - next_))};
}

void DataOperation::taken(const Range& range) {
    if (!again_.empty())
        again_.pop_back();
    else
        next_ += range.length;
}

Status DataOperation::send_next(Stream& stream, Piece& piece) {
    bool copied = false;
    if (way_.staged && direction_ == Direction::write && !(copied = send_copied(piece))) {
        stream.give_back(piece);
        return copy_out_next();
    }
    Range range = next_range();
    if (!copied) {
        piece.offset = range.offset;
        piece.length = range.length;
    }
    Status status;
    if (way_.staged && !copied) {
        Result<Staging*> staging = take_staging(range.offset);
        status = staging.status();
        if (staging.ok()) piece.staging = *staging;
    }
    if (status.ok()) status = prepare(stream, piece);
    if (!status.ok()) {
        stream.give_back(piece);
        if (piece.staging != nullptr)
            file_->context()->staging().give_back(std::exchange(piece.staging, nullptr));
        else if (goes_through_host_memory_instead(status))
            return {};
        return status;
    }
    if (!copied) taken(range);
    status = send(stream, piece);
    // What was not sent is over: an error but EAGAIN ends the whole operation.
    if (!status.ok() && piece.staging != nullptr)
        file_->context()->staging().give_back(std::exchange(piece.staging, nullptr));
    return status;
}

// Memory that cannot be registered (a limit, a mapping of another sort) can still be copied.
bool DataOperation::goes_through_host_memory_instead(const Status& status) {
    if (status.errno_value() == EBUSY || way_.staged || file_->context()->settings().mode != Mode::automatic)
        return false;
    way_.staged = true;
    way_.measured = false;
    way_.reason = "the connection is RDMA, but the memory cannot be registered with its card";
    return true;
}

Result<Staging*> DataOperation::take_staging(uint64_t offset) {
    StagingPool& pool = file_->context()->staging();
    if (Staging* staging = pool.take(way_.kind(), at(offset))) return staging;
    // Somebody else's pieces hold it all; they come back.
    if (!pool.all_free()) return Status(Code::unavailable, EAGAIN, "staging memory is in use");
    return Status(Code::unavailable, ENOMEM, "no memory for staging");
}

// ---- copies, which go on beside what is on the network ----

Copy& DataOperation::prepare_copy(Copy::Work work, const Range& range, Staging* staging) {
    Context& context = *file_->context();
    Copy& copy = context.copier().take();
    copy.work = work;
    copy.kind = &way_.kind();
    copy.memory = at(range.offset);
    copy.host = staging != nullptr ? staging->data : nullptr;
    copy.length = range.length;
    copy.wants_sum = context.settings().verify;
    copy.operation = this;
    copy.staging = staging;
    copy.offset = range.offset;
    copy.asked = range.length;
    return copy;
}

Status DataOperation::start(Copy& copy) {
    Context& context = *file_->context();
    Status status = context.copier().add(context.reactor(), copy);
    if (status.ok())
        ++in_flight;
    else
        give_back(copy);
    return status;
}

Status DataOperation::copy_in(Copy::Work work, Piece& piece) {
    Copy& copy = prepare_copy(work, {piece.offset, piece.got}, std::exchange(piece.staging, nullptr));
    copy.asked = piece.length;
    copy.has_crc = piece.has_crc;
    copy.data_crc = piece.data_crc;
    copy.copied = [](Copy& done) { static_cast<DataOperation*>(done.operation)->taken_in(done); };
    return start(copy);
}

void DataOperation::give_back(Copy& copy) {
    Context& context = *file_->context();
    if (copy.staging != nullptr) context.staging().give_back(std::exchange(copy.staging, nullptr));
    context.copier().give_back(copy);
}

// Of a write: the next range into staging memory.
Status DataOperation::copy_out_next() {
    Range range = next_range();
    Result<Staging*> staging = take_staging(range.offset);
    if (!staging.ok()) return staging.status();
    taken(range);
    Copy& copy = prepare_copy(Copy::Work::out, range, *staging);
    copy.copied = [](Copy& done) { static_cast<DataOperation*>(done.operation)->copied_out(done); };
    return start(copy);
}

void DataOperation::copied_out(Copy& copy) {
    --in_flight;
    if (!copy.status.ok())
        fail({copy.status.code(), copy.status.errno_value(), file_->path() + ": " + copy.status.message()});
    if (failed()) {
        give_back(copy);
    } else {
        (first_copied_ == nullptr ? first_copied_ : last_copied_->next) = &copy;
        last_copied_ = &copy;
        copy.next = nullptr;
    }
    file_->context()->piece_over(*this);
}

// Of a write: the piece carries what lies in staging memory. False: nothing does.
bool DataOperation::send_copied(Piece& piece) {
    Copy* copy = first_copied_;
    if (copy == nullptr) return false;
    first_copied_ = copy->next;
    piece.offset = copy->offset;
    piece.length = copy->asked;
    piece.staging = std::exchange(copy->staging, nullptr);
    piece.has_crc = copy->wants_sum;
    piece.data_crc = copy->sum;
    file_->context()->copier().give_back(*copy);
    return true;
}

void DataOperation::ending() {
    while (Copy* copy = first_copied_) {
        first_copied_ = copy->next;
        give_back(*copy);
    }
    if (!way_.measured || failed()) return;
    Pace::Route route = way_.staged ? Pace::Route::staged : Pace::Route::direct;
    file_->context()->pace().add(sort_of(way_, direction_, length_), route,
                                 moved_[way_.staged ? XDS_PATH_STAGED : XDS_PATH_DIRECT],
                                 std::chrono::steady_clock::now() - began_);
}

// The memory that the message names or carries: the caller's or, staged, the library's.
Status DataOperation::prepare(Stream& stream, Piece& piece) {
    char* own = piece.staging != nullptr ? piece.staging->data : at(piece.offset);
    piece.part = {own, piece.length};
    if (!stream.carries_data_inline()) return expose(stream, piece);
    if (file_->context()->settings().mode == Mode::direct_only) return no_direct_way(*file_->context(), way_.place);
    // Made anew since, over TCP.
    if (piece.staging == nullptr && !way_.kind().host_accessible())
        return {Code::invalid, ENOTSUP, "only the memory's own copy functions reach it"};
    return {};
}

Status DataOperation::expose(Stream& stream, Piece& piece) {
    auto access = direction_ == Direction::read ? memory::Access::write : memory::Access::read;
    const memory::Place& place = piece.staging != nullptr ? piece.staging->place : way_.place;
    return stream.expose(piece, place, piece.part.iov_base, piece.length, access);
}

Status DataOperation::send(Stream& stream, Piece& piece) {
    return direction_ == Direction::read ? send_read(stream, piece) : send_write(stream, piece);
}

Status DataOperation::send_read(Stream& stream, Piece& piece) {
    wire::Read message;
    message.handle = file_->handle(stream);
    message.flags = file_->context()->settings().verify ? wire::io_flags::checksum : 0;
    message.offset = offset_ + piece.offset;
    message.length = piece.length;
    if (piece.by_access) {
        message.segments = std::span<const wire::Segment>(&piece.exposure.segment, 1);
        if (piece.exposure.by_window) message.flags |= wire::io_flags::invalidate;
    }
    return stream.send(piece, message);
}

Status DataOperation::send_write(Stream& stream, Piece& piece) {
    wire::Write message;
    message.handle = file_->handle(stream);
    message.offset = offset_ + piece.offset;
    message.length = piece.length;
    if (file_->context()->settings().verify) {
        Result<uint32_t> sum =
            piece.has_crc ? Result<uint32_t>(piece.data_crc) : way_.kind().crc32c(0, at(piece.offset), piece.length);
        message.flags = sum.ok() ? wire::io_flags::checksum : 0;
        message.data_crc = sum.ok() ? *sum : 0;
    }
    if (piece.by_access) {
        message.segments = std::span<const wire::Segment>(&piece.exposure.segment, 1);
        if (piece.exposure.by_window) message.flags |= wire::io_flags::invalidate;
        return stream.send(piece, message);
    }
    piece.send.iov = &piece.part;
    piece.send.iov_count = 1;
    return stream.send(piece, message, piece.length);
}

void DataOperation::answered(Piece& piece, const wire::Header& header, const wire::Body& body) {
    auto wrong = [&](const char* what) { piece.status = {Code::corrupt, EPROTO, what}; };
    if (direction_ == Direction::write) {
        const auto* reply = std::get_if<wire::WriteReply>(&body);
        if (reply == nullptr || header.data_length != 0 || reply->length > piece.length)
            return wrong("wrong answer to a write");
        piece.got = reply->length;
        file_->wrote(reply->instance);
        return;
    }
    const auto* reply = std::get_if<wire::ReadReply>(&body);
    if (reply == nullptr || header.data_length != (piece.by_access ? 0 : reply->length) || reply->length > piece.length)
        return wrong("wrong answer to a read");
    if (reply->length < piece.length && (reply->flags & wire::io_flags::end_of_file) == 0)
        return wrong("a read ended before the end of the file");
    piece.got = reply->length;
    piece.has_crc = (reply->flags & wire::io_flags::checksum) != 0;
    piece.data_crc = reply->data_crc;
    piece.part.iov_len = piece.got;
    if (piece.got == 0 || piece.by_access) return;
    piece.fetch.iov = &piece.part;
    piece.fetch.iov_count = 1;
}

Status DataOperation::check(uint64_t offset, size_t length, uint32_t sum, bool has_crc, uint32_t data_crc) {
    Counters& counters = file_->context()->counters();
    counters.verified_bytes.fetch_add(length, std::memory_order_relaxed);
    if (has_crc && sum == data_crc) return {};
    counters.checksum_errors.fetch_add(1, std::memory_order_relaxed);
    return {Code::corrupt, EIO,
            file_->path() + ": bytes " + std::to_string(offset_ + offset) + " to " +
                std::to_string(offset_ + offset + length) + " are not those that the storage node read (CRC32C)"};
}

// Of a read: what is still to be done with a piece's data, from staging memory to its own place, or with what a card
// wrote into an accelerator. True: it goes on without the piece. Otherwise piece.status says what came of it.
bool DataOperation::take_in(Piece& piece, xds_path path) {
    const Context& context = *file_->context();
    if (piece.got > 0 && (path == XDS_PATH_STAGED || !way_.kind().host_accessible())) {
        Copy::Work work = path == XDS_PATH_STAGED ? Copy::Work::in : Copy::Work::settle;
        piece.status = copy_in(work, piece);
        return piece.status.ok();
    }
    if (!context.settings().verify) return false;
    Result<uint32_t> sum = way_.kind().crc32c(0, at(piece.offset), piece.got);
    piece.status = sum.ok() ? check(piece.offset, piece.got, *sum, piece.has_crc, piece.data_crc) : sum.status();
    return false;
}

void DataOperation::taken_in(Copy& copy) {
    --in_flight;
    Context& context = *file_->context();
    Status status = copy.status;
    if (status.ok() && copy.wants_sum) status = check(copy.offset, copy.length, copy.sum, copy.has_crc, copy.data_crc);
    if (status.ok())
        moved(copy.staging != nullptr ? XDS_PATH_STAGED : XDS_PATH_DIRECT, copy.offset, copy.asked, copy.length);
    else
        fail({status.code(), status.errno_value(), file_->path() + ": " + status.message()});
    give_back(copy);
    context.piece_over(*this);
}

void DataOperation::moved(xds_path path, uint64_t offset, size_t asked, size_t got) {
    if (got < asked) short_at_ = std::min(short_at_, offset + got);
    moved_[path] += got;
    file_->context()->counters().moved(path, got);
}

void DataOperation::piece_over(Piece& piece) {
    Context& context = *file_->context();
    xds_path path = piece.staging != nullptr ? XDS_PATH_STAGED : (piece.by_access ? XDS_PATH_DIRECT : XDS_PATH_TCP);
    if (piece.status.ok() && !failed() && direction_ == Direction::read && take_in(piece, path)) return;
    const Status& status = piece.status;
    if (piece.staging != nullptr) context.staging().give_back(std::exchange(piece.staging, nullptr));
    if (status.code() == Code::unavailable && !failed() && ++losses_ <= most_losses) {
        again_.push_back({piece.offset, piece.length});
        return;
    }
    if (!status.ok()) return fail({status.code(), status.errno_value(), file_->path() + ": " + status.message()});
    moved(path, piece.offset, piece.length, piece.got);
}

xds_path DataOperation::path() const {
    auto most = std::max_element(moved_.begin(), moved_.end());
    return *most == 0 ? way_.path : static_cast<xds_path>(most - moved_.begin());
}

int64_t DataOperation::result() const {
    if (failed()) return -status().errno_value();
    return static_cast<int64_t>(std::min(length_, short_at_));
}

void FlushOperation::set(File& file) {
    file_ = &file;
    sent_ = false;
    limit = file.context()->settings().timeout;
}

Status FlushOperation::send_next(Stream& stream, Piece& piece) {
    Status status = stream.send(piece, wire::Flush{file_->handle(stream), 0});
    sent_ = status.ok();
    return status;
}

void FlushOperation::answered(Piece& piece, const wire::Header& header, const wire::Body& body) {
    const auto* reply = std::get_if<wire::FlushReply>(&body);
    if (reply == nullptr || header.data_length != 0) {
        piece.status = {Code::corrupt, EPROTO, "wrong answer to a flush"};
        return;
    }
    if (!file_->flushed(reply->instance))
        fail({Code::io, EIO,
              file_->path() + ": the target was restarted since some of the data was written, so that "
                              "data may be lost: write it again"});
}

void FlushOperation::piece_over(Piece& piece) {
    if (!piece.status.ok())
        fail({piece.status.code(), piece.status.errno_value(), file_->path() + ": " + piece.status.message()});
}

}  // namespace fabric::xds::client
