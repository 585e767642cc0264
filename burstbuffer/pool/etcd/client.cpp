#include "burstbuffer/pool/etcd/client.h"

#include <algorithm>

#include "burstbuffer/pool/etcd/json.h"

namespace fabric::etcd {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds shortest_rest = 100ms;
constexpr milliseconds longest_rest = 5s;
constexpr milliseconds least_try = 300ms;  // one endpoint's part of the time, but not more than there is
constexpr milliseconds between_rounds = 50ms;
constexpr size_t most_idle = 8;
constexpr int listings = 3;

// gRPC's status codes that etcd answers with.
enum Grpc {
    deadline_exceeded = 4,
    not_found = 5,
    permission_denied = 7,
    resource_exhausted = 8,
    out_of_range = 11,
    unavailable = 14,
    unauthenticated = 16,
};

bool has(const std::string& message, const char* part) { return message.find(part) != std::string::npos; }

// A token that is too old or is not known, in etcd's words.
bool wants_login(const Refusal& refusal) {
    return refusal.code == unauthenticated || has(refusal.message, "invalid auth token") ||
           has(refusal.message, "revision of auth store is old");
}

// Refused before anything was done.
bool surely_not_done(const Refusal& refusal) {
    return (refusal.code == unavailable && has(refusal.message, "no leader")) ||
           (refusal.code == resource_exhausted && has(refusal.message, "too many requests"));
}

int errno_of(const Refusal& refusal) {
    switch (refusal.code) {
        case not_found:
            return ENOENT;
        case permission_denied:
        case unauthenticated:
            return EACCES;
        case out_of_range:
            return has(refusal.message, "compacted") ? ESTALE : EINVAL;
        case resource_exhausted:
            return has(refusal.message, "space") ? ENOSPC : EAGAIN;
        case unavailable:
        case deadline_exceeded:
            return EAGAIN;
        default:
            return EINVAL;
    }
}

std::string about(const Request& request) {
    std::string key = key_of(request);
    return key.empty() ? std::string() : ", key " + key;
}

Status maybe_done(const Status& status) {
    return {Code::timeout, ETIMEDOUT, status.message() + " (it may have been done)"};
}

milliseconds left(std::chrono::steady_clock::time_point end) {
    return std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now());
}

}  // namespace

Result<std::unique_ptr<Client>> Client::make(Options options) {
    FABRIC_RETURN_IF_ERROR(check(options));
    return std::unique_ptr<Client>(new Client(std::move(options)));
}

Client::Client(Options options) : options_(std::move(options)) {
    for (const std::string& url : options_.endpoints) endpoints_.push_back({url, {}, {}});
}

Result<Reply> Client::call(const Request& request, milliseconds limit) {
    Clock::time_point end = Clock::now() + limit;
    Status last(Code::timeout, ETIMEDOUT, "etcd: no time for a request" + about(request));
    std::unique_ptr<Connection> connection = idle_connection();
    if (connection == nullptr) return Status(Code::io, ENOMEM, "etcd: libcurl cannot be initialized");
    for (size_t tries = 1; left(end) > 0ms; ++tries) {
        if (stopped()) return Status(Code::unavailable, ECANCELED, "etcd: the client was stopped");
        size_t endpoint = choose();
        milliseconds part = left(end) / static_cast<int64_t>(endpoints_.size());
        Try one = attempt(*connection, endpoint, request, std::min(left(end), std::max(part, least_try)));
        if (one.reply.ok() || !one.again) {
            give_back(std::move(connection));
            return std::move(one.reply);
        }
        // The last try may have had too little time to see more than that.
        if (tries == 1 || one.reply.status().code() != Code::timeout) last = one.reply.status();
        // After each round over all endpoints: an election, or a restart, takes a moment.
        if (tries % endpoints_.size() == 0) (void)pause(std::min(left(end), between_rounds));
    }
    return last;
}

