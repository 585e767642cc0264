// An NFSv3 load generator: keeps DEPTH calls of one kind in flight on one connection and prints what it took as JSON.
//
//     nfs_load HOST PORT HANDLE KIND COUNT [--depth D] [--size BYTES] [--file-size BYTES] [--files N] [--seed N]
//
// HANDLE is the file's or folder's handle in hex (the driver mounts and looks up). KIND:
//   read       COUNT sequential READs of SIZE bytes, from the start again at FILE-SIZE
//   randread   COUNT READs of SIZE bytes at random multiples of SIZE
//   write      COUNT sequential unstable WRITEs of SIZE bytes, then COMMIT
//   create     COUNT times CREATE of a new name, WRITE of SIZE bytes to it
//   open       COUNT times what a client does for open, read and close of one of FILES files: LOOKUP, ACCESS, READ
//   list       READDIRPLUS of the whole folder
// libnfs.h defines what the other two need.
// clang-format off
#include <nfsc/libnfs.h>
#include <nfsc/libnfs-raw.h>
#include <nfsc/libnfs-raw-nfs.h>
// clang-format on
#include <poll.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

[[noreturn]] void die(const std::string& why) {
    std::fprintf(stderr, "nfs_load: %s\n", why.c_str());
    std::exit(1);
}

struct Options {
    std::string host, kind, handle;
    int port = 0;
    uint64_t count = 0, depth = 1, size = 1 << 20, file_size = 1 << 28, files = 1, seed = 1;
};

uint64_t number(std::string_view text) {
    uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) die("not a number: " + std::string(text));
    return value;
}

std::string from_hex(std::string_view hex) {
    std::string bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
        bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
    return bytes;
}

// One connection. Every call takes a function for its result; run() serves until `done` says so.
class Connection {
  public:
    Connection(const Options& options) : rpc_(rpc_init_context()) {
        if (!rpc_) die("no RPC context");
        bool connected = false;
        auto on_connect = [](rpc_context* rpc, int status, void*, void* data) {
            if (status != RPC_STATUS_SUCCESS) die(std::string("connect: ") + rpc_get_error(rpc));
            *static_cast<bool*>(data) = true;
        };
        if (rpc_connect_port_async(rpc_, options.host.c_str(), options.port, NFS_PROGRAM, NFS_V3, on_connect,
                                   &connected) != 0)
            die(std::string("connect: ") + rpc_get_error(rpc_));
        run([&] { return connected; });
    }
    ~Connection() { rpc_destroy_context(rpc_); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    rpc_context* get() const { return rpc_; }

    template <typename Done>
    void run(Done done) {
        while (!done()) {
            pollfd wait{rpc_get_fd(rpc_), static_cast<short>(rpc_which_events(rpc_)), 0};
            if (poll(&wait, 1, 60000) <= 0) die("no answer for 60 s");
            if (rpc_service(rpc_, wait.revents) < 0) die(std::string("connection: ") + rpc_get_error(rpc_));
        }
    }

    // Sends by `call(rpc, callback, arguments, data)` of libnfs; `then` gets the Result.
    template <typename Result, typename Call, typename Arguments>
    void send(Call call, Arguments& arguments, std::function<void(Result&)> then) {
        auto* kept = new std::function<void(Result&)>(std::move(then));
        auto back = [](rpc_context* rpc, int status, void* data, void* mine) {
            std::unique_ptr<std::function<void(Result&)>> function(static_cast<std::function<void(Result&)>*>(mine));
            if (status != RPC_STATUS_SUCCESS) die(std::string("call: ") + rpc_get_error(rpc));
            auto& result = *static_cast<Result*>(data);
            if (result.status != NFS3_OK) die(std::string("NFS: ") + nfsstat3_to_str(result.status));
            (*function)(result);
        };
        if (call(rpc_, back, &arguments, kept) != 0) die(std::string("send: ") + rpc_get_error(rpc_));
    }

  private:
    rpc_context* rpc_;
};

class Load {
  public:
    Load(Options options, Connection& connection)
        : options_(std::move(options)),
          connection_(connection),
          handle_(from_hex(options_.handle)),
          random_(options_.seed) {
        content_.resize(options_.size);
        for (char& byte : content_) byte = static_cast<char>(random_());
    }

