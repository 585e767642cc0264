#include "xds/tools/remote.h"

#include <charconv>
#include <utility>

namespace fabric::xds::tools {

Status last_failure(int64_t negative_errno, const std::string& what) {
    return {Code::io, static_cast<int>(-negative_errno), what + ": " + xds_error()};
}

Result<Context> Context::open(const std::string& address, const std::string& agent, bool verify) {
    xds_options options{};
    options.size = sizeof options;
    options.address = address.empty() ? nullptr : address.c_str();
    options.agent = agent.empty() ? nullptr : agent.c_str();
    options.verify = verify;
    xds_ctx* ctx = nullptr;
    int result = xds_ctx_open(&options, &ctx);
    if (result != 0) return last_failure(result, "connection");
    return Context(ctx);
}

Context::Context(Context&& other) noexcept : ctx_(std::exchange(other.ctx_, nullptr)) {}
Context::~Context() {
    if (ctx_ != nullptr) xds_ctx_close(ctx_);
}

Result<File> File::open(const Context& context, const std::string& path, int flags, unsigned mode) {
    xds_file* file = nullptr;
    int result = xds_open(context.get(), path.c_str(), flags, mode, &file);
    if (result != 0) return last_failure(result, "open");
    return File(file);
}

File::File(File&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
File::~File() {
    if (file_ != nullptr) xds_close(file_);
}

Result<uint64_t> File::size() const {
    xds_attributes attributes{};
    attributes.size = sizeof attributes;
    int result = xds_stat(file_, &attributes);
    if (result != 0) return last_failure(result, "stat");
    return attributes.bytes;
}

std::optional<Remote> parse_remote(const std::string& name) {
    if (name.starts_with("xds://")) {
        size_t slash = name.find('/', 6);
        if (slash == std::string::npos) return Remote{name.substr(6), ""};
        return Remote{name.substr(6, slash - 6), name.substr(slash + 1)};
    }
    if (name.starts_with("xds:")) return Remote{"", name.substr(4)};
    return std::nullopt;
}

std::optional<uint64_t> parse_size(const std::string& text) {
    uint64_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return std::nullopt;
    std::string unit(end, text.data() + text.size());
    unsigned shift = 0;
    if (unit == "KiB" || unit == "k" || unit == "K")
        shift = 10;
    else if (unit == "MiB" || unit == "m" || unit == "M")
        shift = 20;
    else if (unit == "GiB" || unit == "g" || unit == "G")
        shift = 30;
    else if (!unit.empty())
        return std::nullopt;
    if (number > (UINT64_MAX >> shift)) return std::nullopt;
    return number << shift;
}

}  // namespace fabric::xds::tools
