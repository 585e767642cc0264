#include "common/fault.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "common/log.h"

namespace fabric::fault {
namespace detail {
std::atomic<bool> armed{false};
}

namespace {

enum class Action { error, short_transfer, delay, hang, kill };
// What a place asks of its point: a point armed for one kind of question is not used up by another.
enum class Question { error, length, end };

Question question_of(Action action) {
    if (action == Action::short_transfer) return Question::length;
    return action == Action::hang ? Question::end : Question::error;
}

struct Fault {
    Action action = Action::error;
    int64_t argument = 0;  // errno, bytes or milliseconds
    uint64_t pass = 0;     // hits that are still let through
    uint64_t remaining = UINT64_MAX;
    uint64_t struck = 0;
};

using Faults = std::map<std::string, Fault, std::less<>>;

std::mutex mutex;
// Never destroyed: the thread that follows the fault file is detached and may arm while the process exits.
Faults& faults = *new Faults;

bool parse_number(std::string_view text, uint64_t* number) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
    return error == std::errc() && end == text.data() + text.size();
}

int errno_by_name(std::string_view name) {
    for (int value = 1; value < 134; ++value) {
        const char* known = strerrorname_np(value);
        if (known != nullptr && name == known) return value;
    }
    return 0;
}

Result<std::pair<std::string, Fault>> parse_one(std::string_view item) {
    auto bad = [&](std::string_view why) {
        return Status::invalid("fault '" + std::string(item) + "': " + std::string(why));
    };
    size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0) return bad("expected POINT=ACTION[@N][*COUNT]");
    Fault fault;
    std::string_view action = item.substr(equals + 1);
    if (size_t star = action.find('*'); star != std::string_view::npos) {
        if (!parse_number(action.substr(star + 1), &fault.remaining)) return bad("COUNT is not a number");
        action = action.substr(0, star);
    }
    if (size_t at = action.find('@'); at != std::string_view::npos) {
        if (!parse_number(action.substr(at + 1), &fault.pass)) return bad("N is not a number");
        action = action.substr(0, at);
    }
    uint64_t number = 0;
    if (action == "kill") {
        fault.action = Action::kill;
    } else if (action.starts_with("short:") && parse_number(action.substr(6), &number)) {
        fault.action = Action::short_transfer;
        fault.argument = static_cast<int64_t>(number);
    } else if (action.starts_with("delay:") && parse_number(action.substr(6), &number)) {
        fault.action = Action::delay;
        fault.argument = static_cast<int64_t>(number);
    } else if (action.starts_with("hang:") && parse_number(action.substr(5), &number)) {
        fault.action = Action::hang;
        fault.argument = static_cast<int64_t>(number);
    } else if (int error = errno_by_name(action)) {
        fault.argument = error;
    } else {
        return bad("the action is neither an errno name nor short:BYTES, delay:MS, hang:MS or kill");
    }
    return std::pair{std::string(item.substr(0, equals)), fault};
}

Fault take(std::string_view point, Question question) {
    std::lock_guard lock(mutex);
    auto found = faults.find(point);
    Fault nothing;
    nothing.remaining = 0;
    if (found == faults.end() || question_of(found->second.action) != question) return nothing;
    Fault& fault = found->second;
    if (fault.pass > 0) {
        --fault.pass;
        return nothing;
    }
    if (fault.remaining == 0) return nothing;
    Fault taken = fault;
    ++fault.struck;
    if (fault.remaining != UINT64_MAX) --fault.remaining;
    return taken;
}

void follow_file(std::string path) {
    std::optional<std::string> current;
    for (;;) {
        std::ifstream file(path);
        std::stringstream text;
        text << file.rdbuf();
        if (text.str() != current) {
            current = text.str();
            if (Status status = arm(*current); !status.ok())
                log::error("FABRIC_FAULT_FILE {}: {}", path, status.message());
            else
                std::ofstream(path + ".armed") << "armed: " << *current;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

}  // namespace

int detail::strike(std::string_view point) {
    Fault fault = take(point, Question::error);
    if (fault.remaining == 0) return 0;
    switch (fault.action) {
        case Action::error:
            return static_cast<int>(fault.argument);
        case Action::delay:
            std::this_thread::sleep_for(std::chrono::milliseconds(fault.argument));
            return 0;
        case Action::kill:
            ::kill(::getpid(), SIGKILL);
            return 0;
        case Action::short_transfer:
        case Action::hang:
            return 0;
    }
    return 0;
}

size_t detail::strike_length(std::string_view point, size_t length) {
    Fault fault = take(point, Question::length);
    return fault.remaining == 0 ? length : std::min(length, static_cast<size_t>(fault.argument));
}

int64_t detail::strike_end(std::string_view point) {
    Fault fault = take(point, Question::end);
    return fault.remaining == 0 ? 0 : fault.argument;
}

Status arm(std::string_view spec) {
    Faults parsed;
    std::istringstream items{std::string(spec)};
    for (std::string item; items >> item;) {
        Result<std::pair<std::string, Fault>> one = parse_one(item);
        if (!one.ok()) return one.status();
        parsed.insert_or_assign(one->first, one->second);
    }
    std::lock_guard lock(mutex);
    detail::armed.store(!parsed.empty(), std::memory_order_relaxed);
    faults = std::move(parsed);
    return {};
}

Status arm_from_environment() {
    if (const char* spec = std::getenv("FABRIC_FAULTS")) FABRIC_RETURN_IF_ERROR(arm(spec));
    if (const char* path = std::getenv("FABRIC_FAULT_FILE")) std::thread(follow_file, std::string(path)).detach();
    return {};
}

uint64_t struck(std::string_view point) {
    std::lock_guard lock(mutex);
    auto found = faults.find(point);
    return found == faults.end() ? 0 : found->second.struck;
}

}  // namespace fabric::fault
