// A target in this process, serving a folder of its own, and a client context for it.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "xds/client/include/xds.h"
#include "xds/target/target.h"

namespace fabric::xds {

// A folder that goes away with everything in it.
class TemporaryFolder {
  public:
    TemporaryFolder();
    ~TemporaryFolder();
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

// The way that data of host memory takes in this run of the tests, and its bytes.
xds_path host_path();
template <typename Counted>
uint64_t host_bytes(const Counted& counted) {
    return host_path() == XDS_PATH_DIRECT ? counted.direct_bytes : counted.tcp_bytes;
}
// "RDMA" or "TCP".
std::string transport_name();

std::string random_bytes(size_t length, uint64_t seed);
std::string contents(const std::string& path);
void put(const std::string& path, const std::string& bytes);

// Memory of a kind, by the library's own functions.
class Memory {
  public:
    Memory(bool sim, size_t length);
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    char* data() const { return data_; }
    void fill(const std::string& bytes, size_t at = 0);
    std::string read(size_t at, size_t length) const;

  private:
    bool sim_;
    char* data_ = nullptr;
    std::vector<char> host_;
};

class WithTarget : public testing::Test {
  protected:
    void SetUp() override;
    void TearDown() override;
    // Settings of the target, to be changed before start_target().
    target::Config config;
    virtual void configure() {}
    void start_target();
    void stop_target() { target_.reset(); }
    xds_ctx* open_context(xds_options options = {});
    xds_file* open(const std::string& path, int flags = O_RDONLY, mode_t mode = 0644);
    std::string file(const std::string& name) const { return folder_.path() + "/" + name; }

    TemporaryFolder folder_;
    std::unique_ptr<target::Target> target_;
    xds_ctx* ctx_ = nullptr;
};

}  // namespace fabric::xds