    // Calls that end a unit of work, and bytes moved.
    std::pair<uint64_t, uint64_t> run() {
        static const std::map<std::string, void (Load::*)(uint64_t)> kinds = {
            {"read", &Load::read},     {"randread", &Load::read}, {"write", &Load::write},
            {"create", &Load::create}, {"open", &Load::open},     {"list", &Load::list}};
        auto kind = kinds.find(options_.kind);
        if (kind == kinds.end()) die("unknown kind " + options_.kind);
        start_ = kind->second;
        if (options_.kind == "list") options_.count = options_.depth = 1;
        for (uint64_t i = 0; i < std::min(options_.depth, options_.count); ++i) next();
        connection_.run([&] { return done_ == options_.count; });
        if (options_.kind == "write") commit();
        return {options_.kind == "list" ? entries_ : done_, bytes_};
    }

  private:
    void next() {
        if (started_ < options_.count) (this->*start_)(started_++);
    }
    void finish() {
        ++done_;
        next();
    }
    nfs_fh3 as_handle(std::string& bytes) { return {{static_cast<u_int>(bytes.size()), bytes.data()}}; }

    uint64_t offset_of(uint64_t turn) {
        uint64_t pieces = std::max<uint64_t>(options_.file_size / options_.size, 1);
        return (options_.kind == "randread" ? random_() % pieces : turn % pieces) * options_.size;
    }

    void read(uint64_t turn) {
        READ3args arguments{as_handle(handle_), offset_of(turn), static_cast<count3>(options_.size)};
        connection_.send<READ3res>(rpc_nfs3_read_async, arguments, [this](READ3res& result) {
            if (result.READ3res_u.resok.count != options_.size) die("a short READ");
            bytes_ += result.READ3res_u.resok.count;
            finish();
        });
    }

    void write(uint64_t turn) {
        WRITE3args arguments{as_handle(handle_),
                             offset_of(turn),
                             static_cast<count3>(options_.size),
                             UNSTABLE,
                             {static_cast<u_int>(content_.size()), content_.data()}};
        connection_.send<WRITE3res>(rpc_nfs3_write_async, arguments, [this](WRITE3res& result) {
            if (result.WRITE3res_u.resok.count != options_.size) die("a short WRITE");
            bytes_ += options_.size;
            finish();
        });
    }

    void commit() {
        COMMIT3args arguments{as_handle(handle_), 0, 0};
        bool committed = false;
        connection_.send<COMMIT3res>(rpc_nfs3_commit_async, arguments, [&](COMMIT3res&) { committed = true; });
        connection_.run([&] { return committed; });
    }

    std::string name(uint64_t turn) { return "file-" + std::to_string(options_.seed) + "-" + std::to_string(turn); }

    void create(uint64_t turn) {
        std::string text = name(turn);
        CREATE3args arguments{};
        arguments.where = {as_handle(handle_), text.data()};
        arguments.how.mode = UNCHECKED;
        arguments.how.createhow3_u.obj_attributes.mode.set_it = 1;
        arguments.how.createhow3_u.obj_attributes.mode.set_mode3_u.mode = 0644;
        connection_.send<CREATE3res>(rpc_nfs3_create_async, arguments, [this](CREATE3res& result) {
            auto& made = result.CREATE3res_u.resok.obj;
            if (!made.handle_follows) die("CREATE without a handle");
            WRITE3args write_arguments{made.post_op_fh3_u.handle,
                                       0,
                                       static_cast<count3>(options_.size),
                                       UNSTABLE,
                                       {static_cast<u_int>(content_.size()), content_.data()}};
            connection_.send<WRITE3res>(rpc_nfs3_write_async, write_arguments, [this](WRITE3res&) {
                bytes_ += options_.size;
                finish();
            });
        });
    }

