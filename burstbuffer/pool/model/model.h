// An exhaustive model of who owns a file's undrained bytes: every order of events, of processes that die, stop anywhere
// and go on, of leases that end and of one node that is lost for good. MODEL.md has the rules in words; the code cites
// their numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fabric::pool::model {

// Each can be left out, to see what goes wrong without it. The numbers are MODEL.md's.
struct Rules {
    bool fence = true;                    // 1
    bool both_have_it = true;             // 2
    bool check_before_answer = true;      // 3
    bool refuse_superseded = true;        // 4
    bool take_over_guard = true;          // 5
    bool generations = true;              // 6
    bool guarded_release = true;          // 7
    bool wait_for_the_old = true;         // 8
    bool drain_again = true;              // 9
    bool return_before_joining = true;    // 10
    bool keep_until_released = true;      // 11
    bool name_the_old = true;             // 12
    bool remember_on_disk = true;         // 13
    bool old_in_record = true;            // 14
    bool copies_of_one_ownership = true;  // 15
};

// How far the model goes; what it finds grows quickly.
struct Limits {
    uint8_t generations = 2;  // of the file's content that clients write
    uint8_t expiries = 2;     // leases that end though their node lives
    uint8_t kills = 1;
    uint8_t losses = 1;  // nodes that never come back, with their disks
};

constexpr size_t nodes = 3;
constexpr int8_t nobody = -1;

struct Node {
    uint8_t lease = 0;     // the incarnation whose member key is at etcd; 0: none
    uint8_t believes = 0;  // the incarnation that the process has; 0: not a member
    uint8_t last = 0;      // of its incarnations
    bool dead = false;
    bool lost = false;
    bool owns = false;        // believes to own the file
    int8_t replica = nobody;  // that has what it has, while it owns; nobody: it takes no writes
    uint8_t copy = 0;         // generation on its disk that may not be at the backing store; 0: none
    uint8_t writing = 0;      // generation that a client waits for; 0: none
    bool copied = false;      // the replica, or who is to be one, has it
    uint8_t draining = 0;  // generation that a thread has checked and is about to write to the backing store; 0: none
    uint8_t drained = 0;   // generation that this owner has written there
    std::array<uint8_t, nodes> superseded{};  // incarnations of others that it has taken over from

    bool operator==(const Node&) const = default;
};

struct State {
    uint8_t issued = 0, acknowledged = 0, backing = 0;
    int8_t owner = nobody;  // the record at etcd
    uint8_t owner_incarnation = 0;
    int8_t replica = nobody;
    int8_t joining = nobody;  // is to be the replica, and may not have everything yet
    // Of each node the incarnation that owned before and may still be writing; 0: none.
    std::array<uint8_t, nodes> old{};
    uint8_t expiries = 0, kills = 0, losses = 0;
    bool went_back = false;  // an older generation was acknowledged after a newer one
    std::array<Node, nodes> node{};

    bool operator==(const State&) const = default;
};

struct Step {
    std::string what;
    State state;
};

// What can happen next.
std::vector<Step> next(const State& state, const Rules& rules, const Limits& limits);
// What is wrong with a state; nothing when it is right.
std::optional<std::string> violation(const State& state);

struct Result {
    size_t states = 0;
    std::optional<std::string> wrong;
    std::vector<std::string> trace;  // the shortest way there
};
// Breadth first from three members and no owner. Ends at the first state that is wrong.
Result explore(const Rules& rules, const Limits& limits);

}  // namespace fabric::pool::model
