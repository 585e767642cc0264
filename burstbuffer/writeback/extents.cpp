#include "burstbuffer/writeback/extents.h"

#include <algorithm>

namespace fabric::writeback {

void Extents::put(const PiecePtr& piece) {
    if (piece->offset >= piece->end) return;
    erase(piece->offset, piece->end);
    parts_.emplace(piece->offset, Part{piece->offset, piece->end, piece});
    piece->visible += piece->end - piece->offset;
}

// A part that begins before the range keeps what is in front of it, and one that ends behind it what is behind.
void Extents::erase(uint64_t begin, uint64_t end) {
    auto at = parts_.lower_bound(begin);
    if (at != parts_.begin() && std::prev(at)->second.end > begin) --at;
    while (at != parts_.end() && at->first < end) {
        Part part = at->second;
        at = parts_.erase(at);
        part.piece->visible -= std::min(part.end, end) - std::max(part.begin, begin);
        if (part.begin < begin) parts_.emplace(part.begin, Part{part.begin, begin, part.piece});
        if (part.end > end) at = parts_.emplace(end, Part{end, part.end, part.piece}).first;
    }
}

void Extents::remove(const Piece& piece) {
    auto at = parts_.lower_bound(piece.offset);
    while (at != parts_.end() && at->first < piece.end) {
        if (at->second.piece.get() != &piece) {
            ++at;
            continue;
        }
        at->second.piece->visible -= at->second.end - at->second.begin;
        at = parts_.erase(at);
    }
}

void Extents::clear() {
    for (auto& [begin, part] : parts_) part.piece->visible = 0;
    parts_.clear();
}

std::vector<Extents::Part> Extents::find(uint64_t begin, uint64_t end) const {
    std::vector<Part> found;
    if (begin >= end) return found;
    auto at = parts_.lower_bound(begin);
    if (at != parts_.begin() && std::prev(at)->second.end > begin) --at;
    for (; at != parts_.end() && at->first < end; ++at) {
        found.push_back({std::max(begin, at->second.begin), std::min(end, at->second.end), at->second.piece});
    }
    return found;
}

}  // namespace fabric::writeback
