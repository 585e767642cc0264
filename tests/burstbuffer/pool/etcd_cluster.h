// A real etcd cluster on loopback, in a folder of its own, for one test.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

namespace fabric::etcd::testing {

class Cluster {
  public:
    struct Options {
        int members = 1;
        bool tls = false;  // clients and servers show certificates of one authority (ca(), certificate(), key())
        std::vector<std::string> arguments{};
    };
    // Null: it did not start; it was said why on stderr.
    static std::unique_ptr<Cluster> start(const Options& options);
    ~Cluster();

    std::vector<std::string> endpoints() const;
    const std::string& endpoint(int member) const { return members_[static_cast<size_t>(member)].client; }
    void kill(int member);  // SIGKILL, and waited for
    void suspend(int member);
    void resume(int member);
    bool restart(int member);
    // The member that leads; -1: none.
    int leader() const;
    const std::string& folder() const { return folder_; }
    std::string ca() const { return folder_ + "/ca.pem"; }
    std::string certificate() const { return folder_ + "/one.pem"; }
    std::string key() const { return folder_ + "/one.key"; }

  private:
    struct Member {
        std::string client, peer;
        pid_t pid = -1;
    };
    explicit Cluster(Options options) : options_(std::move(options)) {}
    bool prepare();
    bool launch(int member);
    bool healthy(int member) const;
    bool wait_healthy(int member) const;

    const Options options_;
    std::string folder_;
    std::vector<Member> members_;
};

// What a program on the path says on stdout; empty: it failed.
std::string output_of(const std::string& command);

}  // namespace fabric::etcd::testing
