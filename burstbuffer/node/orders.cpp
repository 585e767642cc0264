#include "burstbuffer/node/orders.h"

#include <ctime>

#include "burstbuffer/node/request.h"
#include "burstbuffer/stage/inspect.h"
#include "burstbuffer/stage/stager.h"

namespace fabric::node {

using control::Json;

namespace {

Result<index::Lifetime> lifetime_of(const Json& request) {
    index::Lifetime lifetime;
    Result<bool> pin = flag(request, "pin");
    if (!pin.ok()) return pin.status();
    lifetime.pinned = *pin;
    auto ttl = request.find("ttl");
    if (ttl == request.end()) return lifetime;
    if (!ttl->is_number_unsigned() || ttl->get<uint64_t>() == 0 || ttl->get<uint64_t>() > UINT32_MAX) {
        return Status::invalid("\"ttl\" is no number of seconds");
    }
    uint64_t expires = static_cast<uint64_t>(std::time(nullptr)) + ttl->get<uint64_t>();
    if (expires > UINT32_MAX) return Status::invalid("\"ttl\" ends after 2106");
    lifetime.expires = static_cast<uint32_t>(expires);
    return lifetime;
}

Json to_json(const stage::Progress& progress) {
    return {{"event", "progress"},
            {"scanning", progress.scanning},
            {"files", progress.files},
            {"bytes", progress.bytes},
            {"done_files", progress.done_files},
            {"done_bytes", progress.done_bytes},
            {"held_files", progress.held_files},
            {"held_bytes", progress.held_bytes},
            {"failed_files", progress.failed_files}};
}

Json to_json(const std::string& path, const stage::Share& share) {
    return {{"event", "share"},
            {"path", path},
            {"files", share.files},
            {"bytes", share.bytes},
            {"held_files", share.held_files},
            {"held_bytes", share.held_bytes},
            {"pinned_files", share.pinned_files}};
}

const char* name(disks::Health::State state) {
    switch (state) {
        case disks::Health::State::good:
            return "good";
        case disks::Health::State::resting:
            return "resting";
        case disks::Health::State::retired:
            break;
    }
    return "retired";
}

}  // namespace

Result<Json> Orders::take(const Json& request, Reply& reply) {
    Result<std::string> order = text(request, "order");
    if (!order.ok()) return order.status();
    if (*order == "status") return status(request, reply);
    if (*order == "wait") return drained(request, reply, false);
    if (*order == "drain") return drained(request, reply, true);
    if (*order == "flush") return flush(request, reply);
    if (*order == "settle") return settle(request);
    if (*order == "stage") return stage(request, reply);
    if (*order == "ls") return list(request, reply);
    if (*order == "verify") return verify(request, reply);
    if (*order == "evict") {
        return for_each(request, reply, [this](const stage::TreeFile& file) { return cache_.drop(file.id); });
    }
    if (*order == "unpin") {
        return for_each(request, reply,
                        [this](const stage::TreeFile& file) { return cache_.set_lifetime(file.id, {}); });
    }
    if (*order == "pin") {
        Result<index::Lifetime> lifetime = lifetime_of(request);
        if (!lifetime.ok()) return lifetime.status();
        lifetime->pinned = true;
        return for_each(request, reply, [this, &lifetime](const stage::TreeFile& file) -> Result<uint64_t> {
            if (stage::share_of(cache_, file).held_files == 0) {
                return Status(Code::unavailable, ENOENT, "not all of it is cached: stage it with --pin");
            }
            return cache_.set_lifetime(file.id, *lifetime);
        });
    }
    return Status::invalid("unknown order \"" + *order + "\"");
}

Json Orders::disks() const {
    Json disks = Json::array();
    for (const auto& disk : cache_.disks().all()) {
        store::Segments::Usage usage = disk->store().usage();
        disks.push_back({{"folder", disk->folder()},
                         {"state", name(disk->state())},
                         {"capacity", usage.capacity},
                         {"allocated", usage.allocated - usage.free},
                         {"bytes", usage.live},
                         {"records", usage.records},
                         {"dirty_records", usage.dirty_records}});
    }
    return disks;
}

Json Orders::datasets() const {
    Json all = Json::array();
    const cache::Datasets* datasets = cache_.datasets();
    for (size_t i = 0; datasets != nullptr && i < datasets->all().size(); ++i) {
        const cache::Dataset& one = datasets->all()[i];
        all.push_back({{"path", one.path}, {"quota", one.quota}, {"bytes", datasets->used(cache_.disks(), i)}});
    }
    return all;
}

Result<Json> Orders::stage(const Json& request, Reply& reply) {
    Result<std::vector<std::string>> paths = paths_of(request);
    Result<bool> follow = flag(request, "follow");
    Result<index::Lifetime> lifetime = lifetime_of(request);
    for (const Status& status : {paths.status(), follow.status(), lifetime.status()}) FABRIC_RETURN_IF_ERROR(status);
    FABRIC_RETURN_IF_ERROR(drain_before_staging(request, reply));
    stage::Stager stager(cache_, filesystems_, pool_);
    Result<stage::StageResult> result =
        stager.run({.paths = *paths, .follow = *follow, .lifetime = *lifetime, .workers = stage_workers_},
                   [&](const stage::Progress& progress) { return reply.event(to_json(progress)); });
    if (!result.ok()) return result.status();
    for (const stage::Failure& one : result->failures) {
        if (!reply.event(failure(one.path, one.cause))) break;
    }
    Json answer = to_json(result->progress);
    answer.erase("event");
    answer["ok"] = result->complete;
    answer["cancelled"] = result->cancelled;
    return answer;
}

Result<Json> Orders::for_each(const Json& request, Reply& reply, const Work& work) {
    Result<std::vector<std::string>> paths = paths_of(request);
    Result<bool> follow = flag(request, "follow");
    for (const Status& status : {paths.status(), follow.status()}) FABRIC_RETURN_IF_ERROR(status);
    Failures failures(reply);
    uint64_t files = 0, chunks = 0;
    std::vector<fs::FilesystemPtr> in_use;
    stage::Walk with{.filesystems = filesystems_,
                     .met = [&](const fs::FilesystemPtr& filesystem) { in_use = {filesystem}; },
                     .follow = *follow,
                     .file =
                         [&](stage::TreeFile&& file) {
                             ++files;
                             Result<uint64_t> done = work(file);
                             if (done.ok()) chunks += *done;
                             return (done.ok() || failures.add(file.path, done.status().message())) && !reply.gone();
                         },
                     .problem = [&](const std::string& path, const Status& why) { failures.add(path, why.message()); }};
    for (const std::string& path : *paths) {
        if (!stage::walk(path, with)) break;
    }
    return Json{{"ok", failures.count() == 0 && !reply.gone()},
                {"files", files},
                {"chunks", chunks},
                {"failed_files", failures.count()}};
}

// A line for each entry of a folder that is given, then one for the whole path.
Result<Json> Orders::list(const Json& request, Reply& reply) {
    Result<std::vector<std::string>> paths = paths_of(request);
    Result<bool> follow = flag(request, "follow");
    for (const Status& status : {paths.status(), follow.status()}) FABRIC_RETURN_IF_ERROR(status);
    Failures failures(reply);
    stage::Share total;
    for (const std::string& path : *paths) {
        std::map<std::string, stage::Share> entries;
        stage::Share whole;
        std::string prefix = path.ends_with('/') ? path : path + "/";
        stage::Walk with{.filesystems = filesystems_,
                         .met = [](const fs::FilesystemPtr&) {},
                         .follow = *follow,
                         .file =
                             [&](stage::TreeFile&& file) {
                                 stage::Share share = stage::share_of(cache_, file);
                                 whole += share;
                                 if (file.path.starts_with(prefix)) {
                                     size_t end = file.path.find('/', prefix.size());
                                     entries[file.path.substr(0, end == std::string::npos ? end : end + 1)] += share;
                                 }
                                 return !reply.gone();
                             },
                         .problem = [&](const std::string& at, const Status& why) { failures.add(at, why.message()); }};
        if (!stage::walk(path, with)) break;
        for (const auto& [entry, share] : entries) reply.event(to_json(entry, share));
        reply.event(to_json(path, whole));
        total += whole;
    }
    Json answer = to_json("", total);
    answer.erase("event");
    answer.erase("path");
    answer["ok"] = failures.count() == 0;
    answer["failed_files"] = failures.count();
    return answer;
}

Result<Json> Orders::verify(const Json& request, Reply& reply) {
    uint64_t not_held = 0;
    fs::FilesystemPtr filesystem;
    Result<Json> answer = for_each(request, reply, [&](const stage::TreeFile& file) -> Result<uint64_t> {
        filesystem = filesystems_.find(file.id.filesystem());
        if (filesystem == nullptr) return Status::from_errno(ESTALE, "its file system is not in use");
        stage::Verified verified = stage::verify(cache_, file, *filesystem);
        switch (verified.verdict) {
            case stage::Verdict::same:
                return uint64_t{1};
            case stage::Verdict::not_held:
            case stage::Verdict::partly:
                ++not_held;
                return uint64_t{0};
            case stage::Verdict::different:
                return Status(Code::corrupt, EIO, "the cache is not what the backing store has: " + verified.cause);
            case stage::Verdict::unreadable:
                break;
        }
        return Status(Code::io, EIO, verified.cause);
    });
    if (!answer.ok()) return answer;
    answer->erase("chunks");
    (*answer)["not_held_files"] = not_held;
    return answer;
}

}  // namespace fabric::node
