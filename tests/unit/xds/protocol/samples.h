// One message of each type and a few at their edges: what the committed vectors show and where the fuzzers start.
#pragma once

#include <string>
#include <vector>

#include "xds/protocol/codec.h"

namespace fabric::xds::wire {

struct Sample {
    std::string name;
    Header header;
    Body body;
};

// Views in the samples are of static memory.
std::vector<Sample> samples();

}  // namespace fabric::xds::wire
