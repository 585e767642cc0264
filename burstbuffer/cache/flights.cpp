#include "burstbuffer/cache/flights.h"

#include <algorithm>
#include <set>

#include "burstbuffer/cache/cache_metrics.h"

namespace fabric::cache {

using index::ChunkKey;

namespace {

// Small chunks are written together up to this, in bytes; half of what the store moves at once.
constexpr size_t batch_bytes = size_t{2} << 20;

size_t length_of(const ChunkKey& key) {
    uint64_t begin = uint64_t{key.number} * ChunkKey::chunk_size;
    return std::min<uint64_t>(ChunkKey::chunk_size, key.version.size - begin);
}

}  // namespace

Flights::Flights(disks::Disks& disks, Backing& backing, io::BufferPool& pool, const Options& options, Landed landed,
                 std::function<void(size_t)> wrote)
    : disks_(disks), backing_(backing), pool_(pool), options_(options), landed_(landed), wrote_(std::move(wrote)) {
    for (unsigned i = 0; i < std::max(options.writers, 1U); ++i) {
        writers_.emplace_back([this](const std::stop_token& stop) { write(stop); });
    }
}

Flights::~Flights() {
    std::unique_lock lock(mutex_);
    landed_all_.wait(lock, [&] { return on_their_way_ == 0 && tasks_.empty(); });
}

Flights::Flight::~Flight() {
    flights->bytes_ -= size;
    buffer.reset();
    std::lock_guard lock(flights->mutex_);
    --flights->on_their_way_;
    flights->landed_all_.notify_all();
}

Flights::FlightPtr Flights::prepare(const ChunkKey& key, store::Stream stream) {
    size_t size = length_of(key);
    if (bytes_.fetch_add(size) + size > options_.bytes) {
        bytes_ -= size;
        return nullptr;
    }
    io::LentBuffer buffer(pool_.try_take(size));
    if (buffer == nullptr) {
        bytes_ -= size;
        return nullptr;
    }
    {
        std::lock_guard lock(mutex_);
        ++on_their_way_;
    }
    auto flight = std::make_shared<Flight>();
    flight->flights = this;
    flight->key = key;
    flight->name = key.encode();
    flight->stream = stream;
    flight->buffer = std::move(buffer);
    flight->file = key.file;
    flight->version = key.version;
    flight->offset = uint64_t{key.number} * ChunkKey::chunk_size;
    flight->size = size;
    flight->to = flight->buffer->data();
    flight->finished = [](Backing::Fetch& fetch) {
        FlightPtr done = std::move(static_cast<Flight&>(fetch).self);
        done->flights->fetched(done);
    };
    return flight;
}

// As it was found, or with the new one added. A chunk that has landed and is being written is handed over at once.
Flights::Joined Flights::join_or_add(const FlightPtr& flight, Read* read) {
    std::string name = flight != nullptr ? flight->name : read->part_.key->encode();
    Shard& in = shard(name);
    std::unique_lock lock(in.mutex);
    auto found = in.flights.find(name);
    if (found == in.flights.end()) {
        if (flight != nullptr) {
            flight->waiting = read;
            in.flights.emplace(name, flight);
        }
        return Joined::none;
    }
    if (read == nullptr) return Joined::waits;
    FlightPtr known = found->second;
    if (!known->landed) {
        read->next_waiting_ = known->waiting;
        known->waiting = read;
        return Joined::waits;
    }
    lock.unlock();
    landed_(*read, known->to);
    return Joined::waits;
}

Flights::Joined Flights::join(Read& read) { return join_or_add(nullptr, &read); }

Flights::Joined Flights::depart(const ChunkKey& key, store::Stream stream, Read* read) {
    FlightPtr flight = prepare(key, stream);
    if (flight == nullptr) return Joined::none;
    if (join_or_add(flight, read) == Joined::waits) return Joined::waits;
    // It may have been written since the reader looked; from here on it cannot be without us.
    if (disks_.find(key)) {
        Read* others = nullptr;
        {
            Shard& in = shard(flight->name);
            std::lock_guard lock(in.mutex);
            in.flights.erase(flight->name);
            others = flight->waiting;
        }
        while (others != nullptr) {
            Read* next = others->next_waiting_;
            if (others != read) landed_(*others, nullptr);
            others = next;
        }
        return Joined::on_disk;
    }
    flight->self = flight;
    backing_.start(*flight);
    return Joined::waits;
}

void Flights::remove(const Flight& flight) {
    Shard& in = shard(flight.name);
    std::lock_guard lock(in.mutex);
    in.flights.erase(flight.name);
}

void Flights::fetched(const FlightPtr& flight) {
    Read* waiting = nullptr;
    {
        Shard& in = shard(flight->name);
        std::lock_guard lock(in.mutex);
        waiting = std::exchange(flight->waiting, nullptr);
        flight->landed = flight->status.ok();
        if (!flight->landed) in.flights.erase(flight->name);
    }
    if (flight->landed) {
        metrics().fetched_bytes.add(static_cast<int64_t>(flight->size));
        std::lock_guard lock(mutex_);
        to_write_.push_back(flight);
        arrived_.notify_one();
    } else if (flight->status.errno_value() == ESTALE) {
        metrics().stale.add(1);
    }
    while (waiting != nullptr) {
        Read& read = *waiting;
        waiting = std::exchange(read.next_waiting_, nullptr);
        landed_(read, flight->landed ? flight->to : nullptr);
    }
}

void Flights::run_later(std::function<void()> task) {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    arrived_.notify_one();
}

void Flights::write(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (arrived_.wait(lock, stop, [&] { return !to_write_.empty() || !tasks_.empty(); })) {
        if (!tasks_.empty()) {
            std::function<void()> task = std::move(tasks_.front());
            tasks_.pop_front();
            ++on_their_way_;
            lock.unlock();
            task();
            lock.lock();
            --on_their_way_;
            landed_all_.notify_all();
            continue;
        }
        std::vector<FlightPtr> batch;
        size_t bytes = 0;
        while (!to_write_.empty() && (batch.empty() || bytes + to_write_.front()->size <= batch_bytes)) {
            bytes += to_write_.front()->size;
            batch.push_back(std::move(to_write_.front()));
            to_write_.pop_front();
        }
        lock.unlock();
        write_batch(batch);
        batch.clear();
        lock.lock();
    }
}

void Flights::write_batch(const std::vector<FlightPtr>& batch) {
    for (store::Stream stream : {store::Stream::fresh, store::Stream::kept}) {
        std::vector<disks::Entry> entries;
        std::set<size_t> written;
        for (const FlightPtr& flight : batch) {
            if (flight->stream != stream) continue;
            entries.push_back({*flight->key, {flight->to, flight->size}});
            written.insert(disks_.home(*flight->key));
        }
        if (entries.empty()) continue;
        Datasets::Admitted admitted;
        if (options_.datasets != nullptr) {
            admitted = options_.datasets->admit(disks_, entries);
            entries = std::move(admitted.entries);
        }
        metrics().admitted.add(static_cast<int64_t>(disks_.put_clean(entries, {.stream = stream, .lifetime = {}})));
        for (size_t disk : written) wrote_(disk);
    }
    for (const FlightPtr& flight : batch) remove(*flight);
}

}  // namespace fabric::cache
