// The tests that every transport must pass. A transport's test program gives a way to make two connected ends:
//
//     INSTANTIATE_TEST_SUITE_P(Tcp, TransportSuite, testing::Values(&make_tcp_pair));
#pragma once

#include <gtest/gtest.h>

#include "tests/xds/transport/endpoint.h"

namespace fabric::xds::transport {

struct Pair {
    Endpoint::Make client, target;
};
using MakePair = Pair (*)();

class TransportSuite : public testing::TestWithParam<MakePair> {
  protected:
    void SetUp() override;
    void TearDown() override;

    std::unique_ptr<Reactor> client_reactor_, target_reactor_;
    std::unique_ptr<Endpoint> client_, target_;
};

}  // namespace fabric::xds::transport
