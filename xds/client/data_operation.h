// Reading and writing: one call of a user, cut into pieces that go over several connections.
#pragma once

#include <array>

#include "xds/client/file.h"

namespace fabric::xds::client {

// What a request does with memory, and why.
struct Way {
    memory::Place place;
    xds_path path = XDS_PATH_NONE;  // as it looks beforehand: a connection made anew may be of another sort
    bool staged = false;            // through memory of the library
    bool measured = false;          // it is to be measured how long it takes
    const char* reason = "";
    const memory::Kind& kind() const { return *place.kind; }
};
// Bytes by enum xds_path.
using PathBytes = std::array<uint64_t, XDS_PATH_LOCAL + 1>;

class DataOperation : public Operation {
  public:
    enum class Direction { read, write };

    // Before each use. The file must be alive until done().
    void set(File& file, Direction direction, void* memory, uint64_t length, uint64_t offset, const Way& way);

    bool has_more() const override;
    File* file() const override { return file_; }
    bool is_large() const override { return length_ > 2 * piece_size(); }
    Status send_next(Stream& stream, Piece& piece) override;
    void answered(Piece& piece, const wire::Header& header, const wire::Body& body) override;
    void piece_over(Piece& piece) override;
    void ending() override;

    // After done(): bytes moved from the start without a gap, or a negative errno.
    int64_t result() const;
    const Way& way() const { return way_; }
    const PathBytes& moved() const { return moved_; }
    // The way that most bytes went; the planned one when none did.
    xds_path path() const;

  private:
    struct Range {
        uint64_t offset;  // from the request's start
        size_t length;
    };
    size_t piece_size() const;
    char* at(uint64_t offset) const { return memory_ + offset; }
    Range next_range() const;
    void taken(const Range& range);
    Result<Staging*> take_staging(uint64_t offset);
    Copy& prepare_copy(Copy::Work work, const Range& range, Staging* staging);
    Status copy_in(Copy::Work work, Piece& piece);
    Status start(Copy& copy);
    Status copy_out_next();
    bool goes_through_host_memory_instead(const Status& status);
    bool send_copied(Piece& piece);
    Status send(Stream& stream, Piece& piece);
    Status send_read(Stream& stream, Piece& piece);
    Status send_write(Stream& stream, Piece& piece);
    Status prepare(Stream& stream, Piece& piece);
    Status expose(Stream& stream, Piece& piece);
    Status check(uint64_t offset, size_t length, uint32_t sum, bool has_crc, uint32_t data_crc);
    bool take_in(Piece& piece, xds_path path);
    void taken_in(Copy& copy);
    void copied_out(Copy& copy);
    void moved(xds_path path, uint64_t offset, size_t asked, size_t got);
    void give_back(Copy& copy);

    File* file_ = nullptr;
    Direction direction_ = Direction::read;
    char* memory_ = nullptr;
    uint64_t length_ = 0, offset_ = 0;
    Way way_;
    PathBytes moved_{};
    uint64_t next_ = 0;               // bytes handed out
    uint64_t short_at_ = UINT64_MAX;  // the first byte that the file does not have
    std::vector<Range> again_;        // lost with a connection; its capacity is kept
    unsigned losses_ = 0;
    Copy* first_copied_ = nullptr;  // of a write: in staging memory, to be sent
    Copy* last_copied_ = nullptr;
    std::chrono::steady_clock::time_point began_;
};

// For data between `file` and [address, address + length). ENOTSUP: the mode forbids the only way there is. `counts`: a
// request follows.
Result<Way> choose_way(const File& file, const void* address, size_t length, DataOperation::Direction direction,
                       bool counts = true);

// Makes what was written durable.
class FlushOperation : public Operation {
  public:
    // As DataOperation::set().
    void set(File& file);
    bool has_more() const override { return !sent_ && !failed(); }
    File* file() const override { return file_; }
    Status send_next(Stream& stream, Piece& piece) override;
    void answered(Piece& piece, const wire::Header& header, const wire::Body& body) override;
    void piece_over(Piece& piece) override;

  private:
    File* file_ = nullptr;
    bool sent_ = false;
};

}  // namespace fabric::xds::client
