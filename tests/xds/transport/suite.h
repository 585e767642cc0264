// The tests that every transport must pass. A transport's test program gives a way to make two connected ends:
//
//     INSTANTIATE_TEST_SUITE_P(Tcp, TransportSuite, testing::Values(&make_tcp_pair));
#pragma once

#include <gtest/gtest.h>

#include "tests/xds/transport/place.h"

namespace fabric::xds::transport {

struct Pair {
    Endpoint::Make client, target;
    std::shared_ptr<void> kept;  // as long as the connection
};
using MakePair = Pair (*)(Side& client, Side& target);

class TransportSuite : public testing::TestWithParam<MakePair> {
  protected:
    void SetUp() override;
    void TearDown() override;
    // Gives both sides credits for requests.
    void grant(uint16_t credits);

    std::unique_ptr<Side> client_side_, target_side_;
    std::unique_ptr<Endpoint> client_, target_;
    Pair pair_;
};

}  // namespace fabric::xds::transport
