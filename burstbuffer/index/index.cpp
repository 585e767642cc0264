#include "burstbuffer/index/index.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/merge_operator.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>

#include <array>
#include <utility>
#include <vector>

#include "burstbuffer/index/coding.h"

namespace fabric::index {

namespace {

// The column families. Everything but the chunks can be derived from them.
enum Family : uint32_t { other, chunks, residents, segment_use, dirty_order, dataset_uses };
constexpr std::array<const char*, 6> family_names{"default", "chunks", "residents", "segments", "dirty", "datasets"};

class AddSegmentUse : public rocksdb::AssociativeMergeOperator {
  public:
    bool Merge(const rocksdb::Slice&, const rocksdb::Slice* existing, const rocksdb::Slice& value, std::string* result,
               rocksdb::Logger*) const override {
        Result<SegmentUse> sum = SegmentUse::decode({value.data(), value.size()});
        if (!sum.ok()) return false;
        if (existing != nullptr) {
            Result<SegmentUse> before = SegmentUse::decode({existing->data(), existing->size()});
            if (!before.ok()) return false;
            *sum += *before;
        }
        *result = sum->encode();
        return true;
    }
    const char* Name() const override { return "fabric.AddSegmentUse.1"; }
};

// An empty view may have no address, which RocksDB would hand to memcmp().
rocksdb::Slice slice(std::string_view bytes) {
    return bytes.empty() ? rocksdb::Slice() : rocksdb::Slice(bytes.data(), bytes.size());
}
std::string_view view(const rocksdb::Slice& bytes) { return {bytes.data(), bytes.size()}; }

template <std::unsigned_integral T>
std::string encoded(T value) {
    std::string bytes;
    append(bytes, value);
    return bytes;
}

Status to_status(const rocksdb::Status& status, std::string_view what) {
    if (status.ok()) return {};
    std::string message = std::string(what) + ": " + status.ToString();
    if (status.IsCorruption()) return {Code::corrupt, EIO, std::move(message)};
    return {Code::io, status.IsNoSpace() ? ENOSPC : EIO, std::move(message)};
}

std::string encode_resident(uint32_t blocks, const ChunkKey& key) { return encoded(blocks) + key.encode(); }

Result<Index::Resident> decode_resident(std::string_view key, std::string_view value) {
    Result<Place> place = Place::decode(key);
    if (!place.ok()) return place.status();
    Decoder decoder(value);
    auto blocks = decoder.take<uint32_t>();
    if (!decoder.ok()) return Status(Code::corrupt, EINVAL, "resident without a length");
    Result<ChunkKey> chunk = ChunkKey::decode(value.substr(sizeof(blocks)));
    if (!chunk.ok()) return chunk.status();
    return Index::Resident{*place, blocks, *chunk};
}

rocksdb::ColumnFamilyOptions family_options(const std::shared_ptr<rocksdb::Cache>& cache, Family family) {
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = cache;
    table.cache_index_and_filter_blocks = true;
    table.pin_l0_filter_and_index_blocks_in_cache = true;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    rocksdb::ColumnFamilyOptions options;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    options.write_buffer_size = size_t{8} << 20;
    options.level_compaction_dynamic_level_bytes = true;
    if (family == segment_use || family == dataset_uses) options.merge_operator = std::make_shared<AddSegmentUse>();
    return options;
}

}  // namespace

struct Index::Database {
    std::unique_ptr<rocksdb::DB> db;
    std::vector<rocksdb::ColumnFamilyHandle*> families;

