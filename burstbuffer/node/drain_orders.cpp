// How far draining is, and waiting for it.
#include <algorithm>

#include "burstbuffer/node/orders.h"
#include "burstbuffer/node/request.h"

namespace fabric::node {

using control::Json;
using std::chrono::steady_clock;

// What the backing store lacks of some files.
struct Orders::Undrained {
    uint64_t files = 0;
    uint64_t undrained_files = 0;
    std::vector<fs::FileId> ids;  // of these, where they were not told one by one
    uint64_t bytes = 0;
    uint64_t before = 0;  // to be drained up to the last one
    std::chrono::seconds age{0};
    double rate = 0;
    uint64_t failures = 0;

    Json to_json() const {
        Json answer{{"files", files},
                    {"undrained_files", undrained_files},
                    {"undrained_bytes", bytes},
                    {"age", age.count()},
                    {"rate", static_cast<uint64_t>(rate)},
                    {"failed_files", failures},
                    {"state", undrained_files == 0 ? "drained" : "local"}};
        // Not known before something was drained.
        if (undrained_files != 0 && rate > 0)
            answer["left"] = static_cast<uint64_t>(static_cast<double>(before) / rate) + 1;
        return answer;
    }
};

Json Orders::rules() const {
    Json rules = Json::array();
    for (const writeback::WriteBack::QueueState& one : write_back_.queues()) {
        Json rule{{"rule", one.rule},
                  {"bytes", one.bytes},
                  {"pieces", one.pieces},
                  {"age", one.age.count()},
                  {"rate", static_cast<uint64_t>(one.rate)}};
        if (one.trouble) {
            rule["trouble"] = one.trouble->cause.message();
            rule["tries"] = one.trouble->tries;
        }
        rules.push_back(rule);
    }
    return rules;
}

Result<Json> Orders::status(const Json& request, Reply& reply) {
    if (!request.contains("paths")) return Json{{"disks", disks()}, {"datasets", datasets()}, {"rules", rules()}};
    Result<Undrained> found = undrained(request, reply, true);
    if (!found.ok()) return found.status();
    Json answer = found->to_json();
    answer["rules"] = rules();
    answer["ok"] = found->failures == 0;
    return answer;
}

// A folder is what the weakest of its files is.
Result<Orders::Undrained> Orders::undrained(const Json& request, Reply& reply, bool tell) {
    Result<std::vector<std::string>> paths = paths_of(request);
    Result<bool> follow = flag(request, "follow");
    for (const Status& status : {paths.status(), follow.status()}) FABRIC_RETURN_IF_ERROR(status);
    Undrained all;
    Failures failures(reply);
    auto look = [&](stage::TreeFile&& file) {
        ++all.files;
        if (!write_back_.dirty(file.id)) return !reply.gone();
        writeback::WriteBack::FileState state = write_back_.state(file.id);
        ++all.undrained_files;
        if (!tell) all.ids.push_back(file.id);
        all.bytes += state.bytes;
        all.before = std::max(all.before, state.before);
        all.age = std::max(all.age, state.age);
        all.rate = std::max(all.rate, state.rate);
        if (!tell) return !reply.gone();
        return reply.event(
            {{"event", "undrained"}, {"path", file.path}, {"bytes", state.bytes}, {"age", state.age.count()}});
    };
    stage::Walk with{.filesystems = filesystems_,
                     .met = [](const fs::FilesystemPtr&) {},
                     .follow = *follow,
                     .file = look,
                     .problem = [&](const std::string& path, const Status& why) { failures.add(path, why.message()); }};
    for (const std::string& path : *paths) {
        if (!stage::walk(path, with)) break;
    }
    all.failures = failures.count();
    return all;
}

// The backing store does not have their bytes yet, and draining makes another version of them.
Status Orders::drain_before_staging(const Json& request, Reply& reply) {
    if (!write_back_.dirty()) return {};
    Result<Undrained> found = undrained(request, reply, false);
    for (const fs::FileId& file : found.ok() ? found->ids : std::vector<fs::FileId>()) {
        Status status = write_back_.flush(file);
        if (!status.ok()) {
            return {status.code(), status.errno_value(),
                    "files that are not drained cannot be staged, and draining them failed; nothing was loaded: " +
                        status.message()};
        }
    }
    return found.status();
}

// Looked at again when something was drained, and now and then, until nothing is left or the time is over.
Result<Json> Orders::drained(const Json& request, Reply& reply, bool hurry) {
    std::optional<writeback::WriteBack::Hurry> hurried;
    if (hurry) hurried.emplace(write_back_);
    auto timeout = request.find("timeout");
    if (timeout != request.end() && !timeout->is_number_unsigned()) {
        return Status::invalid("\"timeout\" is no number of seconds");
    }
    // A hundred years are for ever.
    std::chrono::seconds limit(timeout == request.end() ? 3'000'000'000 : timeout->get<uint32_t>());
    auto until = steady_clock::now() + limit;
    for (;;) {
        Result<Undrained> found = undrained(request, reply, false);
        if (!found.ok()) return found.status();
        Json answer = found->to_json();
        if (found->undrained_files == 0 || found->failures != 0 || steady_clock::now() >= until || reply.gone()) {
            answer["rules"] = rules();
            answer["ok"] = found->undrained_files == 0 && found->failures == 0;
            return answer;
        }
        answer["event"] = "draining";
        if (!reply.event(answer)) continue;
        write_back_.wait_for_progress(std::chrono::milliseconds(500));
    }
}

// For who serves the same files beside this node (fabricd): whether anything is to be drained, or one file drained.
Result<Json> Orders::settle(const Json& request) {
    if (!request.contains("file")) return Json{{"undrained", write_back_.dirty()}};
    Result<fs::FileId> file = file_of(request, "file");
    if (!file.ok()) return file.status();
    FABRIC_RETURN_IF_ERROR(write_back_.flush(*file));
    return Json{{"undrained", false}};
}

// All files of the node, those without a name too. It ends early where the backing store takes no more.
Result<Json> Orders::flush(const Json&, Reply& reply) {
    std::vector<writeback::WriteBack::QueueState> first = write_back_.queues();
    writeback::WriteBack::Hurry hurried(write_back_);
    for (;;) {
        Json answer{{"rules", rules()}};
        uint64_t bytes = 0;
        bool stuck = false;
        std::vector<writeback::WriteBack::QueueState> now = write_back_.queues();
        for (size_t i = 0; i < now.size(); ++i) {
            bytes += now[i].bytes;
            stuck = stuck || (now[i].trouble && now[i].failures != first[i].failures);
        }
        if (bytes == 0 || stuck || reply.gone()) {
            answer["undrained_bytes"] = bytes;
            answer["ok"] = bytes == 0;
            return answer;
        }
        if (!reply.event({{"event", "draining"}, {"undrained_bytes", bytes}})) continue;
        write_back_.wait_for_progress(std::chrono::milliseconds(500));
    }
}

}  // namespace fabric::node
