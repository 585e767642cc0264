#include "fsal_fabric/status.h"

#include <gtest/gtest.h>

namespace fabric::fsal {
namespace {

TEST(FsalStatus, WhatPassesByItselfIsToldToTheClientAsRetry) {
    for (int error : {EMFILE, ENFILE, ENOMEM, EAGAIN, EINTR, ETIMEDOUT}) {
        EXPECT_EQ(to_fsal_errno(error).major, ERR_FSAL_DELAY) << error;
    }
    EXPECT_EQ(to_fsal(Status(Code::unavailable, EIO, "")).major, ERR_FSAL_DELAY);
}

TEST(FsalStatus, ErrorsOfTheCallerKeepTheirMeaning) {
    EXPECT_EQ(to_fsal_errno(ENOSPC).major, ERR_FSAL_NOSPC);
    EXPECT_EQ(to_fsal_errno(EDQUOT).major, ERR_FSAL_DQUOT);
    EXPECT_EQ(to_fsal_errno(ENAMETOOLONG).major, ERR_FSAL_NAMETOOLONG);
    EXPECT_EQ(to_fsal_errno(ENOENT).major, ERR_FSAL_NOENT);
    EXPECT_EQ(to_fsal_errno(ESTALE).major, ERR_FSAL_STALE);
    EXPECT_EQ(to_fsal_errno(ENOTEMPTY).major, ERR_FSAL_NOTEMPTY);
    EXPECT_EQ(to_fsal_errno(EPERM).major, ERR_FSAL_PERM);
    EXPECT_EQ(to_fsal_errno(EACCES).major, ERR_FSAL_ACCESS);
    EXPECT_EQ(to_fsal_errno(EXDEV).minor, EXDEV);
}

TEST(FsalStatus, UnknownErrorsAreInputOutputErrorsAndSuccessIsSuccess) {
    EXPECT_EQ(to_fsal_errno(EUCLEAN).major, ERR_FSAL_IO);
    EXPECT_EQ(to_fsal_errno(12345).major, ERR_FSAL_IO);
    EXPECT_TRUE(FSAL_IS_SUCCESS(to_fsal_errno(0)));
    EXPECT_TRUE(FSAL_IS_SUCCESS(to_fsal(Status())));
}

}  // namespace
}  // namespace fabric::fsal
