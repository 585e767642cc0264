#include "burstbuffer/cache/datasets.h"

#include <algorithm>
#include <map>

#include "burstbuffer/cache/cache_metrics.h"
#include "burstbuffer/placement/rendezvous.h"

namespace fabric::cache {

namespace {
constexpr size_t most_remembered = 100'000;  // files, some 10 MiB
}

Datasets::Datasets(std::vector<Dataset> all, Find find) : all_(std::move(all)), find_(std::move(find)) {
    for (const Dataset& one : all_) names_.push_back(static_cast<uint32_t>(placement::stable_hash(one.path)) | 1);
}

std::optional<size_t> Datasets::number_of(uint32_t dataset) const {
    auto found = std::ranges::find(names_, dataset);
    if (dataset == 0 || found == names_.end()) return std::nullopt;
    return static_cast<size_t>(found - names_.begin());
}

uint32_t Datasets::of(const fs::FileId& file) {
    std::string name = index::key_prefix(file);
    {
        std::lock_guard lock(mutex_);
        if (auto known = remembered_.find(name); known != remembered_.end()) return known->second;
    }
    std::optional<size_t> found = find_(file);
    uint32_t dataset = found ? names_[*found] : 0;
    std::lock_guard lock(mutex_);
    if (remembered_.size() >= most_remembered) remembered_.clear();
    remembered_.emplace(std::move(name), dataset);
    return dataset;
}

uint64_t Datasets::used(const disks::Disks& disks, size_t number) const {
    int64_t bytes = 0;
    for (const auto& disk : disks.all()) bytes += disk->store().index().dataset_use(names_[number]).bytes;
    return static_cast<uint64_t>(std::max<int64_t>(bytes, 0));
}

bool Datasets::over(const disks::Disks& disks, uint32_t dataset) const {
    std::optional<size_t> number = number_of(dataset);
    return number && used(disks, *number) > all_[*number].quota;
}

Datasets::Admitted Datasets::admit(const disks::Disks& disks, std::span<const disks::Entry> entries) {
    std::vector<uint32_t> of_entries;
    for (const disks::Entry& entry : entries) of_entries.push_back(of(entry.key.file));
    Admitted admitted;
    if (std::ranges::any_of(of_entries, [](uint32_t dataset) { return dataset != 0; })) {
        admitted.guard = std::unique_lock(admitting_);
    }
    std::map<uint32_t, uint64_t> used_now;
    for (size_t i = 0; i < entries.size(); ++i) {
        disks::Entry entry = entries[i];
        entry.dataset = of_entries[i];
        if (std::optional<size_t> number = number_of(entry.dataset)) {
            auto at = used_now.find(entry.dataset);
            if (at == used_now.end()) at = used_now.emplace(entry.dataset, used(disks, *number)).first;
            uint64_t bytes = (entry.data.size() + index::Place::block_size - 1) / index::Place::block_size *
                             index::Place::block_size;
            if (at->second + bytes > all_[*number].quota) {
                metrics().over_quota.add(1);
                continue;
            }
            at->second += bytes;
        }
        admitted.entries.push_back(entry);
    }
    return admitted;
}

}  // namespace fabric::cache
