#include "tests/rdma/header.h"

namespace rogue {
namespace {

void encode_segment(Encoder& out, const Segment& segment) {
    out.u32(segment.handle).u32(segment.length).u64(segment.address);
}

void encode_chunk(Encoder& out, const Chunk& chunk) {
    out.u32(1).u32(static_cast<uint32_t>(chunk.size()));
    for (const Segment& segment : chunk) encode_segment(out, segment);
}

Segment decode_segment(Decoder& in) {
    Segment segment;
    segment.handle = in.u32();
    segment.length = in.u32();
    segment.address = in.u64();
    return segment;
}

Chunk decode_chunk(Decoder& in) {
    uint32_t count = in.u32();
    check(count <= 1024, "a chunk of the reply has an absurd number of segments");
    Chunk chunk;
    for (uint32_t i = 0; i < count; ++i) chunk.push_back(decode_segment(in));
    return chunk;
}

bool decode_bool(Decoder& in) {
    uint32_t value = in.u32();
    check(value <= 1, "a boolean in the reply's header is neither 0 nor 1");
    return value == 1;
}

}  // namespace

Bytes Header::encode() const {
    Encoder out;
    out.u32(xid).u32(version).u32(credits).u32(static_cast<uint32_t>(proc));
    for (const ReadEntry& entry : reads) {
        out.u32(1).u32(entry.position);
        encode_segment(out, entry.segment);
    }
    out.u32(0);
    for (const Chunk& chunk : writes) encode_chunk(out, chunk);
    out.u32(0);
    if (reply) {
        encode_chunk(out, *reply);
    } else {
        out.u32(0);
    }
    return out.bytes();
}

Received decode_message(std::span<const uint8_t> message) {
    Decoder in(message);
    Received received;
    Header& header = received.header;
    header.xid = in.u32();
    header.version = in.u32();
    header.credits = in.u32();
    header.proc = static_cast<Proc>(in.u32());
    check(header.version == 1, "the answer is not of version 1");
    if (header.proc == Proc::error) {
        received.error = static_cast<RdmaError>(in.u32());
        if (received.error == RdmaError::vers) {
            received.lowest = in.u32();
            received.highest = in.u32();
        }
        return received;
    }
    check(header.proc == Proc::msg || header.proc == Proc::nomsg, "the answer is of an unknown type");
    check(!decode_bool(in), "a reply must not have a read list (RFC 8166 section 4.3.1)");
    while (decode_bool(in)) header.writes.push_back(decode_chunk(in));
    if (decode_bool(in)) header.reply = decode_chunk(in);
    size_t rest = in.left();
    received.body.assign(message.end() - static_cast<std::ptrdiff_t>(rest), message.end());
    return received;
}

}  // namespace rogue
