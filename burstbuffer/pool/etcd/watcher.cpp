#include "burstbuffer/pool/etcd/watcher.h"

#include <algorithm>

#include "burstbuffer/pool/etcd/json.h"

namespace fabric::etcd {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds first_pause = 50ms;
constexpr std::chrono::milliseconds longest_pause = 5s;
constexpr std::chrono::milliseconds list_limit = 10s;
constexpr std::chrono::milliseconds login_limit = 5s;
constexpr std::chrono::milliseconds pause_step = 200ms;

Status resumable(std::string message) { return {Code::unavailable, EAGAIN, std::move(message)}; }

}  // namespace

Watcher::Watcher(Client& client, Range range, Handler& handler)
    : client_(client), range_(std::move(range)), handler_(handler), thread_([this] { run(); }) {}

Watcher::~Watcher() {
    stopping_.store(true, std::memory_order_relaxed);
    thread_.join();
}

void Watcher::run() {
    while (running()) {
        if (next_ == 0 && !read_all()) {
            pause_ = std::clamp(pause_ * 2, first_pause, longest_pause);
        } else if (std::unique_ptr<Connection> connection = client_.idle_connection()) {
            // A stream ends its connection; the handle goes with it.
            follow(*connection, client_.choose());
        } else {
            complain({Code::io, ENOMEM, "etcd: libcurl cannot be initialized"});
            pause_ = longest_pause;
        }
        for (auto waited = 0ms; waited < pause_ && running(); waited += pause_step) {
            (void)client_.pause(std::min(pause_step, pause_ - waited));
        }
    }
}

bool Watcher::read_all() {
    Result<Listing> listing = client_.list(range_, list_limit);
    if (!running()) return true;
    if (!listing.ok()) {
        complain(listing.status());
        return false;
    }
    next_ = listing->revision + 1;
    handler_.start_from(*listing);
    return true;
}

void Watcher::follow(Connection& connection, size_t endpoint) {
    partial_.clear();
    problem_ = Status();
    followed_ = false;
    std::string token;
    if (!client_.options().user.empty()) {
        Result<std::string> logged_in = client_.token(connection, endpoint, login_limit);
        if (!logged_in.ok()) {
            pause_ = std::clamp(pause_ * 2, first_pause, longest_pause);
            return complain(logged_in.status());
        }
        token = *logged_in;
    }
    std::string body = watch_body(range_, next_);
    std::string url = client_.options().endpoints[endpoint] + "/v3/watch";
    Answer answer =
        connection.stream({url, body, token, client_.options().watch_silence, true},
                          {[this](std::string_view piece) { return take(piece); }, [this] { return running(); }});
    if (!running()) return;
    bool silent = answer.status.ok() ? false : answer.status.errno_value() == ETIMEDOUT;
    Status status = ended(endpoint, answer, token);
    // A stream that worked and ends in silence is no trouble: it is begun again elsewhere, since it may be dead.
    client_.failed(endpoint);
    pause_ = followed_ ? first_pause : std::clamp(pause_ * 2, first_pause, longest_pause);
    if (!(silent && followed_) && next_ != 0) complain(status);
}

Status Watcher::ended(size_t endpoint, const Answer& answer, const std::string& token) {
    if (!problem_.ok())
        return {problem_.code(), problem_.errno_value(),
                client_.name(endpoint) + ", watch of " + range_.key + ": " + problem_.message()};
    if (!answer.status.ok()) return answer.status;
    std::string where = client_.name(endpoint) + ", watch of " + range_.key + ": ";
    if (answer.http == 200) return resumable(where + "it ended");
    Result<Refusal> refusal = parse_refusal(answer.body);
    if (!refusal.ok())
        return {Code::corrupt, EBADMSG,
                where + "HTTP status " + std::to_string(answer.http) + ": " + refusal.status().message()};
    if (!token.empty()) client_.forget_token(token);
    return resumable(where + refusal->message);
}

// Each line is a message.
bool Watcher::take(std::string_view piece) {
    for (size_t end = 0; (end = piece.find('\n')) != std::string_view::npos; piece.remove_prefix(end + 1)) {
        partial_.append(piece.substr(0, end));
        if (!partial_.empty() && !line(partial_)) return false;
        partial_.clear();
        if (!running()) return false;
    }
    if (piece.size() > client_.options().longest_reply - std::min(partial_.size(), client_.options().longest_reply)) {
        problem_ = {Code::corrupt, EMSGSIZE, "a message is too long"};
        return false;
    }
    partial_.append(piece);
    return true;
}

bool Watcher::line(std::string_view text) {
    Result<WatchReply> reply = parse_watch(text);
    if (!reply.ok()) {
        problem_ = reply.status();
        return false;
    }
    if (reply->compacted > 0) {
        // What lies between cannot be had any more: everything is read anew.
        next_ = 0;
        return false;
    }
    if (reply->cancelled) {
        problem_ = resumable("it was cancelled: " + reply->reason);
        client_.forget_token(client_.known_token());
        return false;
    }
    followed_ = true;
    if (reply->events.empty()) {
        // etcd reports progress only when it has sent all that there is; what it says on creation is not such a report.
        if (!reply->created) next_ = std::max(next_, reply->revision + 1);
        return true;
    }
    Revision last = next_ - 1;
    for (const Event& event : reply->events) {
        bool asked_for = range_.end.empty() ? event.key.key == range_.key
                                            : event.key.key >= range_.key &&
                                                  (range_.end == std::string(1, '\0') || event.key.key < range_.end);
        if (!asked_for || event.key.mod_revision < last || event.key.mod_revision < next_) {
            problem_ = {Code::corrupt, EBADMSG, "key " + event.key.key + " is not in its place among the changes"};
            return false;
        }
        last = event.key.mod_revision;
    }
    next_ = last + 1;
    handler_.changed(reply->events);
    return true;
}

void Watcher::complain(const Status& status) { handler_.trouble(status); }

}  // namespace fabric::etcd
