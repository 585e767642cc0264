#include "burstbuffer/store/read.h"

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

#include "burstbuffer/store/local_store.h"
#include "burstbuffer/store/store_metrics.h"
#include "burstbuffer/store/transfer.h"
#include "common/crc32c.h"
#include "common/fault.h"
#include "common/log.h"

namespace fabric::store {

namespace {
constexpr size_t block = Place::block_size;
constexpr size_t unit = ChunkRecord::checksum_unit;
constexpr size_t up(size_t value, size_t to) { return (value + to - 1) / to * to; }
constexpr size_t down(size_t value, size_t to) { return value / to * to; }
}  // namespace

void LocalStore::start(Read& read) {
    if (!read.begin(*this)) read.end(Read::Outcome::miss);
}

bool LocalStore::start_if_there(Read& read) {
    if (read.begin(*this)) return true;
    Grace::leave(read.token_);
    return false;
}

void LocalStore::refuse(Read& read) { read.refuse(*this); }

void Read::refuse(LocalStore& store) {
    store_ = &store;
    memory_left = only_here = false;
    token_ = store.segments_->grace().enter();
    status = store.not_answering();
    end(Outcome::failed);
}

// False: there is no such chunk, and the caller ends it.
bool Read::begin(LocalStore& store) {
    store_ = &store;
    status = {};
    bytes = 0;
    memory_left = only_here = false;
    token_ = record ? token : store.segments_->grace().enter();
    Result<std::optional<ChunkRecord>> found = record ? record : store.index_->find(*key);
    if (!found.ok()) {
        status = store.told(found.status());
        end(Outcome::failed);
        return true;
    }
    if (!found->has_value()) return false;
    record_ = **found;
    only_here = record_.dirty != 0;
    if (record_.lifetime.expires != 0 && record_.dirty == 0 && record_.lifetime.over(time(nullptr))) return false;
    if (offset >= record_.length || size == 0) {
        end(Outcome::hit);
        return true;
    }
    if (store.hung()) {
        status = store.not_answering();
        end(Outcome::failed);
        return true;
    }
    bytes = std::min<size_t>(size, record_.length - offset);
    Result<int> descriptor = store.segments_->descriptor(record_.place.segment);
    if (!descriptor.ok()) {
        status = descriptor.status();
        store.forget_damaged(*key, record_);
        end(record_.dirty != 0 ? Outcome::failed : Outcome::damaged);
        return true;
    }
    fd_ = *descriptor;
    layout();
    if (head_ + tail_ == 0) {
        submit();
        return true;
    }
    bounce_.read = this;
    bounce_.bytes = head_ + tail_;
    bounce_.granted = [](io::BufferPool::Ticket& ticket) { static_cast<Bounce&>(ticket).read->submit(); };
    if (store.pool_.take(bounce_)) submit();
    return true;
}

// The transfer covers whole checksum units. What the caller wants of it goes straight to `to` where the alignment
// allows.
void Read::layout() {
    first_ = down(offset, unit);
    size_t wanted_end = offset + bytes;
    size_t last = std::min(up(wanted_end, unit), up(record_.length, block));
    bool aligned = reinterpret_cast<uintptr_t>(to) % block == 0 && offset % block == 0;
    // Who cannot do without the memory does not give it to a disk that has become slow.
    if (aligned && release == nullptr && store_->stuck(1)) aligned = false;
    direct_ = aligned ? down(bytes, block) : 0;
    head_ = direct_ != 0 ? offset - first_ : last - first_;
    tail_ = last - first_ - head_ - direct_;
}

void Read::submit() {
    if (head_ + tail_ != 0 && bounce_.buffer == nullptr) {
        status = Status::from_errno(ENOMEM, "store: no memory for a read");
        return end(Outcome::failed);
    }
    transfer_ = &store_->transfers_.take();
    Transfer& transfer = *transfer_;
    transfer.buffer.reset(std::exchange(bounce_.buffer, nullptr));
    char* bounced = transfer.buffer != nullptr ? transfer.buffer->data() : nullptr;
    if (head_ != 0) transfer.parts.push_back({bounced, head_});
    if (direct_ != 0) transfer.parts.push_back({to, direct_});
    if (tail_ != 0) transfer.parts.push_back({bounced + head_, tail_});
    transfer.op = io::Op::read;
    transfer.fd = fd_;
    transfer.offset = record_.place.offset() + first_;
    transfer.length = head_ + direct_ + tail_;
    transfer.alignment = block;
    transfer.point = "store.read";
    transfer.owner = this;
    transfer.ended = [](Transfer& ended) { static_cast<Read*>(ended.owner)->completed(); };
    if (direct_ == 0 || release != nullptr) {
        transfer.left = [](Transfer& waits) { static_cast<Read*>(waits.owner)->leave(); };
    }
    if (direct_ != 0) {
        transfer.release = release;
        transfer.released = released;
    }
    slot_ = store_->in_flight_.begin();
    store_->transfers_.start(transfer);
}

void Read::completed() {
    int error = transfer_->error;
    if (error == 0) error = store_->fault("store.read");
    InFlight::end(slot_);
    if (error == 0 && transfer_->done == transfer_->length && checksums_match()) {
        copy_out();
        return end(Outcome::hit);
    }
    status = error != 0 ? Status::from_errno(error, "store: reading a segment")
                        : Status(Code::corrupt, EIO, "store: a chunk does not match its checksum");
    if (error == 0) metrics().damaged.add(1);
    status = store_->told(std::move(status));
    store_->forget_damaged(*key, record_);
    end(record_.dirty != 0 ? Outcome::failed : Outcome::damaged);
}

// The disk keeps what it was given until it answers; this read does without.
void Read::leave() {
    InFlight::end(slot_);
    memory_left = direct_ != 0;
    transfer_ = nullptr;
    status = store_->told(store_->not_answering());
    end(Outcome::failed);
}

// A unit may begin in one part and end in the next.
bool Read::checksums_match() const {
    size_t number = first_ / unit;
    size_t left = std::min<size_t>(transfer_->length, record_.length - first_);
    const iovec* at = transfer_->parts.data();
    size_t used = 0;
    while (left > 0) {
        size_t in_unit = std::min(left, unit);
        left -= in_unit;
        uint32_t sum = 0;
        while (in_unit > 0) {
            size_t piece = std::min(in_unit, at->iov_len - used);
            sum = crc32c_extend(sum, static_cast<const char*>(at->iov_base) + used, piece);
            in_unit -= piece;
            used += piece;
            if (used == at->iov_len) ++at, used = 0;
        }
        if (sum != record_.checksums[number++]) return false;
    }
    return true;
}

void Read::copy_out() {
    size_t rest = bytes - direct_;
    metrics().bytes_read.add(static_cast<int64_t>(bytes));
    metrics().bytes_copied.add(static_cast<int64_t>(rest));
    if (rest == 0) return;
    const char* from = transfer_->buffer->data() + (direct_ != 0 ? head_ : offset - first_);
    memcpy(to + direct_, from, rest);
}

void Read::end(Outcome with) {
    outcome = with;
    if (with != Outcome::hit) bytes = 0;
    (with == Outcome::hit ? metrics().hits : metrics().misses).add(1);
    if (transfer_ != nullptr) store_->transfers_.give_back(*std::exchange(transfer_, nullptr));
    Grace::leave(token_);
    finished(*this);
}

}  // namespace fabric::store
