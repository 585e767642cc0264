#include "burstbuffer/node/request.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <fstream>

namespace fabric::node {

using control::Json;

namespace {

// One path a line.
Status read_manifest(const std::string& path, std::vector<std::string>& paths) {
    std::ifstream file(path);
    if (!file) return Status::from_errno(errno, "manifest " + path);
    size_t number = 0;
    for (std::string line; std::getline(file, line);) {
        ++number;
        if (line.empty()) continue;
        if (!line.starts_with('/')) {
            return Status::invalid("manifest " + path + ":" + std::to_string(number) +
                                   ": not an absolute path: " + line);
        }
        paths.push_back(line);
    }
    return {};
}

}  // namespace

Result<std::string> text(const Json& request, const char* key) {
    auto found = request.find(key);
    if (found == request.end() || !found->is_string()) {
        return Status::invalid(std::string("the request has no text \"") + key + "\"");
    }
    return found->get<std::string>();
}

Result<bool> flag(const Json& request, const char* key) {
    auto found = request.find(key);
    if (found == request.end()) return false;
    if (!found->is_boolean()) return Status::invalid(std::string("\"") + key + "\" is neither true nor false");
    return found->get<bool>();
}

Result<std::vector<std::string>> paths_of(const Json& request) {
    std::vector<std::string> paths;
    if (auto found = request.find("paths"); found != request.end()) {
        if (!found->is_array()) return Status::invalid("\"paths\" is no list");
        for (const Json& path : *found) {
            if (!path.is_string() || !path.get_ref<const std::string&>().starts_with('/')) {
                return Status::invalid("\"paths\" has something that is no absolute path");
            }
            paths.push_back(path.get<std::string>());
        }
    }
    if (request.contains("manifest")) {
        Result<std::string> manifest = text(request, "manifest");
        if (!manifest.ok()) return manifest.status();
        FABRIC_RETURN_IF_ERROR(read_manifest(*manifest, paths));
    }
    if (paths.empty()) return Status::invalid("there is no path");
    return paths;
}

std::string hexadecimal(const fs::FileId& file) { return fmt::format("{:02x}", fmt::join(file.bytes(), "")); }

Result<fs::FileId> file_of(const Json& request, const char* key) {
    Result<std::string> digits = text(request, key);
    if (!digits.ok()) return digits.status();
    std::vector<uint8_t> bytes;
    for (size_t at = 0; at < digits->size(); at += 2) {
        const char* end = digits->data() + std::min(at + 2, digits->size());
        auto [stopped, error] = std::from_chars(digits->data() + at, end, bytes.emplace_back(), 16);
        if (error != std::errc() || stopped != end || digits->size() % 2 != 0) {
            return Status::invalid(std::string("\"") + key + "\" is no file's name in hexadecimal digits");
        }
    }
    return fs::FileId::parse(bytes);
}

Json failure(const std::string& path, const std::string& cause) {
    return {{"event", "failure"}, {"path", path}, {"cause", cause}};
}

}  // namespace fabric::node
