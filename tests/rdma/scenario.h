// The scenarios: each a name, what it shows, and a function that throws Failure when the server does not behave.
#pragma once

#include <string>
#include <vector>

#include "tests/rdma/client.h"

namespace rogue {

struct Scenario {
    std::string name;
    std::string shows;
    void (*run)(const ServerOptions& server);
    bool spoils = false;  // sends what no client may send: the server's health is checked afterwards
};

std::vector<Scenario> call_scenarios();    // how calls are put together
std::vector<Scenario> header_scenarios();  // malformed messages
std::vector<Scenario> reply_scenarios();   // how replies are laid out
std::vector<Scenario> life_scenarios();    // connections, memory, credits
std::vector<Scenario> all_scenarios();

}  // namespace rogue
