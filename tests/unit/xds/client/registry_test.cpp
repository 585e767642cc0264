#include "xds/client/registry.h"

#include <gtest/gtest.h>

namespace fabric::xds::client {
namespace {

struct Opaque;

TEST(Registry, AStaleHandleFindsNothingEvenWhenItsPlaceIsUsedAgain) {
    Registry<int, Opaque> registry;
    Opaque* first = registry.add(std::make_shared<int>(1));
    EXPECT_NE(first, nullptr);
    EXPECT_EQ(*registry.get(first), 1);
    EXPECT_EQ(*registry.take(first), 1);
    EXPECT_EQ(registry.take(first), nullptr);
    Opaque* second = registry.add(std::make_shared<int>(2));
    EXPECT_NE(first, second);
    EXPECT_EQ(registry.get(first), nullptr);
    EXPECT_EQ(*registry.get(second), 2);
    EXPECT_EQ(registry.get(nullptr), nullptr);
    EXPECT_EQ(registry.get(reinterpret_cast<Opaque*>(UINTPTR_MAX)), nullptr);
}

}  // namespace
}  // namespace fabric::xds::client
