#include "burstbuffer/fabricctl/orders.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "burstbuffer/control/client.h"
#include "burstbuffer/fabricctl/exit.h"
#include "burstbuffer/fabricctl/progress.h"

namespace fabric::ctl {

using control::Json;

namespace {

struct Asked {
    std::string order;
    std::string socket = "/run/fabric/ctl.sock";
    std::vector<std::string> paths;
    std::string manifest;
    std::string ttl;
    std::string timeout;
    bool drained = false;
    bool pin = false;
    bool follow = false;
    bool json = false;
};

// The node resolves paths by itself, so they must be absolute. The last name may be a link: it is not resolved here.
std::string absolute(const std::string& path) {
    std::error_code error;
    std::filesystem::path whole = std::filesystem::absolute(path, error);
    return error ? path : whole.lexically_normal().string();
}

// "90", "90s", "15m", "12h", "7d": seconds.
std::optional<uint64_t> seconds(const std::string& text) {
    size_t used = 0;
    uint64_t number = 0;
    try {
        number = std::stoull(text, &used);
    } catch (const std::exception&) {
        return std::nullopt;
    }
    std::string unit = text.substr(used);
    uint64_t factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : unit == "d" ? 86400 : 0;
    if (factor == 0 || number == 0 || text.front() == '-' || number > UINT32_MAX / factor) return std::nullopt;
    return number * factor;
}

size_t terminal_width() {
    winsize size{};
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
    return size.ws_col;
}

// What comes while the node works: JSON lines as they are, or a bar and messages for people.
class Display {
  public:
    explicit Display(const Asked& asked) : asked_(asked), bar_(!asked.json && isatty(STDERR_FILENO) != 0) {}

    void event(const Json& event) {
        if (asked_.json) {
            fmt::print("{}\n", event.dump());
            std::fflush(stdout);
            return;
        }
        std::string kind = event.value("event", std::string());
        if (kind == "progress") return progress(event);
        if (kind == "draining") return draining(event);
        clear();
        if (kind == "failure") {
            fmt::print(stderr, "fabricctl: {}: {}\n", event.value("path", std::string()),
                       event.value("cause", std::string()));
        } else if (kind == "share") {
            share(event);
        } else if (kind == "undrained") {
            fmt::print("local    {:>10}  {:>5} s old  {}\n", human_bytes(event.value("bytes", 0.0)),
                       event.value("age", uint64_t{0}), event.value("path", std::string()));
        }
    }
    void clear() {
        if (shown_) fmt::print(stderr, "\r\033[K");
        shown_ = false;
    }
    double loading_seconds() const {
        return loading_ ? std::chrono::duration<double>(std::chrono::steady_clock::now() - *loading_).count() : 0;
    }

  private:
    void progress(const Json& event) {
        if (!event.value("scanning", false) && !loading_) loading_ = std::chrono::steady_clock::now();
        if (!bar_) return;
        fmt::print(stderr, "\r{}\033[K", progress_line(event, loading_seconds(), terminal_width() - 1));
        std::fflush(stderr);
        shown_ = true;
    }
    void draining(const Json& event) {
        if (!bar_) return;
        fmt::print(stderr, "\r{} to be drained\033[K", human_bytes(event.value("undrained_bytes", 0.0)));
        std::fflush(stderr);
        shown_ = true;
    }
    static void share(const Json& event) {
        auto number = [&](const char* key) { return event.value(key, uint64_t{0}); };
        uint64_t bytes = number("bytes");
        fmt::print("{:>4.0f}%  {:>9}/{:<9} files  {:>10} of {:<10}  {} pinned  {}\n",
                   bytes == 0 ? 100.0 : 100.0 * static_cast<double>(number("held_bytes")) / static_cast<double>(bytes),
                   number("held_files"), number("files"), human_bytes(static_cast<double>(number("held_bytes"))),
                   human_bytes(static_cast<double>(bytes)), number("pinned_files"), event.value("path", std::string()));
    }

