#include "burstbuffer/placement/rendezvous.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace fabric::placement {

namespace {

// Every bit of the result depends on every bit of `value`: the odd constants and shifts are splitmix64's.
uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return value ^ (value >> 31);
}

}  // namespace

// FNV-1a with a finish that spreads its weak low bits.
uint64_t stable_hash(std::string_view bytes) {
    uint64_t hash = 0xcbf29ce484222325ULL;
    for (char byte : bytes) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3ULL;
    return mix(hash);
}

uint64_t spread(uint64_t item, uint64_t member) { return mix(item ^ mix(member)); }

double score(uint64_t item, const Member& member) {
    if (member.weight <= 0) return 0;
    // Uniform in (0, 1): 53 bits and a half, never 0 or 1. -w / ln(u) is what makes shares proportional to weights.
    double uniform = (static_cast<double>(spread(item, member.id) >> 11) + 0.5) * 0x1p-53;
    return -member.weight / std::log(uniform);
}

std::vector<size_t> order(uint64_t item, std::span<const Member> members) {
    std::vector<double> scores;
    for (const Member& member : members) scores.push_back(score(item, member));
    std::vector<size_t> places(members.size());
    std::iota(places.begin(), places.end(), size_t{0});
    std::ranges::stable_sort(places, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    return places;
}

}  // namespace fabric::placement
