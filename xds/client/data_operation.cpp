#include "xds/client/data_operation.h"

#include <algorithm>

#include "xds/memory/host.h"

namespace fabric::xds::client {
namespace {

// Pieces that may be lost with their connections before a request gives up.
constexpr unsigned most_losses = 256;

}  // namespace

Result<Way> choose_way(const File& file, const void* address, size_t length) {
    Result<memory::Place> place = memory::locate(address, length);
    if (!place.ok()) return place.status();
    Way way;
    way.kind = place->kind;
    Mode mode = file.context()->settings().mode;
    if (file.is_local()) {
        way.path = XDS_PATH_LOCAL;
        way.reason = "the file is not on a mount of the gateway";
    } else if (mode == Mode::direct_only) {
        return Status(Code::invalid, ENOTSUP,
                      "mode direct_only: the connection to " + file.context()->address() +
                          " is TCP, over which a storage node cannot reach this process's memory; it takes an RDMA "
                          "network card on both sides");
    } else if (mode == Mode::staged) {
        way.path = XDS_PATH_STAGED;
        way.reason = "mode staged";
    } else if (way.kind->host_accessible()) {
        way.path = XDS_PATH_TCP;
        way.reason = mode == Mode::tcp ? "mode tcp" : "the connection is TCP; host memory";
    } else {
        way.path = XDS_PATH_STAGED;
        way.reason = "the connection is TCP, and only the memory's own copy functions reach it";
    }
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
    limit = file.context()->settings().timeout;
}

size_t DataOperation::piece_size() const { return file_->context()->settings().piece; }

bool DataOperation::has_more() const {
    return !failed() && (!again_.empty() || (next_ < length_ && next_ < short_at_));
}

Status DataOperation::send_next(Stream& stream, Piece& piece) {
    Context& context = *file_->context();
    bool staged = way_.path == XDS_PATH_STAGED;
    if (staged && (piece.staging = context.staging().take()) == nullptr) {
        stream.give_back(piece);
        // Somebody else's pieces hold it all; they come back.
        if (!context.staging().all_free()) return {Code::unavailable, EAGAIN, "staging memory is in use"};
        return {Code::unavailable, ENOMEM, "no memory for staging"};
    }
    Range range{next_, static_cast<size_t>(std::min<uint64_t>(piece_size(), length_ - next_))};
    bool repeated = !again_.empty();
    if (repeated) {
        range = again_.back();
        again_.pop_back();
    }
    piece.offset = range.offset;
    piece.length = range.length;
    auto give_up = [&](Status why) {
        if (staged) context.staging().give_back(std::exchange(piece.staging, nullptr));
        return why;
    };
    Status sent;
    if (direction_ == Direction::read) {
        wire::Read message;
        message.handle = file_->handle(stream);
        message.flags = context.settings().verify ? wire::io_flags::checksum : 0;
        message.offset = offset_ + range.offset;
        message.length = range.length;
        sent = stream.send(piece, message);
    } else {
        piece.part = {staged ? piece.staging->data : at(range.offset), range.length};
        if (staged)
            if (Status copied = way_.kind->copy_out(piece.staging->data, at(range.offset), range.length);
                !copied.ok()) {
                stream.give_back(piece);
                return give_up(copied);
            }
        wire::Write message;
        message.handle = file_->handle(stream);
        message.offset = offset_ + range.offset;
        message.length = range.length;
        if (context.settings().verify) {
            Result<uint32_t> sum = way_.kind->crc32c(0, at(range.offset), range.length);
            message.flags = sum.ok() ? wire::io_flags::checksum : 0;
            message.data_crc = sum.ok() ? *sum : 0;
        }
        piece.send.iov = &piece.part;
        piece.send.iov_count = 1;
        sent = stream.send(piece, message, range.length);
    }
    if (!sent.ok()) return give_up(sent);
    if (!repeated) next_ += range.length;
    return sent;
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
    if (reply == nullptr || header.data_length != reply->length || reply->length > piece.length)
        return wrong("wrong answer to a read");
    if (reply->length < piece.length && (reply->flags & wire::io_flags::end_of_file) == 0)
        return wrong("a read ended before the end of the file");
    piece.got = reply->length;
    piece.has_crc = (reply->flags & wire::io_flags::checksum) != 0;
    piece.data_crc = reply->data_crc;
    piece.part = {piece.staging != nullptr ? piece.staging->data : at(piece.offset), piece.got};
    if (piece.got == 0) return;
    piece.fetch.iov = &piece.part;
    piece.fetch.iov_count = 1;
}

// From staging to the memory itself, and the check of what lies there then.
Status DataOperation::take_in(Piece& piece) {
    Counters& counters = file_->context()->counters();
    if (piece.staging != nullptr && piece.got > 0)
        FABRIC_RETURN_IF_ERROR(way_.kind->copy_in(at(piece.offset), piece.staging->data, piece.got));
    if (!file_->context()->settings().verify) return {};
    Result<uint32_t> sum = way_.kind->crc32c(0, at(piece.offset), piece.got);
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
    if (piece.staging != nullptr) context.staging().give_back(std::exchange(piece.staging, nullptr));
    if (status.code() == Code::unavailable && !failed() && ++losses_ <= most_losses) {
        again_.push_back({piece.offset, piece.length});
        return;
    }
    if (!status.ok()) return fail({status.code(), status.errno_value(), file_->path() + ": " + status.message()});
    if (piece.got < piece.length) short_at_ = std::min(short_at_, piece.offset + piece.got);
    auto& bytes = way_.path == XDS_PATH_STAGED ? context.counters().staged_bytes : context.counters().tcp_bytes;
    bytes.fetch_add(piece.got, std::memory_order_relaxed);
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
