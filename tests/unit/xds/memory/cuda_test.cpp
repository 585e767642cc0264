#include "xds/memory/cuda.h"

#include <gtest/gtest.h>

namespace fabric::xds::memory {
namespace {

// As sysfs shows a GPU with 16 MiB of registers and a window of 128 GiB.
TEST(BarSize, IsThatOfTheWindow) {
    const std::string resources =
        "0x00000000fb000000 0x00000000fbffffff 0x0000000000040200\n"
        "0x0000002000000000 0x0000003fffffffff 0x000000000014220c\n"
        "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
    EXPECT_EQ(bar_size(resources, 0), 16u << 20);
    EXPECT_EQ(bar_size(resources, 1), uint64_t{128} << 30);
    EXPECT_EQ(bar_size(resources, 2), 0u);
    EXPECT_EQ(bar_size(resources, 9), 0u);
    EXPECT_EQ(bar_size("", 1), 0u);
    EXPECT_EQ(bar_size("nonsense\nnonsense\n", 1), 0u);
}

}  // namespace
}  // namespace fabric::xds::memory
