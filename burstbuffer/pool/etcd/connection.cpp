#include "burstbuffer/pool/etcd/connection.h"

#include <curl/curl.h>

#include <array>
#include <limits>

namespace fabric::etcd {
namespace {

constexpr size_t longest_refusal = 64 << 10;  // bytes of a stream's body that is no stream

struct FreeList {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using Headers = std::unique_ptr<curl_slist, FreeList>;

bool add(Headers& headers, const std::string& line) {
    curl_slist* longer = curl_slist_append(headers.get(), line.c_str());
    if (longer == nullptr) return false;
    // The list's first element stays the same once there is one.
    (void)headers.release();
    headers.reset(longer);
    return true;
}

int errno_of(CURLcode code) {
    switch (code) {
        case CURLE_OPERATION_TIMEDOUT:
            return ETIMEDOUT;
        case CURLE_COULDNT_CONNECT:
            return ECONNREFUSED;
        case CURLE_COULDNT_RESOLVE_HOST:
            return EHOSTUNREACH;
        case CURLE_OUT_OF_MEMORY:
            return ENOMEM;
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CERTPROBLEM:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_CONNECT_ERROR:
            return EACCES;
        default:
            return ECONNRESET;
    }
}

bool is_endpoint(std::string_view endpoint) {
    for (std::string_view scheme : {"http://", "https://"}) {
        if (!endpoint.starts_with(scheme)) continue;
        std::string_view rest = endpoint.substr(scheme.size());
        return !rest.empty() && rest.find_first_of("/?#@ \t\r\n") == std::string_view::npos;
    }
    return false;
}

}  // namespace

Status check(const Options& options) {
    if (options.endpoints.empty()) return Status::config("etcd: no endpoint is set");
    for (const std::string& endpoint : options.endpoints) {
        if (!is_endpoint(endpoint)) {
            return Status::config("etcd endpoint '" + endpoint + "': expected http://HOST:PORT or https://HOST:PORT");
        }
    }
    if (options.certificate.empty() != options.key.empty()) {
        return Status::config("etcd: a certificate and its key go together; one of them is not set");
    }
    if (options.user.empty() && !options.password.empty()) return Status::config("etcd: a password without a user");
    return {};
}

struct Connection::Taking {
    const Options& options;
    const Stream* stream = nullptr;
    CURL* handle = nullptr;
    std::string body{};
    bool too_long = false;
    bool ended = false;  // by the one who takes it
    std::chrono::steady_clock::time_point last_piece = std::chrono::steady_clock::now();
    std::chrono::milliseconds silence{0};
    bool silent = false;

    size_t take(std::string_view piece) {
        last_piece = std::chrono::steady_clock::now();
        long http = 0;
        curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &http);
        if (stream != nullptr && http == 200) {
            ended = !stream->piece(piece);
            return ended ? 0 : piece.size();
        }
        size_t most = stream == nullptr ? options.longest_reply : longest_refusal;
        too_long = piece.size() > most - body.size();
        if (too_long) return 0;
        body.append(piece);
        return piece.size();
    }
    bool go_on() {
        if (stream == nullptr) return true;
        silent = std::chrono::steady_clock::now() - last_piece > silence;
        ended = ended || !stream->go_on();
        return !silent && !ended;
    }