Client::Try Client::attempt(Connection& connection, size_t endpoint, const Request& request, milliseconds limit) {
    std::string with;
    if (!options_.user.empty()) {
        Result<std::string> logged_in = token(connection, endpoint, limit);
        if (!logged_in.ok()) {
            int error = logged_in.status().errno_value();
            return {logged_in.status(), error != EACCES && error != EINVAL};
        }
        with = *logged_in;
    }
    Call call = to_call(request);
    Answer answer = connection.post({endpoints_[endpoint].url + call.path, call.body, with, limit, changes(request)});
    return judge(endpoint, request, answer, with);
}

Client::Try Client::judge(size_t endpoint, const Request& request, const Answer& answer, const std::string& token) {
    bool harmless = !changes(request);
    if (!answer.status.ok()) {
        failed(endpoint);
        bool again = !answer.sent || harmless;
        Status status(answer.status.code(), answer.status.errno_value(), answer.status.message() + about(request));
        if (again) return {status, true};
        return {status.code() == Code::corrupt ? status : maybe_done(status), false};
    }
    if (answer.http != 200) return refused(endpoint, request, answer, token);
    Result<Reply> reply = parse_reply(request, answer.body);
    if (reply.ok()) {
        worked(endpoint);
        return {std::move(reply), false};
    }
    // A stream's refusal comes with HTTP's 200.
    Result<Refusal> refusal = parse_refusal(answer.body);
    if (std::holds_alternative<KeepAlive>(request) && refusal.ok()) {
        return refused(endpoint, request, answer, token);
    }
    failed(endpoint);
    return {
        Status(Code::corrupt, EBADMSG,
               name(endpoint) + ": its answer is not one of etcd's" + about(request) + ": " + reply.status().message()),
        harmless};
}

Client::Try Client::refused(size_t endpoint, const Request& request, const Answer& answer, const std::string& token) {
    Result<Refusal> refusal = parse_refusal(answer.body);
    bool harmless = !changes(request);
    if (!refusal.ok()) {
        failed(endpoint);
        return {Status(Code::corrupt, EBADMSG,
                       name(endpoint) + ": HTTP status " + std::to_string(answer.http) +
                           ", with an answer that is not one of etcd's" + about(request) + ": " +
                           refusal.status().message()),
                harmless};
    }
    Status status(Code::unavailable, errno_of(*refusal), name(endpoint) + about(request) + ": " + refusal->message);
    if (wants_login(*refusal) && !token.empty()) {
        forget_token(token);
        return {status, true};
    }
    if (status.errno_value() != EAGAIN) {
        worked(endpoint);
        bool ours = status.errno_value() == EINVAL || status.errno_value() == EACCES;
        return {Status(ours ? Code::invalid : Code::unavailable, status.errno_value(), status.message()), false};
    }
    failed(endpoint);
    if (harmless || surely_not_done(*refusal)) return {status, true};
    return {maybe_done(status), false};
}

Result<Listing> Client::list(const Range& range, milliseconds limit, int64_t page, size_t most) {
    Clock::time_point end = Clock::now() + limit;
    Range paged = range;
    paged.limit = page;
    Result<Listing> listing = list_once(paged, end, most);
    // Compacted between two pages: from the beginning.
    for (int tries = 1; tries < listings && !listing.ok() && listing.status().errno_value() == ESTALE; ++tries) {
        listing = list_once(paged, end, most);
    }
    return listing;
}

Result<Listing> Client::list_once(Range range, Clock::time_point end, size_t most) {
    Listing listing;
    for (bool more = true; more;) {
        Result<Reply> reply = call(range, std::max(left(end), 1ms));
        if (!reply.ok()) return reply.status();
        if (range.revision == 0) range.revision = listing.revision = reply->revision;
        Found& found = reply->found.front();
        more = found.more && !found.keys.empty();
        if (found.keys.size() > most - listing.keys.size()) {
            return Status(Code::unavailable, E2BIG,
                          "etcd: more than " + std::to_string(most) + " keys from " + range.key + " on");
        }
        std::ranges::move(found.keys, std::back_inserter(listing.keys));
        // The least key that is greater.
        if (more) range.key = listing.keys.back().key + '\0';
    }
    return listing;
}

