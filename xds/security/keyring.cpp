#include "xds/security/keyring.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <charconv>
#include <sstream>

#include "common/unique_fd.h"

namespace fabric::xds::security {
namespace {

std::optional<uint32_t> parse_number(std::string_view text) {
    uint32_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
}

int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

std::optional<Key> parse_key(std::string_view text) {
    Key key;
    if (text.size() != 2 * key.size()) return std::nullopt;
    for (size_t i = 0; i < key.size(); ++i) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0) return std::nullopt;
        key[i] = static_cast<std::byte>(high * 16 + low);
    }
    return key;
}

}  // namespace

Result<std::shared_ptr<Keyring>> Keyring::parse(std::string_view text, const std::string& source) {
    auto ring = std::make_shared<Keyring>();
    std::optional<uint32_t> sign;
    std::istringstream lines{std::string(text)};
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        auto bad = [&](const char* why) { return Status::config(source + ":" + std::to_string(number) + ": " + why); };
        line.erase(std::min(line.find('#'), line.size()));
        std::istringstream words(line);
        std::string first, second, third;
        if (!(words >> first)) continue;
        if (!(words >> second) || words >> third) return bad("expected `EPOCH KEY` or `sign EPOCH`");
        std::optional<uint32_t> epoch = parse_number(first == "sign" ? second : first);
        if (!epoch) return bad("the epoch is not a number from 0 to 4294967295");
        if (first == "sign") {
            sign = epoch;
            continue;
        }
        std::optional<Key> key = parse_key(second);
        if (!key) return bad("the key is not 64 hexadecimal digits");
        Epoch keys{hmac(*key, "xds ticket v1"), hmac(*key, "xds capability v1"), hmac(*key, "xds secret v1")};
        if (!ring->epochs_.emplace(*epoch, keys).second) return bad("this epoch stands twice in the file");
    }
    if (ring->epochs_.empty())
        return Status::config(source + ": no key; add a line `1 KEY` with 64 hexadecimal digits");
    ring->signing_ = sign.value_or(ring->epochs_.rbegin()->first);
    if (!ring->epochs_.contains(ring->signing_))
        return Status::config(source + ": `sign " + std::to_string(ring->signing_) + "`, but that epoch has no key");
    return ring;
}

Result<std::shared_ptr<Keyring>> Keyring::load(const std::string& path) {
    UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return Status::from_errno(errno, "key file " + path);
    struct stat attributes;
    if (::fstat(file.get(), &attributes) != 0) return Status::from_errno(errno, "key file " + path);
    if (!S_ISREG(attributes.st_mode) || (attributes.st_mode & 077) != 0)
        return Status::config("key file " + path + ": others than its owner may use it; chmod 600 it");
    std::string text;
    char buffer[4096];
    for (;;) {
        ssize_t got = ::read(file.get(), buffer, sizeof buffer);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return Status::from_errno(errno, "key file " + path);
        if (got == 0) break;
        text.append(buffer, static_cast<size_t>(got));
        if (text.size() > (1 << 20)) return Status::config("key file " + path + ": larger than 1 MiB");
    }
    return parse(text, path);
}

uint32_t Keyring::signing_epoch() const {
    std::lock_guard lock(mutex_);
    return signing_;
}

std::optional<Key> Keyring::working_key(uint32_t epoch, Use use) const {
    std::lock_guard lock(mutex_);
    auto found = epochs_.find(epoch);
    if (found == epochs_.end()) return std::nullopt;
    switch (use) {
        case Use::ticket:
            return found->second.ticket;
        case Use::capability:
            return found->second.capability;
        case Use::secret:
            return found->second.secret;
    }
    return std::nullopt;
}

void Keyring::replace(const Keyring& other) {
    std::scoped_lock lock(mutex_, other.mutex_);
    epochs_ = other.epochs_;
    signing_ = other.signing_;
}

}  // namespace fabric::xds::security
