// xds_read_many: small files, many in one message.
#pragma once

#include <span>

#include "xds/client/context.h"

namespace fabric::xds::client {

class ManyOperation : public Operation {
  public:
    // The memory of `files` must stay until done().
    ManyOperation(Context& context, std::span<xds_many> files, std::span<const memory::Kind* const> kinds)
        : context_(context), files_(files), kinds_(kinds) {
        limit = context.settings().timeout;
    }

    bool has_more() const override { return !failed() && next_ < files_.size(); }
    bool is_large() const override { return true; }
    Status send_next(Stream& stream, Piece& piece) override;
    void answered(Piece& piece, const wire::Header& header, const wire::Body& body) override;
    void piece_over(Piece& piece) override;

  private:
    bool goes_directly(const Stream& stream, size_t index) const;
    size_t batch_end(const Stream& stream, size_t from) const;
    Status prepare(Stream& stream, Piece& piece);
    Status take_in(const Piece& piece, uint64_t& bytes);

    Context& context_;
    std::span<xds_many> files_;
    std::span<const memory::Kind* const> kinds_;  // of each file's buffer
    size_t next_ = 0;
    std::vector<wire::ManyEntry> entries_;
    std::string names_;
};

}  // namespace fabric::xds::client
