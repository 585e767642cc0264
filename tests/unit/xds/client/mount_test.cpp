#include "xds/client/mount.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace fabric::xds::client {
namespace {

fs::Mount mount(const std::string& path, const std::string& source, const std::string& type = "nfs4") {
    fs::Mount result;
    result.path = path;
    result.source = source;
    result.type = type;
    return result;
}

TEST(Mount, PathsAreTakenBelowTheMount) {
    EXPECT_EQ(path_on_target(mount("/mnt", "gw:/data"), "/mnt/a/b", ""), "/a/b");
    EXPECT_EQ(path_on_target(mount("/mnt/", "gw:/data/"), "/mnt/a", ""), "/a");
    EXPECT_EQ(path_on_target(mount("/", "gw:/"), "/a", ""), "/a");
    EXPECT_FALSE(path_on_target(mount("/mnt", "gw:/data"), "/mntother/a", ""));
    EXPECT_FALSE(path_on_target(mount("/mnt", "/dev/sda1", "ext4"), "/mnt/a", ""));
}

TEST(Mount, AMountOfASubfolderHasItsPathPutBack) {
    EXPECT_EQ(path_on_target(mount("/mnt", "gw:/export/sub"), "/mnt/a", "/export"), "/sub/a");
    EXPECT_EQ(path_on_target(mount("/mnt", "gw:/export"), "/mnt/a", "/export"), "/a");
    EXPECT_EQ(path_on_target(mount("/mnt", "[fe80::1]:/export/sub/"), "/mnt/a", "/export/"), "/sub/a");
    EXPECT_FALSE(path_on_target(mount("/mnt", "gw:/exported"), "/mnt/a", "/export"));
    EXPECT_FALSE(path_on_target(mount("/mnt", "gw:/other"), "/mnt/a", "/export"));
}

TEST(Mount, ADescriptorElsewhereIsNotFound) {
    int fd = open("/", O_RDONLY | O_DIRECTORY);
    auto found = find_on_target(fd, "");
    ASSERT_TRUE(found.ok());
    EXPECT_FALSE(*found);
    close(fd);
    EXPECT_EQ(find_on_target(-1, "").status().errno_value(), EBADF);
}

}  // namespace
}  // namespace fabric::xds::client