    void open(uint64_t) {
        std::string text = name(random_() % options_.files);
        LOOKUP3args arguments{{as_handle(handle_), text.data()}};
        connection_.send<LOOKUP3res>(rpc_nfs3_lookup_async, arguments, [this](LOOKUP3res& result) {
            nfs_fh3& found = result.LOOKUP3res_u.resok.object;
            auto file = std::make_shared<std::string>(found.data.data_val, found.data.data_len);
            ACCESS3args access_arguments{as_handle(*file), ACCESS3_READ};
            connection_.send<ACCESS3res>(rpc_nfs3_access_async, access_arguments, [this, file](ACCESS3res&) {
                READ3args read_arguments{as_handle(*file), 0, static_cast<count3>(options_.size)};
                connection_.send<READ3res>(rpc_nfs3_read_async, read_arguments, [this](READ3res& read_result) {
                    bytes_ += read_result.READ3res_u.resok.count;
                    finish();
                });
            });
        });
    }

    void list(uint64_t) { page(0, {}); }

    void page(cookie3 cookie, const std::string& verifier) {
        READDIRPLUS3args arguments{as_handle(handle_), cookie, {}, 1 << 17, 1 << 20};
        if (!verifier.empty()) std::memcpy(arguments.cookieverf, verifier.data(), sizeof(cookieverf3));
        connection_.send<READDIRPLUS3res>(rpc_nfs3_readdirplus_async, arguments, [this](READDIRPLUS3res& result) {
            auto& ok = result.READDIRPLUS3res_u.resok;
            cookie3 last = 0;
            for (entryplus3* entry = ok.reply.entries; entry; entry = entry->nextentry) {
                last = entry->cookie;
                ++entries_;
            }
            if (ok.reply.eof) return finish();
            if (!ok.reply.entries) die("a page without entries that is not the end");
            page(last, std::string(ok.cookieverf, sizeof(cookieverf3)));
        });
    }

    Options options_;
    Connection& connection_;
    std::string handle_;
    std::vector<char> content_;
    std::mt19937_64 random_;
    void (Load::*start_)(uint64_t) = nullptr;
    uint64_t started_ = 0, done_ = 0, bytes_ = 0, entries_ = 0;
};

Options parse(int argc, char** argv) {
    if (argc < 6)
        die("usage: nfs_load HOST PORT HANDLE KIND COUNT [--depth D] [--size B] [--file-size B] [--files N] [--seed "
            "N]");
    Options options;
    options.host = argv[1];
    options.port = static_cast<int>(number(argv[2]));
    options.handle = argv[3];
    options.kind = argv[4];
    options.count = number(argv[5]);
    const std::map<std::string_view, uint64_t Options::*> flags = {{"--depth", &Options::depth},
                                                                   {"--size", &Options::size},
                                                                   {"--file-size", &Options::file_size},
                                                                   {"--files", &Options::files},
                                                                   {"--seed", &Options::seed}};
    for (int i = 6; i < argc; i += 2) {
        auto flag = flags.find(argv[i]);
        if (flag == flags.end() || i + 1 == argc) die("unknown option, or no value: " + std::string(argv[i]));
        options.*flag->second = number(argv[i + 1]);
    }
    if (options.size == 0 || options.depth == 0 || options.files == 0) die("size, depth and files are at least 1");
    return options;
}

}  // namespace

int main(int argc, char** argv) {
    Options options = parse(argc, argv);
    Connection connection(options);
    Load load(options, connection);
    auto start = std::chrono::steady_clock::now();
    auto [operations, bytes] = load.run();
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("{\"seconds\": %.6f, \"operations\": %llu, \"bytes\": %llu}\n", seconds,
                static_cast<unsigned long long>(operations), static_cast<unsigned long long>(bytes));
    return 0;
}
