#include "xds/client/options.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "xds/client/handles.h"

namespace fabric::xds::client {

const char* from_environment(const char* given, const char* name) {
    if (given != nullptr) return given;
    const char* value = std::getenv(name);
    return value != nullptr ? value : "";
}

namespace {

Result<Mode> mode_from(uint32_t option) {
    static constexpr const char* names[] = {"auto", "direct_only", "staged", "tcp"};
    const char* value = std::getenv("XDS_MODE");
    if (value == nullptr || *value == 0) {
        if (option > XDS_MODE_TCP) return Status::invalid("options: unknown mode");
        return static_cast<Mode>(option);
    }
    for (int i = 0; i < 4; ++i)
        if (std::strcmp(value, names[i]) == 0) return static_cast<Mode>(i);
    return Status::invalid(std::string("XDS_MODE=") + value + ": expected auto, direct_only, staged or tcp");
}

}  // namespace

Result<Settings> settings_from(const xds_options* given) {
    Result<xds_options> options = taken(given);
    if (!options.ok()) return options.status();
    Settings settings;
    settings.address = from_environment(options->address, "XDS_ADDRESS");
    if (settings.address.empty())
        return Status::invalid("no target: set XDS_ADDRESS=HOST:PORT or the option `address`");
    settings.agent = from_environment(options->agent, "XDS_AGENT");
    Result<Mode> mode = mode_from(options->mode);
    if (!mode.ok()) return mode.status();
    settings.mode = *mode;
    unsigned streams = options->streams;
    if (const char* value = std::getenv("XDS_STREAMS"); streams == 0 && value != nullptr)
        streams = static_cast<unsigned>(std::strtoul(value, nullptr, 10));
    if (streams != 0) settings.streams = std::clamp(streams, 1U, 64U);
    if (options->timeout_ms != 0) settings.timeout = std::chrono::milliseconds(options->timeout_ms);
    if (options->piece != 0) settings.piece = std::clamp<size_t>(options->piece, 4096, wire::max_data);
    if (options->staging_bytes != 0) settings.staging_bytes = options->staging_bytes;
    settings.verify = options->verify != 0 || std::strcmp(from_environment(nullptr, "XDS_VERIFY"), "1") == 0;
    return settings;
}

}  // namespace fabric::xds::client
