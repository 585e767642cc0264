#include "common/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace fabric {
namespace {

TEST(Status, FromErrnoNamesTheCallAndTheCause) {
    Status status = Status::from_errno(ENOSPC, "write /data/a");
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(status.errno_value(), ENOSPC);
    EXPECT_EQ(status.message(), "write /data/a: No space left on device");
}

TEST(Status, AFailureWithoutErrnoIsStillAFailure) {
    EXPECT_EQ(Status::from_errno(0, "x").errno_value(), EIO);
    EXPECT_FALSE(Status::from_errno(0).ok());
}

TEST(Result, HoldsMoveOnlyValues) {
    Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
    ASSERT_TRUE(result.ok());
    std::unique_ptr<int> value = std::move(result).value();
    EXPECT_EQ(*value, 7);
}

TEST(Result, CarriesTheStatus) {
    Result<int> result = Status::from_errno(ESTALE);
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(result.status().errno_value(), ESTALE);
}

Status outer(Status inner) {
    FABRIC_RETURN_IF_ERROR(std::move(inner));
    return Status::invalid("reached the end");
}

TEST(Result, ReturnIfErrorReturnsOnlyErrors) {
    EXPECT_EQ(outer(Status()).message(), "reached the end");
    EXPECT_EQ(outer(Status::from_errno(EIO)).errno_value(), EIO);
}

}  // namespace
}  // namespace fabric
