#include "tests/xds/client/fixture.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "tests/xds/transport/place.h"

namespace fabric::xds {

TemporaryFolder::TemporaryFolder() {
    std::string pattern = testing::TempDir() + "xds.XXXXXX";
    path_ = mkdtemp(pattern.data());
    std::filesystem::permissions(path_, std::filesystem::perms(0777));
}
TemporaryFolder::~TemporaryFolder() { std::filesystem::remove_all(path_); }

xds_path host_path() { return transport::over_rdma() ? XDS_PATH_DIRECT : XDS_PATH_TCP; }
std::string transport_name() { return transport::over_rdma() ? "RDMA" : "TCP"; }

std::string random_bytes(size_t length, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::string bytes(length, '\0');
    for (size_t i = 0; i + 8 <= length; i += 8) {
        uint64_t word = random();
        std::memcpy(bytes.data() + i, &word, 8);
    }
    for (size_t i = length / 8 * 8; i < length; ++i) bytes[i] = static_cast<char>(random());
    return bytes;
}

std::string contents(const std::string& path) {
    std::ostringstream out;
    out << std::ifstream(path, std::ios::binary).rdbuf();
    return out.str();
}

void put(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

Memory::Memory(bool sim, size_t length) : sim_(sim) {
    if (sim_) {
        data_ = static_cast<char*>(xds_sim_alloc(std::max<size_t>(length, 1), 0));
    } else {
        host_.resize(std::max<size_t>(length, 1));
        data_ = host_.data();
    }
}
Memory::~Memory() {
    if (sim_) xds_sim_free(data_);
}
void Memory::fill(const std::string& bytes, size_t at) {
    if (sim_)
        ASSERT_EQ(xds_sim_copy_in(data_ + at, bytes.data(), bytes.size()), 0) << xds_error();
    else
        std::memcpy(data_ + at, bytes.data(), bytes.size());
}
std::string Memory::read(size_t at, size_t length) const {
    std::string bytes(length, '\0');
    if (sim_)
        EXPECT_EQ(xds_sim_copy_out(bytes.data(), data_ + at, length), 0) << xds_error();
    else
        std::memcpy(bytes.data(), data_ + at, length);
    return bytes;
}

void WithTarget::SetUp() {
    config.listen = transport::test_address(0);
    if (transport::over_rdma()) config.rdma = target::Rdma::required;
    config.root = folder_.path();
    config.node = "test-node";
    config.lanes = 2;
    config.anonymous_uid = geteuid();
    config.anonymous_gid = getegid();
    configure();
    start_target();
    ctx_ = open_context();
}

void WithTarget::start_target() {
    auto started = target::Target::start(config);
    ASSERT_TRUE(started.ok()) << started.status().message();
    target_ = std::move(*started);
    config.listen = transport::test_address(target_->port());
}

void WithTarget::TearDown() {
    if (ctx_ != nullptr) {
        EXPECT_EQ(xds_ctx_close(ctx_), 0) << xds_error();
    }
    target_.reset();
}

xds_ctx* WithTarget::open_context(xds_options options) {
    options.size = sizeof options;
    if (options.address == nullptr) options.address = config.listen.c_str();
    xds_ctx* ctx = nullptr;
    EXPECT_EQ(xds_ctx_open(&options, &ctx), 0) << xds_error();
    return ctx;
}

xds_file* WithTarget::open(const std::string& path, int flags, mode_t mode) {
    xds_file* opened = nullptr;
    EXPECT_EQ(xds_open(ctx_, path.c_str(), flags, mode, &opened), 0) << xds_error();
    return opened;
}

}  // namespace fabric::xds
