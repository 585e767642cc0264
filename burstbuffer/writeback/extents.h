// Which piece has which bytes of one file: the newest wins.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "burstbuffer/writeback/piece.h"

namespace fabric::writeback {

// Not thread safe. Keeps Piece::visible.
class Extents {
  public:
    struct Part {
        uint64_t begin = 0, end = 0;  // of the file
        PiecePtr piece;
    };
    // Its bytes from offset to end.
    void put(const PiecePtr& piece);
    // The file has been truncated: nothing from `size` on.
    void cut(uint64_t size) { erase(size, UINT64_MAX); }
    // What is still to be seen of it: the backing store has it now.
    void remove(const Piece& piece);
    void clear();
    // What of a range is here, in order.
    std::vector<Part> find(uint64_t begin, uint64_t end) const;
    bool empty() const { return parts_.empty(); }

  private:
    void erase(uint64_t begin, uint64_t end);
    std::map<uint64_t, Part> parts_;  // by begin; they do not overlap
};

}  // namespace fabric::writeback
