#include "burstbuffer/pool/records.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

namespace fabric::pool {
namespace {

using Json = nlohmann::json;

constexpr size_t longest_text = 4096;
constexpr int64_t largest = int64_t{1} << 62;
constexpr double heaviest = 1e6;
constexpr double lightest = 1e-6;

constexpr const char* node_states[] = {"in", "draining", "out"};
constexpr const char* map_states[] = {"up", "draining", "down"};
constexpr const char* job_states[] = {"running", "cancelled", "done"};

// Text from outside may be no UTF-8: written with replacements, never by an exception.
std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

bool is_letter_or_digit(char one) {
    return (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || (one >= '0' && one <= '9');
}

// The fields of one JSON object. The first that is wrong stays, by name.
class Fields {
  public:
    Fields(const Json& json, std::string name, std::string& problem)
        : json_(json), name_(std::move(name)), problem_(problem) {}

    int64_t number(const char* field, int64_t least, int64_t most) {
        const Json* found = find(field);
        if (found == nullptr) return least;
        if (!found->is_number_integer()) return complain(field, "is no whole number"), least;
        bool fits = found->is_number_unsigned() ? found->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX) : true;
        int64_t value = fits ? found->get<int64_t>() : INT64_MAX;
        if (!fits || value < least || value > most) {
            complain(field, "is not from " + std::to_string(least) + " to " + std::to_string(most));
            return least;
        }
        return value;
    }
    double weight(const char* field) {
        const Json* found = find(field);
        if (found == nullptr) return 1;
        double value = found->is_number() ? found->get<double>() : 0;
        if (value >= lightest && value <= heaviest) return value;
        complain(field, "is no number from 0.000001 to 1000000");
        return 1;
    }
    std::string text(const char* field) {
        const Json* found = find(field);
        return found == nullptr ? std::string() : text_of(*found, field);
    }
    std::string name(const char* field) {
        std::string value = text(field);
        if (!is_name(value)) complain(field, "is no node's name");
        return value;
    }
    // Absent is as empty.
    std::string name_or_none(const char* field) {
        if (!json_.contains(field)) return {};
        std::string value = text(field);
        if (!value.empty() && !is_name(value)) complain(field, "is no name");
        return value;
    }
    std::vector<std::string> texts_or_none(const char* field, size_t most, bool (*right)(std::string_view)) {
        return json_.contains(field) ? texts(field, most, right) : std::vector<std::string>();
    }
    const Json& array_or_none(const char* field, size_t most) {
        static const Json nothing = Json::array();
        return json_.contains(field) ? array(field, most) : nothing;
    }
    size_t one_of(const char* field, std::span<const char* const> words) {
        std::string value = text(field);
        auto found = std::ranges::find(words, value);
        if (found == words.end()) return complain(field, "is none that is known"), 0;
        return static_cast<size_t>(found - words.begin());
    }
    std::vector<std::string> texts(const char* field, size_t most, bool (*right)(std::string_view)) {
        std::vector<std::string> list;
        for (const Json& one : array(field, most)) {
            list.push_back(text_of(one, field));
            if (!right(list.back())) complain(field, "has an entry that is wrong");
        }
        if (std::set<std::string>(list.begin(), list.end()).size() != list.size())
            complain(field, "has an entry twice");
        return list;
    }
    const Json& array(const char* field, size_t most) {
        static const Json nothing = Json::array();
        const Json* found = find(field);
        if (found == nullptr) return nothing;
        if (!found->is_array()) return complain(field, "is no list"), nothing;
        if (found->size() > most) return complain(field, "has more than " + std::to_string(most) + " entries"), nothing;
        return *found;
    }
    void complain(const char* field, const std::string& what) {
        if (problem_.empty()) problem_ = name_ + field + " " + what;
    }

  private:
    const Json* find(const char* field) {
        if (!json_.is_object()) return complain("value", "is no JSON object"), nullptr;
        auto found = json_.find(field);
        if (found == json_.end()) return complain(field, "is missing"), nullptr;
        return &*found;
    }
    std::string text_of(const Json& json, const char* field) {
        if (!json.is_string()) return complain(field, "is no text"), std::string();
        const auto& value = json.get_ref<const std::string&>();
        if (value.size() > longest_text) return complain(field, "is too long"), std::string();
        return value;
    }

    const Json& json_;
    const std::string name_;
    std::string& problem_;
};

bool not_empty(std::string_view text) { return !text.empty(); }

void read(Fields& fields, ClusterRecord& record) {
    record.uuid = fields.text("uuid");
    if (record.uuid.empty()) fields.complain("uuid", "is empty");
    int64_t said = fields.number("format", 1, largest);
    if (said != format) fields.complain("format", "is " + std::to_string(said) + ": this version knows 1 alone");
    record.chunk_size = fields.number("chunk_size", smallest_chunk, largest_chunk);
    if ((record.chunk_size & (record.chunk_size - 1)) != 0) fields.complain("chunk_size", "is no power of two");
    record.replicas = fields.number("replicas", 1, most_replicas);
}

void read(Fields& fields, NodeRecord& record) {
    record.state = static_cast<NodeRecord::State>(fields.one_of("state", node_states));
    record.weight = fields.weight("weight");
    record.rack = fields.name_or_none("rack");
}

void read(Fields& fields, std::string& problem, MemberRecord& record) {
    record.name = fields.name("name");
    record.identity = fields.text("identity");
    record.process = fields.text("process");
    if (record.identity.empty()) fields.complain("identity", "is empty");
    if (record.process.empty()) fields.complain("process", "is empty");
    record.addresses = fields.texts("addresses", 64, is_address);
    if (record.addresses.empty()) fields.complain("addresses", "is empty");
    for (const Json& one : fields.array("disks", 256)) {
        Fields disk(one, "disks.", problem);
        record.disks.push_back({disk.text("folder"), disk.number("capacity", 0, largest)});
    }
    record.version = fields.text("version");
}

void read(Fields& fields, std::string& problem, MapRecord& record) {
    record.epoch = fields.number("epoch", 1, largest);
    record.chunk_size = fields.number("chunk_size", smallest_chunk, largest_chunk);
    if ((record.chunk_size & (record.chunk_size - 1)) != 0) fields.complain("chunk_size", "is no power of two");
    record.replicas = fields.number("replicas", 1, most_replicas);
    for (const Json& one : fields.array("nodes", most_members)) {
        Fields node(one, "nodes.", problem);
        MapNode entry{node.name("name"), static_cast<MapNode::State>(node.one_of("state", map_states)),
                      node.weight("weight"), node.name_or_none("rack"), node.texts("addresses", 64, is_address)};
        if (!record.nodes.empty() && record.nodes.back().name >= entry.name) {
            fields.complain("nodes", "is not in the order of names");
        }
        record.nodes.push_back(std::move(entry));
    }
}

void read(Fields& fields, std::string& problem, OwnerRecord& record) {
    record.node = fields.name("node");
    record.incarnation = fields.number("incarnation", 1, largest);
    record.replicas = fields.texts("replicas", most_replicas, is_name);
    record.keeping = fields.texts_or_none("keeping", most_former, is_name);
    record.joining = fields.name_or_none("joining");
    for (const Json& one : fields.array_or_none("former", most_former)) {
        Fields former(one, "former's ", problem);
        record.former.push_back({former.name("node"), former.number("incarnation", 1, largest)});
    }
}

void read(Fields& fields, JobRecord& record) {
    record.paths = fields.texts("paths", 4096, not_empty);
    record.node = fields.name("node");
    record.state = static_cast<JobRecord::State>(fields.one_of("state", job_states));
    record.files = fields.number("files", 0, largest);
    record.done_files = fields.number("done_files", 0, largest);
    record.bytes = fields.number("bytes", 0, largest);
    record.done_bytes = fields.number("done_bytes", 0, largest);
    record.failed_files = fields.number("failed_files", 0, largest);
}

void read(Fields& fields, KeyEpochRecord& record) {
    record.current = fields.number("current", 1, largest);
    record.oldest = fields.number("oldest", 1, largest);
    if (record.oldest > record.current) fields.complain("oldest", "is above current");
}

}  // namespace

bool is_name(std::string_view name) {
    if (name.empty() || name.size() > longest_name || name.front() == '.') return false;
    return std::ranges::all_of(
        name, [](char one) { return is_letter_or_digit(one) || one == '.' || one == '_' || one == '-'; });
}

bool is_address(std::string_view address) {
    size_t colon = address.rfind(':');
    if (colon == std::string_view::npos || colon == 0 || address.size() > 300) return false;
    std::string_view host = address.substr(0, colon), port = address.substr(colon + 1);
    if (port.empty() || port.size() > 5 || port.front() == '0') return false;
    unsigned number = 0;
    for (char one : port) {
        if (one < '0' || one > '9') return false;
        number = number * 10 + static_cast<unsigned>(one - '0');
    }
    if (number > 65535) return false;
    bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    return std::ranges::all_of(host, [&](char one) {
        return is_letter_or_digit(one) || one == '.' || one == '-' || (bracketed && (one == ':' || one == '%'));
    });
}

bool OwnerRecord::has_copy(std::string_view other) const {
    auto names = [&](const std::vector<std::string>& list) { return std::ranges::find(list, other) != list.end(); };
    return other == node || names(replicas) || names(keeping);
}

std::string encode(const ClusterRecord& record) {
    return dump(
        {{"uuid", record.uuid}, {"format", format}, {"chunk_size", record.chunk_size}, {"replicas", record.replicas}});
}

std::string encode(const NodeRecord& record) {
    return dump(
        {{"state", node_states[static_cast<size_t>(record.state)]}, {"weight", record.weight}, {"rack", record.rack}});
}

std::string encode(const MemberRecord& record) {
    Json disks = Json::array();
    for (const DiskRecord& disk : record.disks) disks.push_back({{"folder", disk.folder}, {"capacity", disk.capacity}});
    return dump({{"name", record.name},
                 {"identity", record.identity},
                 {"process", record.process},
                 {"addresses", record.addresses},
                 {"disks", disks},
                 {"version", record.version}});
}

std::string encode(const MapRecord& record) {
    Json nodes = Json::array();
    for (const MapNode& node : record.nodes) {
        nodes.push_back({{"name", node.name},
                         {"state", map_states[static_cast<size_t>(node.state)]},
                         {"weight", node.weight},
                         {"rack", node.rack},
                         {"addresses", node.addresses}});
    }
    return dump(
        {{"epoch", record.epoch}, {"chunk_size", record.chunk_size}, {"replicas", record.replicas}, {"nodes", nodes}});
}

std::string encode(const OwnerRecord& record) {
    Json json{{"node", record.node}, {"incarnation", record.incarnation}, {"replicas", record.replicas}};
    if (!record.keeping.empty()) json["keeping"] = record.keeping;
    if (!record.joining.empty()) json["joining"] = record.joining;
    for (const OwnerRecord::Former& one : record.former) {
        json["former"].push_back({{"node", one.node}, {"incarnation", one.incarnation}});
    }
    return dump(json);
}

std::string encode(const JobRecord& record) {
    return dump({{"paths", record.paths},
                 {"node", record.node},
                 {"state", job_states[static_cast<size_t>(record.state)]},
                 {"files", record.files},
                 {"done_files", record.done_files},
                 {"bytes", record.bytes},
                 {"done_bytes", record.done_bytes},
                 {"failed_files", record.failed_files}});
}

std::string encode(const KeyEpochRecord& record) {
    return dump({{"current", record.current}, {"oldest", record.oldest}});
}

template <typename Record>
Result<Record> decode(const etcd::KeyValue& key) {
    std::string problem;
    Record record;
    if (key.value.size() > longest_record) {
        problem =
            "value is " + std::to_string(key.value.size()) + " bytes long, more than " + std::to_string(longest_record);
    } else {
        Json json = Json::parse(key.value, nullptr, false);
        Fields fields(json, "", problem);
        if constexpr (requires { read(fields, problem, record); }) {
            read(fields, problem, record);
        } else {
            read(fields, record);
        }
    }
    if (problem.empty()) return record;
    return Status(Code::corrupt, EBADMSG, "etcd key " + key.key + ": " + problem);
}

template Result<ClusterRecord> decode(const etcd::KeyValue&);
template Result<NodeRecord> decode(const etcd::KeyValue&);
template Result<MemberRecord> decode(const etcd::KeyValue&);
template Result<MapRecord> decode(const etcd::KeyValue&);
template Result<OwnerRecord> decode(const etcd::KeyValue&);
template Result<JobRecord> decode(const etcd::KeyValue&);
template Result<KeyEpochRecord> decode(const etcd::KeyValue&);

}  // namespace fabric::pool
