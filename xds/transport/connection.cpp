#include "xds/transport/connection.h"

#include <algorithm>

namespace fabric::xds::transport {
namespace {

// More than a peer could ever have use for; a hostile grant does not wrap the counter.
constexpr uint32_t credit_ceiling = 1 << 20;

// Encoding needs room for the largest message; what is kept is the message alone.
std::span<std::byte> scratch() {
    static thread_local std::vector<std::byte> room(wire::max_message);
    return room;
}

}  // namespace

Status Connection::send(Send& send, const wire::Body& body) {
    if (closing_) return {Code::unavailable, ECONNRESET, "the connection to " + peer() + " is closing"};
    bool costs = wire::needs_credit(wire::type_of(body));
    if (costs && credits_ == 0) return {Code::unavailable, EAGAIN, peer() + " has granted no further request"};
    wire::Header header = send.header;
    if (!carries_data_inline()) header.data_length = 0;
    Result<size_t> size = wire::encode(header, body, scratch());
    if (!size.ok()) return size.status();
    if (*size > message_limit())
        return {Code::invalid, EMSGSIZE,
                std::string(wire::name_of(wire::type_of(body))) + " of " + std::to_string(*size) + " bytes: " + peer() +
                    " takes messages of " + std::to_string(message_limit()) + " at most"};
    send.bytes.assign(scratch().begin(), scratch().begin() + static_cast<ptrdiff_t>(*size));
    if (costs) --credits_;
    granted_ = std::min(granted_ + send.header.credits, credit_ceiling);
    enqueue(send);
    return {};
}

Status Connection::expose(Exposure& /*exposure*/, const memory::Place& /*place*/, const void* /*address*/,
                          size_t /*length*/, memory::Access /*access*/) {
    return {Code::invalid, ENOTSUP, "the connection to " + peer() + " carries data inline"};
}

void Connection::end_access(Exposure& exposure) { exposure.ended(exposure); }

Status Connection::deliver(const wire::HeaderBytes& header_bytes, wire::Bytes body_bytes, unsigned queue) {
    Result<wire::Body> body = wire::decode_body(header_bytes, body_bytes);
    if (!body.ok()) return body.status();
    Result<wire::Header> header = wire::decode_header(header_bytes);
    if (header->data_length != 0 && !carries_data_inline())
        return {Code::corrupt, EPROTO, peer() + " announced inline data over RDMA"};
    if (wire::needs_credit(header->type)) {
        if (granted_ == 0)
            return {Code::corrupt, EPROTO, peer() + " sent a " + wire::name_of(header->type) + " without a credit"};
        --granted_;
    }
    if (header->credits > 0) credits_ = std::min(credits_ + header->credits, credit_ceiling);
    arrived_over_ = queue;
    owner_.on_message(*this, *header, *body);
    if (header->credits > 0 && !closing_) owner_.on_credits(*this);
    return {};
}

}  // namespace fabric::xds::transport
