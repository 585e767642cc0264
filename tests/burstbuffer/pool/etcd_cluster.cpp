#include "tests/burstbuffer/pool/etcd_cluster.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "burstbuffer/pool/etcd/client.h"
#include "common/unique_fd.h"

namespace fabric::etcd::testing {
namespace {

using namespace std::chrono_literals;

// Ports that were free together a moment ago.
std::vector<int> free_ports(size_t count) {
    std::vector<UniqueFd> held;
    std::vector<int> ports;
    while (ports.size() < count) {
        UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(address);
        if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
            ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
            return {};
        }
        ports.push_back(ntohs(address.sin_port));
        held.push_back(std::move(fd));
    }
    return ports;
}

}  // namespace

std::string output_of(const std::string& command) {
    std::string output;
    FILE* pipe = ::popen(command.c_str(), "re");
    if (pipe == nullptr) return {};
    std::array<char, 4096> piece{};
    while (size_t size = std::fread(piece.data(), 1, piece.size(), pipe)) output.append(piece.data(), size);
    return ::pclose(pipe) == 0 ? output : std::string();
}

std::unique_ptr<Cluster> Cluster::start(const Options& options) {
    std::unique_ptr<Cluster> cluster(new Cluster(options));
    if (!cluster->prepare()) return nullptr;
    for (int member = 0; member < options.members; ++member) {
        if (!cluster->launch(member)) return nullptr;
    }
    for (int member = 0; member < options.members; ++member) {
        if (!cluster->wait_healthy(member)) return nullptr;
    }
    return cluster;
}

bool Cluster::prepare() {
    // In memory: what is tested is not how fast a disk is.
    std::string pattern = "/dev/shm/fabric-etcd.XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) return false;
    folder_ = pattern;
    std::vector<int> ports = free_ports(static_cast<size_t>(options_.members) * 2);
    if (ports.empty()) return false;
    std::string scheme = options_.tls ? "https://127.0.0.1:" : "http://127.0.0.1:";
    for (size_t at = 0; at < static_cast<size_t>(options_.members); ++at) {
        members_.push_back(
            {scheme + std::to_string(ports[2 * at]), "http://127.0.0.1:" + std::to_string(ports[2 * at + 1])});
    }
    if (!options_.tls) return true;
    std::string make =
        "cd " + folder_ +
        " && exec 2>openssl.log && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out "
        "ca.pem"
        " && openssl req -newkey rsa:2048 -nodes -subj /CN=one -keyout one.key -out one.csr"
        " && printf 'subjectAltName=IP:127.0.0.1\\nextendedKeyUsage=serverAuth,clientAuth\\n' > ext"
        " && openssl x509 -req -in one.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out one.pem"
        " && openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=other -keyout other.key -out other.pem"
        " && echo made";
    return !output_of(make).empty();
}

bool Cluster::launch(int member) {
    Member& self = members_[static_cast<size_t>(member)];
    std::string name = "m" + std::to_string(member), all;
    for (size_t at = 0; at < members_.size(); ++at) {
        all += (at == 0 ? "m" : ",m") + std::to_string(at) + "=" + members_[at].peer;
    }
    std::vector<std::string> words = {"etcd",
                                      "--name",
                                      name,
                                      "--data-dir",
                                      folder_ + "/" + name,
                                      "--listen-client-urls",
                                      self.client,
                                      "--advertise-client-urls",
                                      self.client,
                                      "--listen-peer-urls",
                                      self.peer,
                                      "--initial-advertise-peer-urls",
                                      self.peer,
                                      "--initial-cluster",
                                      all,
                                      "--heartbeat-interval",
                                      "50",
                                      "--election-timeout",
                                      "500"};
    if (options_.tls) {
        for (const std::string& word : {std::string("--cert-file"), certificate(), std::string("--key-file"), key(),
                                        std::string("--trusted-ca-file"), ca(), std::string("--client-cert-auth")}) {
            words.push_back(word);
        }
    }
    words.insert(words.end(), options_.arguments.begin(), options_.arguments.end());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::string log = folder_ + "/" + name + ".log";
    pid_t parent = ::getpid();
    self.pid = ::fork();
    if (self.pid != 0) return self.pid > 0;
    // The child, until exec: nothing is left behind when the test dies.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    int fd = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(fd, STDOUT_FILENO);
    ::dup2(fd, STDERR_FILENO);
    ::execvp("etcd", arguments.data());
    ::_exit(127);
}

bool Cluster::healthy(int member) const {
    etcd::Options options;
    options.endpoints = {endpoint(member)};
    if (options_.tls) {
        options.ca = ca();
        options.certificate = certificate();
        options.key = key();
    }
    auto client = Client::make(options);
    if (!client.ok()) return false;
    Result<Reply> reply = (*client)->call(Range{"health", "", 0, 0}, 1s);
    // With users, who is none is refused by an etcd that works.
    return reply.ok() || reply.status().message().find("user name is empty") != std::string::npos;
}

bool Cluster::wait_healthy(int member) const {
    for (int tries = 0; tries < 60; ++tries) {
        if (healthy(member)) return true;
        std::this_thread::sleep_for(100ms);
    }
    std::fprintf(stderr, "etcd member %d did not become healthy:\n%s\n", member,
                 output_of("tail -5 " + folder_ + "/m" + std::to_string(member) + ".log").c_str());
    return false;
}

Cluster::~Cluster() {
    for (int member = 0; member < static_cast<int>(members_.size()); ++member) kill(member);
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
}

std::vector<std::string> Cluster::endpoints() const {
    std::vector<std::string> all;
    for (const Member& member : members_) all.push_back(member.client);
    return all;
}

void Cluster::kill(int member) {
    Member& self = members_[static_cast<size_t>(member)];
    if (self.pid <= 0) return;
    ::kill(self.pid, SIGKILL);
    ::waitpid(self.pid, nullptr, 0);
    self.pid = -1;
}

void Cluster::suspend(int member) { ::kill(members_[static_cast<size_t>(member)].pid, SIGSTOP); }
void Cluster::resume(int member) { ::kill(members_[static_cast<size_t>(member)].pid, SIGCONT); }
bool Cluster::restart(int member) { return launch(member) && wait_healthy(member); }

int Cluster::leader() const {
    for (int member = 0; member < static_cast<int>(members_.size()); ++member) {
        if (members_[static_cast<size_t>(member)].pid <= 0) continue;
        etcd::Options options;
        auto connection = Connection::make(options);
        if (!connection.ok()) return -1;
        std::string said = (*connection)->post({endpoint(member) + "/v3/maintenance/status", "{}", {}, 2s, false}).body;
        nlohmann::json json = nlohmann::json::parse(said, nullptr, false);
        if (json.is_discarded() || !json.is_object() || !json.contains("leader")) continue;
        if (json["leader"] == json["header"]["member_id"]) return member;
    }
    return -1;
}

}  // namespace fabric::etcd::testing