    const Asked& asked_;
    const bool bar_;
    bool shown_ = false;
    std::optional<std::chrono::steady_clock::time_point> loading_;
};

void show_rules(const Json& answer) {
    for (const Json& rule : answer.value("rules", Json::array())) {
        fmt::print("write-back {}: {} to be drained, the oldest for {} s, {}/s\n", rule.value("rule", std::string()),
                   human_bytes(rule.value("bytes", 0.0)), rule.value("age", uint64_t{0}),
                   human_bytes(rule.value("rate", 0.0)));
        if (!rule.contains("trouble")) continue;
        fmt::print("write-back {}: the backing store does not take it, {} tries: {}\n",
                   rule.value("rule", std::string()), rule.value("tries", uint64_t{0}),
                   rule.value("trouble", std::string()));
    }
}

void show_drained(const Json& answer) {
    auto number = [&](const char* key) { return answer.value(key, uint64_t{0}); };
    std::string left = answer.contains("left") ? ", " + human_seconds(answer.value("left", 0.0)) + " left" : "";
    fmt::print("{}: {} of {} files have {} that only this node has{}\n", answer.value("state", std::string("local")),
               number("undrained_files"), number("files"), human_bytes(answer.value("undrained_bytes", 0.0)), left);
}

void summary(const Asked& asked, const Json& answer, double loading_seconds) {
    auto number = [&](const char* key) { return answer.value(key, uint64_t{0}); };
    if (answer.contains("state")) {
        show_drained(answer);
        if (!answer.value("ok", false)) show_rules(answer);
    } else if (asked.order == "flush") {
        show_rules(answer);
    } else if (asked.order == "stage") {
        fmt::print("{} of {} files, {} of {} bytes are cached ({} files, {} bytes were before); {} failed; {}\n",
                   number("done_files"), number("files"), number("done_bytes"), number("bytes"), number("held_files"),
                   number("held_bytes"), number("failed_files"), human_seconds(loading_seconds));
        if (answer.value("cancelled", false)) fmt::print("cancelled: the same command goes on from here\n");
    } else if (asked.order == "status") {
        for (const Json& disk : answer.value("disks", Json::array())) {
            fmt::print("{}: {}, {} of {} in use, {} records, {} of them not yet drained\n",
                       disk.value("folder", std::string()), disk.value("state", std::string()),
                       human_bytes(disk.value("allocated", 0.0)), human_bytes(disk.value("capacity", 0.0)),
                       disk.value("records", uint64_t{0}), disk.value("dirty_records", uint64_t{0}));
        }
        for (const Json& one : answer.value("datasets", Json::array())) {
            fmt::print("dataset {}: {} of its quota of {} in use\n", one.value("path", std::string()),
                       human_bytes(one.value("bytes", 0.0)), human_bytes(one.value("quota", 0.0)));
        }
        show_rules(answer);
    } else if (asked.order == "verify") {
        fmt::print("{} files: {} not or not wholly cached, {} failed, the rest is right\n", number("files"),
                   number("not_held_files"), number("failed_files"));
    } else if (asked.order != "ls") {
        fmt::print("{} files, {} chunks; {} failed\n", number("files"), number("chunks"), number("failed_files"));
    }
}

Json request_of(const Asked& asked) {
    Json request{{"order", asked.order}};
    if (asked.paths.empty() && asked.manifest.empty()) return request;
    Json paths = Json::array();
    for (const std::string& path : asked.paths) paths.push_back(absolute(path));
    request["paths"] = paths;
    if (asked.follow) request["follow"] = true;
    if (asked.pin) request["pin"] = true;
    if (!asked.manifest.empty()) request["manifest"] = absolute(asked.manifest);
    if (!asked.ttl.empty()) request["ttl"] = *seconds(asked.ttl);
    if (!asked.timeout.empty()) request["timeout"] = *seconds(asked.timeout);
    return request;
}

int ask(const Asked& asked) {
    Result<control::Client> client = control::Client::connect(asked.socket);
    if (!client.ok()) {
        fmt::print(stderr, "fabricctl: {}\n", client.status().message());
        return no_node;
    }
    Display display(asked);
    Result<Json> answer = client->ask(request_of(asked), [&](const Json& event) { display.event(event); });
    display.clear();
    if (!answer.ok()) {
        fmt::print(stderr, "fabricctl: {}\n", answer.status().message());
        return answer.status().code() == Code::unavailable ? no_node : missing;
    }
    if (asked.json) {
        fmt::print("{}\n", answer->dump());
    } else {
        summary(asked, *answer, display.loading_seconds());
    }
    return answer->value("ok", false) ? all_well : missing;
}

void add_time(CLI::App& command, const char* option, std::string& to, const std::string& what) {
    command.add_option(option, to, what + ": 90s, 15m, 12h, 7d")->check([](const std::string& text) {
        return seconds(text) ? std::string() : "expected a time such as 90s, 15m, 12h or 7d";
    });
}

}  // namespace

void add_orders(CLI::App& app, Action& action) {
    struct Command {
        const char* name;
        const char* what;
    };
    constexpr Command commands[] = {
        {"stage", "Loads files into the cache. What is cached already is not loaded again, so it can be interrupted."},
        {"evict", "Drops what the cache holds of files, pinned or not; what is not yet drained stays."},
        {"pin", "Keeps what is cached of files, until it is unpinned or its time is over."},
        {"unpin", "Lets what is cached of files be dropped when room is needed."},
        {"ls", "What of files and folders is cached."},
        {"verify", "Compares what is cached with the backing store, byte for byte."},
        {"status",
         "The node's disks and what is to be drained; or, of files and folders, what only this node has (local), until "
         "the backing store has it too (drained). A folder is local while one of its files is."},
        {"wait", "Waits until files and folders are drained: until the backing store has all that was acknowledged."},
        {"drain", "As wait, and drains without regard to the rate that is set."},
        {"flush", "Drains everything that the node has; ends early when the backing store does not take it."},
    };
    for (const Command& command : commands) {
        auto asked = std::make_shared<Asked>();
        asked->order = command.name;
        CLI::App* sub =
            app.add_subcommand(command.name, std::string(command.what) +
                                                 "\nExit status: 0 all is as asked, 1 something is not (it is "
                                                 "said what), 8 no node, 16 wrong usage.");
        sub->add_option("--socket", asked->socket, "the node's control socket")->capture_default_str();
        sub->add_flag("--json", asked->json, "print events and the answer as lines of JSON");
        if (asked->order != "flush") {
            sub->add_option("PATH", asked->paths, "files and folders of the node's file systems")
                ->required(asked->order != "stage" && asked->order != "status");
            sub->add_flag("--follow", asked->follow, "follow symbolic links");
        }
        if (asked->order == "wait") sub->add_flag("--drained", asked->drained, "what to wait for")->required();
        if (asked->order == "wait" || asked->order == "drain")
            add_time(*sub, "--timeout", asked->timeout, "wait no longer");
        if (asked->order == "stage") {
            sub->add_flag("--pin", asked->pin, "keep it, whatever else is read");
            sub->add_option("--manifest", asked->manifest, "a file with one absolute path a line");
        }
        if (asked->order == "stage" || asked->order == "pin") {
            add_time(*sub, "--ttl", asked->ttl, "drop it after so long");
        }
        sub->callback([&action, asked] {
            if (asked->order == "stage" && asked->paths.empty() && asked->manifest.empty()) {
                throw CLI::RequiredError("PATH or --manifest");
            }
            action = [asked] { return ask(*asked); };
        });
    }
}

}  // namespace fabric::ctl
