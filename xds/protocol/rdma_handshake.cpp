#include "xds/protocol/rdma_handshake.h"

#include <algorithm>

namespace fabric::xds::wire {
namespace {

template <typename A>
void fields(A& a, Access<A, RdmaHandshake>& m) {
    begins_with(a, rdma_magic);
    a("version", m.speaks);
    a("queues", m.queues);
    a("flags", m.flags);
    a("receive_size", m.receive_size);
    a("first_psn", m.first_psn);
    for (size_t i = 0; i < m.numbers.size(); ++i) a("number[" + std::to_string(i + 1) + "]", m.numbers[i]);
}

template <typename A>
void fields(A& a, Access<A, RdmaRefusal>& m) {
    begins_with(a, rdma_magic);
    a("version", m.speaks);
    a("cause", m.cause);
    a("reserved", m.reserved);
}

template <typename T>
std::array<std::byte, T::wire_size> encode_any(const T& message) {
    std::array<std::byte, T::wire_size> bytes{};
    Writer writer(bytes);
    fields(writer, message);
    return bytes;
}

Status corrupt(const char* text) { return {Code::corrupt, EPROTO, text}; }

}  // namespace

std::array<std::byte, RdmaHandshake::wire_size> encode(const RdmaHandshake& handshake) { return encode_any(handshake); }
std::array<std::byte, RdmaRefusal::wire_size> encode(const RdmaRefusal& refusal) { return encode_any(refusal); }

Result<RdmaHandshake> decode_rdma_handshake(Bytes bytes) {
    Reader reader(bytes.first(std::min(bytes.size(), RdmaHandshake::wire_size)));
    RdmaHandshake handshake;
    fields(reader, handshake);
    // A later version may look different behind its number.
    if (reader.ok() && handshake.speaks != rdma_version)
        return Status(Code::invalid, EPROTONOSUPPORT,
                      "XDS over RDMA version " + std::to_string(handshake.speaks) + "; this side speaks " +
                          std::to_string(rdma_version));
    bool in_range = std::all_of(handshake.numbers.begin(), handshake.numbers.end(),
                                [](uint32_t number) { return number <= max_24_bits; });
    if (!reader.ok() || !in_range || handshake.queues == 0 || handshake.queues > max_queues ||
        handshake.first_psn > max_24_bits || handshake.receive_size < least_receive_size)
        return corrupt("the other side of the RDMA connection does not speak XDS");
    handshake.receive_size = std::min<uint32_t>(handshake.receive_size, max_message);
    return handshake;
}

Result<RdmaRefusal> decode_rdma_refusal(Bytes bytes) {
    Reader reader(bytes.first(std::min(bytes.size(), RdmaRefusal::wire_size)));
    RdmaRefusal refusal;
    fields(reader, refusal);
    if (!reader.ok() || refusal.cause > RdmaRefusalCause::resources) return corrupt("not a refusal by XDS");
    return refusal;
}

std::string print(const RdmaHandshake& handshake) {
    Printer printer;
    fields(printer, handshake);
    return printer.text();
}

}  // namespace fabric::xds::wire
