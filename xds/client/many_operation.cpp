#include "xds/client/many_operation.h"

#include <algorithm>

#include "common/crc32c.h"

namespace fabric::xds::client {
namespace {

// Files of one message: enough that the message costs little for each, few enough that several threads of the target
// have something to do.
constexpr size_t files_at_once = 128;

// Bytes from which a file is not small.
constexpr size_t small = 64 << 10;

// Of a message beside its entries and names: counts, lengths, flags and one segment.
constexpr size_t message_overhead = 64;

}  // namespace

// Over RDMA memory of the library is lent to the target, once for a batch: lending that of each small file would cost
// more than to copy it. What is not small goes to its own memory, a message for each.
bool ManyOperation::goes_directly(const Stream& stream, size_t index) const {
    if (stream.carries_data_inline() || !kinds_[index]->host_accessible()) return false;
    return files_[index].length >= small || context_.settings().mode == Mode::direct_only;
}

// Batches end where the next file would not fit into a message, or where the way of the data changes.
size_t ManyOperation::batch_end(const Stream& stream, size_t from) const {
    if (goes_directly(stream, from)) return from + 1;
    bool host = kinds_[from]->host_accessible(), is_inline = stream.carries_data_inline();
    size_t room = host && is_inline ? wire::max_data : context_.staging().size();
    size_t message = stream.message_limit() - wire::header_size - message_overhead;
    size_t end = from;
    for (; end < files_.size() && end - from < files_at_once; ++end) {
        const xds_many& file = files_[end];
        size_t entry = std::string_view(file.path).size() + wire::ManyEntry::wire_size;
        if (kinds_[end]->host_accessible() != host || file.length > room || entry > message ||
            (end > from && goes_directly(stream, end)))
            break;
        room -= file.length;
        message -= entry;
    }
    return end;
}

// Memory for the batch's data where that is not the callers' own.
Status ManyOperation::prepare(Stream& stream, Piece& piece) {
    bool is_inline = stream.carries_data_inline(), direct = goes_directly(stream, piece.first);
    if (context_.settings().mode == Mode::direct_only && !direct)
        return {Code::invalid, ENOTSUP,
                "mode direct_only: " + (is_inline ? context_.why_not_direct() : "memory that no RDMA card reaches")};
    if (is_inline && kinds_[piece.first]->host_accessible()) return {};
    const xds_many& file = files_[piece.first];
    if (direct)
        return stream.expose(piece, memory::Place{kinds_[piece.first], {}}, file.buffer, file.length,
                             memory::Access::write);
    if ((piece.staging = context_.staging().take(*kinds_[piece.first], file.buffer)) == nullptr) {
        if (!context_.staging().all_free()) return {Code::unavailable, EAGAIN, "staging memory is in use"};
        return {Code::unavailable, ENOMEM, "no memory for staging"};
    }
    if (is_inline) return {};
    return stream.expose(piece, piece.staging->place, piece.staging->data, context_.staging().size(),
                         memory::Access::write);
}

Status ManyOperation::send_next(Stream& stream, Piece& piece) {
    piece.first = next_;
    piece.last = batch_end(stream, next_);
    auto give_up = [&](Status why) {
        if (piece.staging != nullptr) context_.staging().give_back(std::exchange(piece.staging, nullptr));
        return why;
    };
    Status ready = piece.last > piece.first
                       ? prepare(stream, piece)
                       : Status(Code::invalid, EMSGSIZE,
                                std::string(files_[next_].path) + ": too long for a batch; read it by itself");
    if (!ready.ok()) {
        stream.give_back(piece);
        return give_up(ready);
    }
    entries_.clear();
    names_.clear();
    uint64_t placement = 0;
    for (size_t i = piece.first; i < piece.last; ++i) {
        std::string_view name = files_[i].path;
        entries_.push_back({static_cast<uint32_t>(names_.size()), static_cast<uint16_t>(name.size()), 0,
                            static_cast<uint32_t>(files_[i].length), 0, piece.by_access ? placement : 0});
        names_ += name;
        placement += files_[i].length;
    }
    wire::ReadMany message;
    message.flags = context_.settings().verify ? wire::io_flags::checksum : 0;
    message.entries = std::span<const wire::ManyEntry>(entries_);
    message.names = names_;
    if (piece.by_access) {
        message.segments = std::span<const wire::Segment>(&piece.exposure.segment, 1);
        if (piece.exposure.by_window) message.flags |= wire::io_flags::invalidate;
    }
    Status sent = stream.send(piece, message);
    if (!sent.ok()) return give_up(sent);
    next_ = piece.last;
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
    if (!right || header.data_length != (piece.by_access ? 0 : total)) {
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
    if (total == 0 || piece.by_access) return;
    piece.fetch.iov = piece.parts.data();
    piece.fetch.iov_count = static_cast<int>(piece.parts.size());
}

// From staging to the files' own memory, and the sum of what lies there then.
Status ManyOperation::take_in(const Piece& piece, uint64_t& bytes) {
    uint32_t sum = 0;
    uint64_t at = 0;
    for (size_t i = piece.first; i < piece.last; ++i) {
        xds_many& file = files_[i];
        if (piece.staging != nullptr && file.got > 0)
            FABRIC_RETURN_IF_ERROR(kinds_[i]->copy_in(file.buffer, piece.staging->data + at, file.got));
        if (context_.settings().verify && file.got > 0) {
            Result<uint32_t> extended = kinds_[i]->crc32c(sum, file.buffer, file.got);
            if (!extended.ok()) return extended.status();
            sum = *extended;
        }
        bytes += file.got;
        at += piece.by_access ? file.length : file.got;
    }
    if (!context_.settings().verify) return {};
    context_.counters().verified_bytes.fetch_add(bytes, std::memory_order_relaxed);
    if (piece.has_crc && sum == piece.data_crc) return {};
    context_.counters().checksum_errors.fetch_add(1, std::memory_order_relaxed);
    return {Code::corrupt, EIO, "a batch's bytes are not those that the storage node read (CRC32C)"};
}

void ManyOperation::piece_over(Piece& piece) {
    uint64_t bytes = 0;
    Status status = piece.status.ok() ? take_in(piece, bytes) : piece.status;
    xds_path path = piece.staging != nullptr ? XDS_PATH_STAGED : (piece.by_access ? XDS_PATH_DIRECT : XDS_PATH_TCP);
    if (piece.staging != nullptr) context_.staging().give_back(std::exchange(piece.staging, nullptr));
    if (!status.ok()) return fail(status);
    context_.counters().moved(path, bytes);
}

}  // namespace fabric::xds::client
