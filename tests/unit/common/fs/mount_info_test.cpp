#include "common/fs/mount_info.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace fabric::fs {
namespace {

TEST(MountInfo, ReadsALineWithOptionalFields) {
    Mount mount =
        parse_mount("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:4 - ext3 /dev/root rw,errors=continue");
    EXPECT_EQ(mount.id, 36U);
    EXPECT_EQ(mount.path, "/mnt2");
    EXPECT_EQ(mount.type, "ext3");
    EXPECT_EQ(mount.source, "/dev/root");
}

TEST(MountInfo, ReadsALineWithoutOptionalFieldsAndWithEscapes) {
    Mount mount = parse_mount("40 35 0:42 / /mnt/a\\040b\\134c rw - nfs4 host:/x\\011y rw");
    EXPECT_EQ(mount.path, "/mnt/a b\\c");
    EXPECT_EQ(mount.source, "host:/x\ty");
}

TEST(MountInfo, ALineThatIsCutIsNoMount) {
    EXPECT_EQ(parse_mount("").id, 0U);
    EXPECT_EQ(parse_mount("36 35 98:0 /mnt1").id, 0U);
    EXPECT_EQ(parse_mount("36 35 98:0 / /mnt rw shared:1").id, 0U);
    EXPECT_EQ(parse_mount("36 35 98:0 / /mnt rw - ext4").id, 0U);
}

TEST(MountInfo, TheRootIsMounted) {
    std::vector<std::string> paths = mounts_below("/");
    EXPECT_NE(std::ranges::find(paths, "/"), paths.end());
    std::vector<std::string> below = mounts_below("/proc");
    ASSERT_NE(std::ranges::find(below, "/proc"), below.end());
    for (const std::string& path : below) EXPECT_TRUE(path == "/proc" || path.starts_with("/proc/")) << path;
}

}  // namespace
}  // namespace fabric::fs