    // For libcurl; no exception goes through its C.
    static size_t write(char* data, size_t, size_t size, void* self) noexcept {
        return static_cast<Taking*>(self)->take({data, size});
    }
    static int progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept {
        return static_cast<Taking*>(self)->go_on() ? 0 : 1;
    }
};

Result<std::unique_ptr<Connection>> Connection::make(const Options& options) {
    // Once for the process, before the first handle.
    static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
    std::unique_ptr<Connection> connection(new Connection(options));
    if (ready == CURLE_OK) connection->handle_ = curl_easy_init();
    if (connection->handle_ == nullptr) return Status(Code::io, ENOMEM, "etcd: libcurl cannot be initialized");
    return connection;
}

Connection::~Connection() { curl_easy_cleanup(handle_); }

Status Connection::settings(const Post& post, Taking& taking) {
    curl_easy_reset(handle_);
    bool good = true;
    auto set = [&](CURLoption option, auto value) {
        good = curl_easy_setopt(handle_, option, value) == CURLE_OK && good;
    };
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    // What etcd says goes to etcd alone, whatever the environment's proxy is.
    set(CURLOPT_PROXY, "");
    set(CURLOPT_URL, post.url.c_str());
    set(CURLOPT_POST, 1L);
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(post.body.size()));
    set(CURLOPT_POSTFIELDS, post.body.data());
    set(CURLOPT_CONNECTTIMEOUT_MS,
        static_cast<long>(std::min(options_.connect_limit, std::max(post.limit, options_.connect_limit / 8)).count()));
    set(CURLOPT_TIMEOUT_MS, taking.stream != nullptr ? 0L : static_cast<long>(post.limit.count()));
    set(CURLOPT_FRESH_CONNECT, post.once ? 1L : 0L);
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    set(CURLOPT_WRITEFUNCTION, &Taking::write);
    set(CURLOPT_WRITEDATA, &taking);
    set(CURLOPT_NOPROGRESS, taking.stream == nullptr ? 1L : 0L);
    set(CURLOPT_XFERINFOFUNCTION, &Taking::progress);
    set(CURLOPT_XFERINFODATA, &taking);
    if (!options_.ca.empty()) set(CURLOPT_CAINFO, options_.ca.c_str());
    if (!options_.certificate.empty()) {
        set(CURLOPT_SSLCERT, options_.certificate.c_str());
        set(CURLOPT_SSLKEY, options_.key.c_str());
    }
    if (good) return {};
    return {Code::io, EINVAL, "etcd " + post.url + ": libcurl does not take a setting"};
}

Answer Connection::perform(const Post& post, Taking& taking) {
    Answer answer;
    taking.handle = handle_;
    answer.status = settings(post, taking);
    if (!answer.status.ok()) return answer;
    Headers headers;
    bool listed = add(headers, "Content-Type: application/json") && add(headers, "Expect:");
    if (!post.token.empty()) listed = listed && add(headers, "Authorization: " + std::string(post.token));
    // A member that is cut off from the others ends its watches then, where it would be silent.
    if (taking.stream != nullptr) listed = listed && add(headers, "Grpc-Metadata-hasleader: true");
    std::array<char, CURL_ERROR_SIZE> why{};
    if (!listed || curl_easy_setopt(handle_, CURLOPT_HTTPHEADER, headers.get()) != CURLE_OK ||
        curl_easy_setopt(handle_, CURLOPT_ERRORBUFFER, why.data()) != CURLE_OK) {
        answer.status = {Code::io, ENOMEM, "etcd " + post.url + ": no memory for the request"};
        return answer;
    }
    CURLcode code = curl_easy_perform(handle_);
    long request_size = 0;
    curl_easy_getinfo(handle_, CURLINFO_REQUEST_SIZE, &request_size);
    curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &answer.http);
    // The buffers that these point to end here.
    curl_easy_setopt(handle_, CURLOPT_HTTPHEADER, nullptr);
    curl_easy_setopt(handle_, CURLOPT_ERRORBUFFER, nullptr);
    answer.sent = request_size > 0;
    answer.body = std::move(taking.body);
    if (code == CURLE_OK || taking.ended) return answer;
    if (taking.too_long) {
        answer.status = {Code::corrupt, EMSGSIZE, "etcd " + post.url + ": its answer is too long"};
    } else if (taking.silent) {
        answer.status = {Code::timeout, ETIMEDOUT, "etcd " + post.url + ": silent for too long"};
    } else {
        int error = errno_of(code);
        std::string cause = why[0] != '\0' ? why.data() : curl_easy_strerror(code);
        answer.status = {error == ETIMEDOUT ? Code::timeout : Code::unavailable, error,
                         "etcd " + post.url + ": " + cause};
    }
    return answer;
}

Answer Connection::post(const Post& post) {
    Taking taking{.options = options_};
    return perform(post, taking);
}

Answer Connection::stream(const Post& post, const Stream& stream) {
    Taking taking{.options = options_, .stream = &stream, .silence = post.limit};
    return perform(post, taking);
}

}  // namespace fabric::etcd
