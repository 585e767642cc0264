#include "burstbuffer/writeback/options.h"

namespace fabric::writeback {

// A star is tried short first; only the last one met has to be taken back, one that may stand for slashes before one
// that may not.
bool matches(std::string_view pattern, std::string_view path) {
    struct Star {
        size_t pattern = std::string_view::npos;  // behind it
        size_t path = 0;                          // where what it does not stand for begins
    } one, any;
    size_t at = 0, in = 0;
    while (in < path.size()) {
        if (pattern.substr(at).starts_with("**")) {
            any = {at += 2, in};
            one = {};
        } else if (at < pattern.size() && pattern[at] == '*') {
            one = {++at, in};
        } else if (at < pattern.size() && (pattern[at] == path[in] || (pattern[at] == '?' && path[in] != '/'))) {
            ++at, ++in;
        } else if (one.pattern != std::string_view::npos && path[one.path] != '/') {
            at = one.pattern;
            in = ++one.path;
        } else if (any.pattern != std::string_view::npos) {
            at = any.pattern;
            in = ++any.path;
            one = {};
        } else {
            return false;
        }
    }
    while (at < pattern.size() && pattern[at] == '*') ++at;
    return at == pattern.size();
}

}  // namespace fabric::writeback
