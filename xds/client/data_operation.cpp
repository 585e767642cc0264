#include "xds/client/data_operation.h"

#include <algorithm>

#include "xds/memory/host.h"

namespace fabric::xds::client {
namespace {

// Pieces that may be lost with their connections before a request gives up.
constexpr unsigned most_losses = 256;

Status no_direct_way(const Context& context, const memory::Kind& kind) {
    if (context.over_rdma())
        return {Code::invalid, ENOTSUP,
                "mode direct_only: " + std::string(kind.name()) +
                    " memory cannot be registered with the RDMA network card"};
    return {Code::invalid, ENOTSUP,
            "mode direct_only: the connection to " + context.address() +
                " is TCP, over which a storage node cannot reach this process's memory; it takes an RDMA network card "
                "on both sides (" +
                context.why_not_direct() + ")"};
}

}  // namespace

Result<Way> choose_way(const File& file, const void* address, size_t length) {
    Result<memory::Place> place = memory::locate(address, length);
    if (!place.ok()) return place.status();
    Way way;
    way.place = *place;
    if (file.is_local()) {
        way.path = XDS_PATH_LOCAL;
        way.reason = "the file is not on a mount of the gateway";
        return way;
    }
    const Context& context = *file.context();
    way.place = context.look_up(*place, address, length);
    Mode mode = context.settings().mode;
    bool host = way.kind().host_accessible(), rdma = context.over_rdma();
    if (mode == Mode::direct_only && (!rdma || !host)) return no_direct_way(context, way.kind());
    way.staged = mode == Mode::staged || !host;
    way.path = way.staged ? XDS_PATH_STAGED : (rdma ? XDS_PATH_DIRECT : XDS_PATH_TCP);
    if (mode == Mode::staged)
        way.reason = "mode staged";
    else if (rdma)
        way.reason = host ? "the connection is RDMA; host memory"
                          : "the connection is RDMA, and only the memory's own copy functions reach it";
    else if (host)
        way.reason = mode == Mode::tcp ? "mode tcp" : "the connection is TCP; host memory";
    else
        way.reason = "the connection is TCP, and only the memory's own copy functions reach it";
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
    limit = file.context()->settings().timeout;
}

size_t DataOperation::piece_size() const { return file_->context()->settings().piece; }

bool DataOperation::has_more() const {
    return !failed() && (!again_.empty() || (next_ < length_ && next_ < short_at_));
}

Status DataOperation::send_next(Stream& stream, Piece& piece) {
    Range range{next_, static_cast<size_t>(std::min<uint64_t>(piece_size(), length_ - next_))};
    bool repeated = !again_.empty();
    if (repeated) range = again_.back();
    piece.offset = range.offset;
    piece.length = range.length;
    Status status = take_staging(piece);
    if (status.ok()) status = prepare(stream, piece);
    if (!status.ok()) {
        stream.give_back(piece);
    } else {
        if (repeated)
            again_.pop_back();
        else
            next_ += range.length;
        status = send(stream, piece);
    }
    // What was not sent is over: an error but EAGAIN ends the whole operation.
    if (!status.ok() && piece.staging != nullptr)
        file_->context()->staging().give_back(std::exchange(piece.staging, nullptr));
    return status;
}

Status DataOperation::take_staging(Piece& piece) {
    if (!way_.staged) return {};
    StagingPool& pool = file_->context()->staging();
    if ((piece.staging = pool.take()) != nullptr) return {};
    // Somebody else's pieces hold it all; they come back.
    if (!pool.all_free()) return {Code::unavailable, EAGAIN, "staging memory is in use"};
    return {Code::unavailable, ENOMEM, "no memory for staging"};
}

// The memory that the message names or carries: the caller's or, staged, the library's.
Status DataOperation::prepare(Stream& stream, Piece& piece) {
    char* own = piece.staging != nullptr ? piece.staging->data : at(piece.offset);
    piece.part = {own, piece.length};
    if (piece.staging != nullptr && direction_ == Direction::write)
        FABRIC_RETURN_IF_ERROR(way_.kind().copy_out(own, at(piece.offset), piece.length));
    if (!stream.carries_data_inline()) return expose(stream, piece);
    if (file_->context()->settings().mode == Mode::direct_only) return no_direct_way(*file_->context(), way_.kind());
    return {};
}

Status DataOperation::expose(Stream& stream, Piece& piece) {
    auto access = direction_ == Direction::read ? memory::Access::write : memory::Access::read;
    const memory::Place& place = piece.staging != nullptr ? piece.staging->place : way_.place;
    Status status = stream.expose(piece, place, piece.part.iov_base, piece.length, access);
    if (status.ok() || piece.staging != nullptr || file_->context()->settings().mode != Mode::automatic) return status;
    // Memory that cannot be registered (a limit, a mapping of another sort) can still be copied.
    way_.staged = true;
    way_.reason = "the connection is RDMA, but the memory cannot be registered with its card";
    FABRIC_RETURN_IF_ERROR(take_staging(piece));
    return prepare(stream, piece);
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
        Result<uint32_t> sum = way_.kind().crc32c(0, at(piece.offset), piece.length);
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

// From staging to the memory itself, and the check of what lies there then.
Status DataOperation::take_in(Piece& piece) {
    Counters& counters = file_->context()->counters();
    if (piece.staging != nullptr && piece.got > 0)
        FABRIC_RETURN_IF_ERROR(way_.kind().copy_in(at(piece.offset), piece.staging->data, piece.got));
    if (!file_->context()->settings().verify) return {};
    Result<uint32_t> sum = way_.kind().crc32c(0, at(piece.offset), piece.got);
    if (!sum.ok()) return sum.status();
    counters.verified_bytes.fetch_add(piece.got, std::memory_order_relaxed);
    if (piece.has_crc && *sum == piece.data_crc) return {};
    counters.checksum_errors.fetch_add(1, std::memory_order_relaxed);
    return {Code::corrupt, EIO,
            file_->path() + ": bytes " + std::to_string(offset_ + piece.offset) + " to " +
                std::to_string(offset_ + piece.offset + piece.got) +
                " are not those that the storage node read (CRC32C)"};
}

void DataOperation::piece_over(Piece& piece) {
    Context& context = *file_->context();
    Status status = piece.status;
    if (status.ok() && direction_ == Direction::read) status = take_in(piece);
    xds_path path = piece.staging != nullptr ? XDS_PATH_STAGED : (piece.by_access ? XDS_PATH_DIRECT : XDS_PATH_TCP);
    if (piece.staging != nullptr) context.staging().give_back(std::exchange(piece.staging, nullptr));
    if (status.code() == Code::unavailable && !failed() && ++losses_ <= most_losses) {
        again_.push_back({piece.offset, piece.length});
        return;
    }
    if (!status.ok()) return fail({status.code(), status.errno_value(), file_->path() + ": " + status.message()});
    if (piece.got < piece.length) short_at_ = std::min(short_at_, piece.offset + piece.got);
    moved_[path] += piece.got;
    context.counters().moved(path, piece.got);
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
