// An RDMA client made by hand, below our transport: it sends what bytes it likes, and lends what memory it likes.
#pragma once

#include <rdma/rdma_cma.h>

#include <deque>
#include <string>
#include <vector>

#include "common/result.h"
#include "xds/protocol/codec.h"
#include "xds/protocol/rdma_handshake.h"

namespace fabric::xds {

class RawRdma {
  public:
    struct Message {
        wire::Header header;
        std::string text;  // of the body, as wire::print() writes it
    };

    // Connects with this private data, whatever it is. See connected().
    RawRdma(const std::string& host, int port, const void* private_data, size_t length);
    // With a proper handshake.
    RawRdma(const std::string& host, int port);
    ~RawRdma();
    RawRdma(const RawRdma&) = delete;
    RawRdma& operator=(const RawRdma&) = delete;

    const Status& connected() const { return connected_; }
    // One message of these bytes, or of this body; not waited for.
    Status send(const void* bytes, size_t length);
    Status send(const wire::Body& body, uint64_t request = 1, uint16_t credits = 0);
    // The next message that comes; an error when none does in 20 s, or the connection ends.
    Result<Message> next();
    // Sends a hello and takes the answer; how many requests it may send.
    unsigned greet();
    // Opens a file; its handle.
    uint32_t open(const std::string& path, uint32_t flags);
    // Waits (20 s at most) for the target to end the connection.
    bool cut_off();
    // Registers memory with the connection's protection domain; its key. Lives as long as the connection.
    uint32_t lend(void* memory, size_t length);

  private:
    static constexpr size_t slot = 65536 + 64;
    static constexpr unsigned receives = 64, sends = 256;

    Status connect(const std::string& host, int port, const void* private_data, size_t length);
    bool wait_for(int fd) const;
    Status nothing_came() const;

    rdma_cm_id* id_ = nullptr;
    std::vector<char> in_, out_;
    ibv_mr* in_region_ = nullptr;
    ibv_mr* out_region_ = nullptr;
    std::vector<ibv_mr*> lent_;
    unsigned sent_ = 0;
    bool cut_off_ = false;
    Status connected_;
};

}  // namespace fabric::xds
