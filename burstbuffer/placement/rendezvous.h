// Weighted rendezvous hashing: which member has an item, so that a change of members moves only what it must.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace fabric::placement {

// The same on every machine and in every version: places on disk follow from it.
uint64_t stable_hash(std::string_view bytes);

struct Member {
    uint64_t id = 0;  // stable_hash of a lasting name
    double weight = 1;
};

// What a member and an item make together: every bit depends on both.
uint64_t spread(uint64_t item, uint64_t member);

// The member's score for an item, from 0 on; the highest one has it. Members' shares are as their weights; a member
// with weight 0 or less scores 0.
double score(uint64_t item, const Member& member);

// The members' places in `members`, the best first.
std::vector<size_t> order(uint64_t item, std::span<const Member> members);

}  // namespace fabric::placement