Result<std::string> Client::token(Connection& connection, size_t endpoint, milliseconds limit) {
    {
        std::lock_guard lock(mutex_);
        if (!token_.empty()) return token_;
    }
    std::string body = login_body(options_.user, options_.password);
    Answer answer = connection.post({endpoints_[endpoint].url + "/v3/auth/authenticate", body, {}, limit, false});
    if (!answer.status.ok()) {
        failed(endpoint);
        return answer.status;
    }
    if (answer.http != 200) {
        Result<Refusal> refusal = parse_refusal(answer.body);
        if (!refusal.ok() || refusal->code == unavailable || refusal->code == deadline_exceeded) {
            failed(endpoint);
            std::string why = refusal.ok() ? refusal->message : refusal.status().message();
            return Status(Code::unavailable, EAGAIN, name(endpoint) + ": logging in: " + why);
        }
        return Status(Code::config, EACCES,
                      name(endpoint) + ": user '" + options_.user + "' cannot log in: " + refusal->message);
    }
    Result<std::string> token = parse_token(answer.body);
    if (!token.ok()) {
        failed(endpoint);
        return Status(Code::corrupt, EBADMSG,
                      name(endpoint) + ": its answer to a login is not one of etcd's: " + token.status().message());
    }
    std::lock_guard lock(mutex_);
    token_ = *token;
    return token;
}

// Unless another thread has a new one already.
void Client::forget_token(const std::string& token) {
    std::lock_guard lock(mutex_);
    if (token_ == token) token_.clear();
}

std::string Client::known_token() {
    std::lock_guard lock(mutex_);
    return token_;
}

std::unique_ptr<Connection> Client::idle_connection() {
    {
        std::lock_guard lock(mutex_);
        if (!idle_.empty()) {
            std::unique_ptr<Connection> connection = std::move(idle_.back());
            idle_.pop_back();
            return connection;
        }
    }
    Result<std::unique_ptr<Connection>> made = Connection::make(options_);
    return made.ok() ? std::move(*made) : nullptr;
}

void Client::give_back(std::unique_ptr<Connection> connection) {
    std::lock_guard lock(mutex_);
    if (idle_.size() < most_idle) idle_.push_back(std::move(connection));
}

// The preferred endpoint while it works, then the next that is not resting; when all rest, the one that rested longest.
size_t Client::choose() {
    std::lock_guard lock(mutex_);
    Clock::time_point now = Clock::now();
    size_t best = preferred_;
    for (size_t step = 0; step < endpoints_.size(); ++step) {
        size_t at = (preferred_ + step) % endpoints_.size();
        if (endpoints_[at].rest_until <= now) return at;
        if (endpoints_[at].rest_until < endpoints_[best].rest_until) best = at;
    }
    return best;
}

void Client::worked(size_t endpoint) {
    std::lock_guard lock(mutex_);
    endpoints_[endpoint].rest = 0ms;
    endpoints_[endpoint].rest_until = {};
    preferred_ = endpoint;
}

void Client::failed(size_t endpoint) {
    std::lock_guard lock(mutex_);
    Endpoint& one = endpoints_[endpoint];
    one.rest = std::clamp(one.rest * 2, shortest_rest, longest_rest);
    one.rest_until = Clock::now() + one.rest;
}

bool Client::pause(milliseconds time) {
    std::unique_lock lock(mutex_);
    return !stopping_changed_.wait_for(lock, time, [&] { return stopping_; });
}

bool Client::stopped() {
    std::lock_guard lock(mutex_);
    return stopping_;
}

void Client::stop() {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    stopping_changed_.notify_all();
}

}  // namespace fabric::etcd
