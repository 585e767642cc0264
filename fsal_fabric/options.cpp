#include "fsal_fabric/options.h"

#include <string_view>

namespace fabric::fsal {
namespace {

// Ganesha's macros for these tables use nested designators, which C++ does not have. Names are not changed by the
// parser.
config_item item(const char* name, config_type type, size_t offset) {
    config_item made{};
    made.name = const_cast<char*>(name);
    made.type = type;
    made.flags = CONFIG_UNIQUE;
    made.off = offset;
    return made;
}

config_item number(const char* name, size_t offset, uint32_t least, uint32_t most, uint32_t otherwise) {
    config_item made = item(name, CONFIG_UINT32, offset);
    made.u.ui32 = {least, most, otherwise, least == 0};
    return made;
}

config_item big_number(const char* name, size_t offset, uint64_t least, uint64_t most, uint64_t otherwise) {
    config_item made = item(name, CONFIG_UINT64, offset);
    made.u.ui64 = {least, most, otherwise, least == 0, 0, 0};
    return made;
}

config_item text(const char* name, size_t offset, int longest, const char* otherwise) {
    config_item made = item(name, CONFIG_STRING, offset);
    made.u.str = {0, longest, otherwise};
    return made;
}

config_item yes_no(const char* name, size_t offset, bool otherwise) {
    config_item made = item(name, CONFIG_BOOL, offset);
    made.u.b = {otherwise};
    return made;
}

// HOST:PORT, checked here so that the message has file and line.
int check(void* node, void*, void* self, config_error_type* errors) {
    std::string_view address = static_cast<Options*>(self)->metrics_address;
    if (address.empty()) return 0;
    size_t colon = address.rfind(':');
    bool good =
        colon != std::string_view::npos && colon > 0 && colon + 1 < address.size() && address.size() - colon <= 6;
    unsigned port = 0;
    for (size_t i = colon + 1; good && i < address.size(); ++i) {
        good = address[i] >= '0' && address[i] <= '9';
        port = port * 10 + static_cast<unsigned>(address[i] - '0');
    }
    if (good && port <= 65535) return 0;
    config_proc_error(node, errors, const_cast<char*>("Metrics_Address (%s) is not HOST:PORT"),
                      static_cast<Options*>(self)->metrics_address);
    errors->invalid = true;
    return 1;
}

config_block block(const char* name, config_item* params,
                   int (*commit)(void*, void*, void*, config_error_type*) = noop_conf_commit) {
    config_block made{};
    made.dbus_interface_name = const_cast<char*>("org.ganesha.nfsd.config.fsal.fabric");
    made.blk_desc.name = const_cast<char*>(name);
    made.blk_desc.type = CONFIG_BLOCK;
    made.blk_desc.u.blk.init = noop_conf_init;
    made.blk_desc.u.blk.params = params;
    made.blk_desc.u.blk.commit = commit;
    return made;
}

// The parser's marks add up over the whole file; what counts is what our block adds. An unknown option is but a mark to
// it.
class ErrorsSince {
  public:
    explicit ErrorsSince(config_error_type& errors)
        : errors_(errors), count_(errors.errors), bogus_(errors.bogus), invalid_(errors.invalid) {
        errors.bogus = errors.invalid = false;
    }
    ~ErrorsSince() {
        errors_.bogus = errors_.bogus || bogus_;
        errors_.invalid = errors_.invalid || invalid_;
    }
    bool any() const { return errors_.errors > count_ || errors_.bogus || errors_.invalid; }

  private:
    config_error_type& errors_;
    uint32_t count_;
    bool bogus_, invalid_;
};

constexpr uint64_t mebibyte = uint64_t{1} << 20;
constexpr uint64_t gibibyte = uint64_t{1} << 30;

}  // namespace

void refuse_start(config_error_type& errors, const char* reason) {
    if (nfs_init_wait_timeout(0) == 0) return;
    report_config_errors(&errors, nullptr, config_errs_to_log);
    LogFatal(COMPONENT_CONFIG, "The server does not start: %s", reason);
}

bool read_options(config_file_t file, Options& options, config_error_type& errors) {
    const DataConfig otherwise;
    // clang-format off
    static config_item items[] = {
        text("Metrics_Address", offsetof(Options, metrics_address), 255, ""),
        number("Identity_Threads", offsetof(Options, identity_threads), 1, 1024, 16),
        number("IO_Lanes", offsetof(Options, data.lanes), 0, 64, otherwise.lanes),
        number("IO_Depth", offsetof(Options, data.depth), 8, 4096, otherwise.depth),
        big_number("IO_Bytes_In_Flight", offsetof(Options, data.bytes_in_flight), mebibyte, 64 * gibibyte,
                   otherwise.bytes_in_flight),
        big_number("IO_Export_Bytes_In_Flight", offsetof(Options, data.export_bytes_in_flight), mebibyte, 64 * gibibyte,
                   otherwise.export_bytes_in_flight),
        big_number("Read_Buffer_Memory", offsetof(Options, data.buffer_memory), 16 * mebibyte, 1024 * gibibyte,
                   otherwise.buffer_memory),
        number("Buffer_Idle_Time", offsetof(Options, data.buffer_idle_seconds), 1, 3600, otherwise.buffer_idle_seconds),
        big_number("Direct_Read_Min", offsetof(Options, data.direct_read_min), 0, gibibyte, otherwise.direct_read_min),
        big_number("Direct_Write_Min", offsetof(Options, data.direct_write_min), 0, gibibyte,
                   otherwise.direct_write_min),
        config_item{},
    };
    // clang-format on
    static config_block description = block("FABRIC", items, check);
    static config_item buffer_items[] = {
        text("Config", offsetof(Options, burst_buffer), 4095, ""),
        config_item{},
    };
    static config_block buffer = block("BurstBuffer", buffer_items);
    ErrorsSince since(errors);
    int result = load_config_from_parse(file, &description, &options, true, &errors);
    int buffer_result = load_config_from_parse(file, &buffer, &options, true, &errors);
    return result >= 0 && buffer_result >= 0 && !since.any();
}

bool read_export_options(void* node, ExportOptions& options, config_error_type& errors) {
    static config_item items[] = {
        item("Name", CONFIG_NULL, 0),
        yes_no("Cross_Mounts", offsetof(ExportOptions, cross_mounts), true),
        config_item{},
    };
    static config_block description = block("FSAL", items);
    ErrorsSince since(errors);
    int result = load_config_from_node(node, &description, &options, true, &errors);
    return result == 0 && !since.any();
}

}  // namespace fabric::fsal
