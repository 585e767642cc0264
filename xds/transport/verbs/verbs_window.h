// A memory window of type 2: the peer's right to a range of registered memory, for one request.
#pragma once

#include <infiniband/verbs.h>

namespace fabric::xds::transport {

struct Exposure;

struct VerbsWindow {
    enum class State {
        idle,
        prepared,  // has its new rkey; the request to bind it is not posted
        bound,     // the peer may use it
        ending,    // the request to invalidate it is queued
    };
    ibv_mw* window = nullptr;
    State state = State::idle;
    uint32_t current = 0;  // the rkey of its last binding: the device binds anew only who knows it
    // Of the binding.
    uint32_t rkey = 0;
    const Exposure* exposure = nullptr;
    ibv_mr* region = nullptr;
    uint64_t address = 0, length = 0;  // bytes
    unsigned rights = 0;               // IBV_ACCESS_
};

}  // namespace fabric::xds::transport