    ~Database() {
        for (rocksdb::ColumnFamilyHandle* family : families) db->DestroyColumnFamilyHandle(family);
    }
    std::unique_ptr<rocksdb::Iterator> iterator(Family family) const {
        return std::unique_ptr<rocksdb::Iterator>(db->NewIterator(rocksdb::ReadOptions(), families[family]));
    }
};

// A change is kept as its steps: the handles of the column families are the database's.
struct Index::Change::Batch {
    struct Step {
        bool put;
        ChunkKey key;
        ChunkRecord record;
    };
    std::vector<Step> steps;
};

Index::Change::Change() : batch_(std::make_unique<Batch>()) {}
Index::Change::~Change() = default;
Index::Change::Change(Change&&) noexcept = default;
Index::Change& Index::Change::operator=(Change&&) noexcept = default;
void Index::Change::put(const ChunkKey& key, const ChunkRecord& record) {
    batch_->steps.push_back({true, key, record});
}
void Index::Change::remove(const ChunkKey& key, const ChunkRecord& record) {
    batch_->steps.push_back({false, key, record});
}

Index::Index(std::unique_ptr<Database> database) : database_(std::move(database)) {}
Index::~Index() = default;

Result<std::unique_ptr<Index>> Index::open(const std::string& folder, const Options& options) {
    std::shared_ptr<rocksdb::Cache> cache = rocksdb::NewLRUCache(options.cache_bytes);
    rocksdb::DBOptions settings;
    settings.create_if_missing = true;
    settings.create_missing_column_families = true;
    settings.max_open_files = 256;
    settings.max_background_jobs = 2;
    settings.db_write_buffer_size = size_t{64} << 20;
    settings.max_total_wal_size = size_t{128} << 20;
    settings.keep_log_file_num = 2;
    settings.max_log_file_size = size_t{4} << 20;
    // A torn end of the log is what a power cut leaves; anything else that is wrong is damage.
    settings.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    for (uint32_t i = 0; i < family_names.size(); ++i) {
        descriptors.emplace_back(family_names[i], family_options(cache, static_cast<Family>(i)));
    }
    auto database = std::make_unique<Database>();
    rocksdb::DB* db = nullptr;
    rocksdb::Status status = rocksdb::DB::Open(settings, folder, descriptors, &database->families, &db);
    database->db.reset(db);
    FABRIC_RETURN_IF_ERROR(to_status(status, "index " + folder));
    std::unique_ptr<Index> index(new Index(std::move(database)));
    FABRIC_RETURN_IF_ERROR(index->load_datasets());
    return index;
}

Result<std::optional<ChunkRecord>> Index::find(const ChunkKey& key) const {
    rocksdb::PinnableSlice value;
    std::string name = key.encode();
    rocksdb::Status status =
        database_->db->Get(rocksdb::ReadOptions(), database_->families[chunks], slice(name), &value);
    if (status.IsNotFound()) return std::optional<ChunkRecord>();
    FABRIC_RETURN_IF_ERROR(to_status(status, "index: looking up a chunk"));
    Result<ChunkRecord> record = ChunkRecord::decode(view(value));
    if (!record.ok()) return record.status();
    return std::optional<ChunkRecord>(*record);
}

Status Index::apply(const Change& change, bool durable) {
    rocksdb::WriteBatch batch;
    Uses use, of_datasets;
    auto& families = database_->families;
    for (const Change::Batch::Step& step : change.batch_->steps) {
        std::string key = step.key.encode();
        std::string place = step.record.place.encode();
        SegmentUse added = step.record.use();
        use[step.record.place.segment] += step.put ? added : -added;
        if (uint32_t dataset = step.record.lifetime.dataset) of_datasets[dataset] += step.put ? added : -added;
        if (step.put) {
            batch.Put(families[chunks], slice(key), slice(step.record.encode()));
            batch.Put(families[residents], slice(place), slice(encode_resident(step.record.blocks(), step.key)));
            if (step.record.dirty != 0) {
                batch.Put(families[dirty_order], slice(encoded(step.record.dirty)), slice(key));
            }
        } else {
            batch.Delete(families[chunks], slice(key));
            batch.Delete(families[residents], slice(place));
            if (step.record.dirty != 0) batch.Delete(families[dirty_order], slice(encoded(step.record.dirty)));
        }
    }
    for (const auto& [segment, added] : use) {
        batch.Merge(families[segment_use], slice(encoded(segment)), slice(added.encode()));
    }
    for (const auto& [dataset, added] : of_datasets) {
        batch.Merge(families[dataset_uses], slice(encoded(dataset)), slice(added.encode()));
    }
    rocksdb::WriteOptions options;
    options.sync = durable;
    FABRIC_RETURN_IF_ERROR(to_status(database_->db->Write(options, &batch), "index: writing"));
    if (of_datasets.empty()) return {};
    std::lock_guard lock(datasets_mutex_);
    for (const auto& [dataset, added] : of_datasets) datasets_[dataset] += added;
    return {};
}

SegmentUse Index::dataset_use(uint32_t dataset) const {
    std::lock_guard lock(datasets_mutex_);
    auto found = datasets_.find(dataset);
    return found == datasets_.end() ? SegmentUse{} : found->second;
}

Status Index::load_datasets() {
    Result<Uses> loaded = uses(dataset_uses);
    if (!loaded.ok()) return loaded.status();
    std::lock_guard lock(datasets_mutex_);
    datasets_ = std::move(loaded).value();
    return {};
}

namespace {
// Walks a family from `from`; `take` returns false to end, or a Status for an entry that is damaged.
Status walk(rocksdb::Iterator& at, std::string_view family, std::string_view from, std::string_view prefix,
            const Index::Damaged& damaged,
            const std::function<Result<bool>(std::string_view, std::string_view)>& take) {
    for (at.Seek(slice(from)); at.Valid() && at.key().starts_with(slice(prefix)); at.Next()) {
        Result<bool> more = take(view(at.key()), view(at.value()));
        if (!more.ok()) {
            if (damaged) damaged(family, view(at.key()), more.status());
        } else if (!*more) {
            return {};
        }
    }
    return to_status(at.status(), std::string("index: walking ") + std::string(family));
}
}  // namespace

Status Index::visit_chunks(const std::string& prefix, const ChunkVisitor& visit, const Damaged& damaged) const {
    auto at = database_->iterator(chunks);
    return walk(*at, family_names[chunks], prefix, prefix, damaged,
                [&](std::string_view key, std::string_view value) -> Result<bool> {
                    Result<ChunkKey> chunk = ChunkKey::decode(key);
                    if (!chunk.ok()) return chunk.status();
                    Result<ChunkRecord> record = ChunkRecord::decode(value);
                    if (!record.ok()) return record.status();
                    return visit(*chunk, *record);
                });
}

Status Index::visit_residents(const Place& from, const std::function<bool(const Resident&)>& visit,
                              const Damaged& damaged) const {
    auto at = database_->iterator(residents);
    return walk(*at, family_names[residents], from.encode(), {}, damaged,
                [&](std::string_view key, std::string_view value) -> Result<bool> {
                    Result<Resident> resident = decode_resident(key, value);
                    if (!resident.ok()) return resident.status();
                    return visit(*resident);
                });
}

Status Index::visit_dirty(uint64_t sequence, const std::function<bool(uint64_t, const ChunkKey&)>& visit,
                          const Damaged& damaged) const {
    auto at = database_->iterator(dirty_order);
    return walk(*at, family_names[dirty_order], encoded(sequence), {}, damaged,
                [&](std::string_view key, std::string_view value) -> Result<bool> {
                    Decoder decoder(key);
                    auto number = decoder.take<uint64_t>();
                    if (!decoder.complete()) return Status(Code::corrupt, EINVAL, "dirty sequence of a wrong length");
                    Result<ChunkKey> chunk = ChunkKey::decode(value);
                    if (!chunk.ok()) return chunk.status();
                    return visit(number, *chunk);
                });
}

Result<std::map<uint32_t, SegmentUse>> Index::segments() const { return uses(segment_use); }

Result<Index::Uses> Index::uses(uint32_t family) const {
    Uses all;
    Status damage;
    auto at = database_->iterator(static_cast<Family>(family));
    FABRIC_RETURN_IF_ERROR(walk(
        *at, family_names[family], {}, {}, [&](std::string_view, std::string_view, const Status& why) { damage = why; },
        [&](std::string_view key, std::string_view value) -> Result<bool> {
            Decoder decoder(key);
            auto segment = decoder.take<uint32_t>();
            if (!decoder.complete()) return Status(Code::corrupt, EINVAL, "segment number of a wrong length");
            Result<SegmentUse> use = SegmentUse::decode(value);
            if (!use.ok()) return use.status();
            all[segment] = *use;
            return true;
        }));
    FABRIC_RETURN_IF_ERROR(damage);
    return all;
}

Result<uint32_t> Index::end_of(uint32_t segment) const {
    auto at = database_->iterator(residents);
    at->SeekForPrev(slice(Place{segment, UINT32_MAX}.encode()));
    if (!at->Valid()) {
        FABRIC_RETURN_IF_ERROR(to_status(at->status(), "index: end of a segment"));
        return uint32_t{0};
    }
    Result<Resident> last = decode_resident(view(at->key()), view(at->value()));
    if (!last.ok()) return last.status();
    return last->place.segment == segment ? last->place.block + last->blocks : 0;
}

Result<uint64_t> Index::last_dirty() const {
    auto at = database_->iterator(dirty_order);
    at->SeekToLast();
    if (!at->Valid()) {
        FABRIC_RETURN_IF_ERROR(to_status(at->status(), "index: last dirty record"));
        return uint64_t{0};
    }
    return Decoder(view(at->key())).take<uint64_t>();
}

Status Index::derive_again() {
    // No key is as long as this one, or begins with as many bytes of ones.
    const std::string behind_all(256, '\xff');
    rocksdb::WriteBatch emptied;
    for (Family family : {residents, segment_use, dirty_order, dataset_uses}) {
        emptied.DeleteRange(database_->families[family], slice({}), slice(behind_all));
    }
    FABRIC_RETURN_IF_ERROR(
        to_status(database_->db->Write(rocksdb::WriteOptions(), &emptied), "index: emptying what is derived"));
    {
        std::lock_guard lock(datasets_mutex_);
        datasets_.clear();
    }
    Status failed;
    Change change;
    FABRIC_RETURN_IF_ERROR(visit_chunks({}, [&](const ChunkKey& key, const ChunkRecord& record) {
        change.put(key, record);
        if (change.batch_->steps.size() == 4096) {
            failed = apply(change, false);
            change = Change();
        }
        return failed.ok();
    }));
    FABRIC_RETURN_IF_ERROR(failed);
    return apply(change, true);
}

Status Index::erase_raw(std::string_view family, std::string_view key) {
    for (uint32_t i = 0; i < family_names.size(); ++i) {
        if (family != family_names[i]) continue;
        rocksdb::Status status = database_->db->Delete(rocksdb::WriteOptions(), database_->families[i], slice(key));
        return to_status(status, "index: erasing a damaged entry");
    }
    return Status::invalid("index: no family \"" + std::string(family) + "\"");
}

}  // namespace fabric::index
