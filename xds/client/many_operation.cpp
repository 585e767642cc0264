#include "xds/client/many_operation.h"

#include <algorithm>

#include "common/crc32c.h"

namespace fabric::xds::client {
namespace {

// Files of one message: enough that the message costs little for each, few enough that several threads of the target
// have something to do.
constexpr size_t files_at_once = 128;

}  // namespace

// Batches end where the next file would not fit into a message, or where the kind of memory changes.
size_t ManyOperation::batch_end(size_t from) const {
    bool host = kinds_[from]->host_accessible();
    size_t room = host ? wire::max_data : context_.staging().size();
    size_t names = wire::max_body - wire::max_many * wire::ManyEntry::wire_size - 64;
    size_t end = from;
    for (; end < files_.size() && end - from < files_at_once; ++end) {
        const xds_many& file = files_[end];
        size_t name = std::string_view(file.path).size();
        if (kinds_[end]->host_accessible() != host || file.length > room || name > names) break;
        room -= file.length;
        names -= name;
    }
    return end;
}

Status ManyOperation::send_next(Stream& stream, Piece& piece) {
    piece.first = next_;
    piece.last = batch_end(next_);
    if (piece.last == piece.first) {
        stream.give_back(piece);
        return {Code::invalid, EMSGSIZE, std::string(files_[next_].path) + ": too long for a batch; read it by itself"};
    }
    bool host = kinds_[piece.first]->host_accessible();
    if (!host && (piece.staging = context_.staging().take()) == nullptr) {
        stream.give_back(piece);
        if (!context_.staging().all_free()) return {Code::unavailable, EAGAIN, "staging memory is in use"};
        return {Code::unavailable, ENOMEM, "no memory for staging"};
    }
    entries_.clear();
    names_.clear();
    for (size_t i = piece.first; i < piece.last; ++i) {
        std::string_view name = files_[i].path;
        entries_.push_back({static_cast<uint32_t>(names_.size()), static_cast<uint16_t>(name.size()), 0,
                            static_cast<uint32_t>(files_[i].length), 0, 0});
        names_ += name;
    }
    wire::ReadMany message;
    message.flags = context_.settings().verify ? wire::io_flags::checksum : 0;
    message.entries = std::span<const wire::ManyEntry>(entries_);
    message.names = names_;
    Status sent = stream.send(piece, message);
    if (sent.ok())
        next_ = piece.last;
    else if (piece.staging != nullptr)
        context_.staging().give_back(std::exchange(piece.staging, nullptr));
    return sent;
}

void ManyOperation::answered(Piece& piece, const wire::Header& header, const wire::Body& body) {
    const auto* reply = std::get_if<wire::ReadManyReply>(&body);
    uint64_t total = 0;
    bool right = reply != nullptr && reply->results.size() == piece.last - piece.first;
    piece.parts.clear();
    for (size_t i = 0; right && i < reply->results.size(); ++i) {
        wire::ManyResult result = reply->results[i];
        xds_many& file = files_[piece.first + i];
        right = result.length <= file.length && result.error < 4096 && (result.error == 0 || result.length == 0);
        file.error = -static_cast<int32_t>(result.error);
        file.got = result.length;
        file.file_size = result.size;
        if (result.length > 0 && right)
            piece.parts.push_back(
                {piece.staging != nullptr ? piece.staging->data + total : file.buffer, result.length});
        total += result.length;
    }
    if (!right || total != header.data_length) {
        piece.status = {Code::corrupt, EPROTO, "wrong answer to a read_many"};
        return;
    }
    piece.has_crc = (reply->flags & wire::io_flags::checksum) != 0;
    if (piece.has_crc) {
        // Checked when the data is here: the sum of the whole batch follows from those of its files.
        piece.data_crc = 0;
        for (size_t i = 0; i < reply->results.size(); ++i) {
            wire::ManyResult result = reply->results[i];
            piece.data_crc = crc32c_combine(piece.data_crc, result.data_crc, result.length);
        }
    }
    if (total == 0) return;
    piece.fetch.iov = piece.parts.data();
    piece.fetch.iov_count = static_cast<int>(piece.parts.size());
}

void ManyOperation::piece_over(Piece& piece) {
    Status status = piece.status;
    uint64_t bytes = 0;
    uint32_t sum = 0;
    for (size_t i = piece.first; i < piece.last && status.ok(); ++i) {
        xds_many& file = files_[i];
        if (piece.staging != nullptr && file.got > 0)
            status = kinds_[i]->copy_in(file.buffer, piece.staging->data + bytes, file.got);
        if (status.ok() && context_.settings().verify && file.got > 0) {
            Result<uint32_t> extended = kinds_[i]->crc32c(sum, file.buffer, file.got);
            if (extended.ok()) sum = *extended;
            status = extended.status();
        }
        bytes += file.got;
    }
    Counters& counters = context_.counters();
    if (status.ok() && context_.settings().verify) {
        counters.verified_bytes.fetch_add(bytes, std::memory_order_relaxed);
        if (!piece.has_crc || sum != piece.data_crc) {
            counters.checksum_errors.fetch_add(1, std::memory_order_relaxed);
            status = {Code::corrupt, EIO, "a batch's bytes are not those that the storage node read (CRC32C)"};
        }
    }
    auto& counter = piece.staging != nullptr ? counters.staged_bytes : counters.tcp_bytes;
    if (piece.staging != nullptr) context_.staging().give_back(std::exchange(piece.staging, nullptr));
    if (!status.ok()) return fail(status);
    counter.fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace fabric::xds::client
