// How the server lays out a reply in what the client provides.
#include <algorithm>
#include <cstring>

#include "tests/rdma/scenario.h"

namespace rogue {
namespace {

constexpr uint32_t mebibyte = 1u << 20;
constexpr uint8_t guard = 0xa5;  // what memory holds that nobody may write

Bytes make_file(Client& client, const std::string& name, const Bytes& data) {
    Bytes handle = client.create(name);
    for (size_t at = 0; at < data.size(); at += mebibyte) {
        size_t size = std::min<size_t>(mebibyte, data.size() - at);
        client.write(handle, at, std::span(data).subspan(at, size));
    }
    std::ranges::fill(client.connection().memory(), guard);
    return handle;
}

void expect_chunk_error(const Answer& answer, const std::string& what) {
    check(answer.received.header.proc == Proc::error && answer.received.error == RdmaError::chunk,
          what + " was not answered by ERR_CHUNK");
}

Read3Result read_result(const Answer& answer, uint32_t xid, bool placed) {
    Decoder in(answer.message);
    check(decode_reply(in, xid) == RpcStatus::success, "READ was refused");
    Read3Result result = decode_read3(in, placed);
    check(result.status == 0, "READ answered " + std::to_string(result.status));
    return result;
}

/// Everything of our memory but [from, to) still holds the guard.
void expect_guard(Client& client, size_t from, size_t to) {
    auto memory = client.connection().memory();
    for (size_t i = 0; i < memory.size(); ++i)
        if ((i < from || i >= to) && memory[i] != guard)
            throw Failure("the server wrote at " + std::to_string(i) + ", outside of the chunk");
}

void read_without_chunk(const ServerOptions& server) {
    Client client(server);
    Bytes handle = make_file(client, "without-chunk", pattern(1, mebibyte));
    for (uint32_t count : {8192u, 16384u, 65536u, mebibyte}) {
        uint32_t xid = client.next_xid();
        expect_chunk_error(client.call({}, read3(xid, handle, 0, count).message),
                           "a READ of " + std::to_string(count) + " bytes without a chunk");
        client.null();
    }
}

void chunk_too_short(const ServerOptions& server) {
    Client client(server);
    Bytes handle = make_file(client, "too-short", pattern(2, 65536));
    for (uint32_t room : {0u, 4u, 4096u, 65535u}) {
        uint32_t xid = client.next_xid();
        Header header;
        header.writes.push_back({client.connection().segment(4096, room)});
        expect_chunk_error(client.call(header, read3(xid, handle, 0, 65536).message),
                           "a write chunk of " + std::to_string(room) + " bytes for 65536");
        xid = client.next_xid();
        header.writes.clear();
        header.reply = Chunk{client.connection().segment(4096, room)};
        expect_chunk_error(client.call(header, read3(xid, handle, 0, 65536).message),
                           "a reply chunk of " + std::to_string(room) + " bytes for 65536");
        client.null();
    }
    expect_guard(client, 0, 0);
}

void many_segments(const ServerOptions& server) {
    Client client(server);
    Bytes data = pattern(3, mebibyte);
    Bytes handle = make_file(client, "many-segments", data);
    Chunk chunk;
    size_t at = 1000;
    uint32_t left = mebibyte;
    for (uint32_t i = 0; left; ++i) {
        uint32_t size = std::min(left, 1 + (i * 7919) % 70'001);
        if (i == 5) size = 0;
        chunk.push_back(client.connection().segment(at, size));
        at += size;
        left -= size;
    }
    uint32_t xid = client.next_xid();
    Header header;
    header.writes.push_back(chunk);
    Answer answer = client.call(header, read3(xid, handle, 0, mebibyte).message);
    check(read_result(answer, xid, true).count == mebibyte, "READ was short");
    check(std::ranges::equal(client.connection().memory().subspan(1000, mebibyte), data),
          "READ into segments: wrong bytes");
    expect_guard(client, 1000, 1000 + mebibyte);
}

/// A reply chunk a little over 1 MiB, as a long ACL or extended attribute asks for.
void reply_chunk_over_one_mebibyte(const ServerOptions& server) {
    Client client(server);
    Bytes data = pattern(4, mebibyte);
    Bytes handle = make_file(client, "long-reply", data);
    uint32_t xid = client.next_xid();
    Header header;
    header.reply =
        Chunk{client.connection().segment(4096, mebibyte + 65536), client.connection().segment(2 * mebibyte, mebibyte)};
    Answer answer = client.call(header, read3(xid, handle, 0, mebibyte).message);
    check(answer.received.header.proc == Proc::nomsg, "a long reply did not come by the reply chunk");
    check(read_result(answer, xid, false).data == data, "READ by a reply chunk: wrong bytes");
    expect_guard(client, 4096, 4096 + mebibyte + 65536);
    // a short reply does not use it
    xid = client.next_xid();
    header.reply = Chunk{client.connection().segment(4096, mebibyte + 65536)};
    answer = client.call(header, null_call(xid).message);
    check(answer.received.header.proc == Proc::msg && !answer.received.header.reply,
          "a short reply went to the reply chunk");
}

/// More than the server's buffer: a short READ, never past the buffer.
void read_beyond_the_buffer(const ServerOptions& server) {
    Client client(server);
    Bytes data = pattern(5, 2 * mebibyte);
    Bytes handle = make_file(client, "beyond-the-buffer", data);
    for (uint32_t count : {mebibyte + 4096, 2 * mebibyte, 4 * mebibyte}) {
        uint32_t xid = client.next_xid();
        Header header;
        header.writes.push_back({client.connection().segment(0, count)});
        Answer answer = client.call(header, read3(xid, handle, 0, count).message);
        Read3Result result = read_result(answer, xid, true);
        check(result.count >= mebibyte && result.count <= count,
              "READ returned " + std::to_string(result.count) + " bytes");
        check(!result.eof || result.count == data.size(), "a cut READ says end of file");
        check(std::equal(data.begin(), data.begin() + result.count, client.connection().memory().begin()),
              "READ beyond the buffer: wrong bytes");
    }
}

/// v4.0 READs of several ranges in one compound, with fewer or more write chunks than READs.
void several_reads(const ServerOptions& server) {
    Client client(server);
    Bytes data = pattern(6, 300'000);
    Bytes handle = make_file(client, "several-reads", data);
    struct Range {
        uint64_t offset;
        uint32_t count;
    };
    const Range ranges[] = {{0, 60'001}, {100'000, 50'002}, {200'003, 70'003}};
    for (size_t chunks = 0; chunks <= 4; ++chunks) {
        std::ranges::fill(client.connection().memory(), guard);
        uint32_t xid = client.next_xid();
        Compound call(xid);
        call.putrootfh().lookup("export").lookup("several-reads");
        for (const Range& range : ranges) call.read(range.offset, range.count);
        call.getattr_size();
        Header header;
        for (size_t i = 0; i < chunks; ++i)
            header.writes.push_back({client.connection().segment(i * mebibyte, 100'000)});
        header.reply = Chunk{client.connection().segment(8 * mebibyte, mebibyte)};
        Answer answer = client.call(header, call.finish());
        std::string what = std::to_string(chunks) + " write chunks for three READs: ";
        check(answer.received.header.proc != Proc::error, what + "refused");
        check(answer.received.header.writes.size() == chunks, what + "the write list came back with another length");
        Decoder in(answer.message);
        check(decode_reply(in, xid) == RpcStatus::success, what + "refused");
        CompoundReply reply(in);
        check(reply.count() == 7, what + "the compound ended after " + std::to_string(reply.count()) + " operations");
        reply.next(Op::putrootfh);
        reply.next(Op::lookup);
        reply.next(Op::lookup);
        for (size_t i = 0; i < 3; ++i) {
            check(reply.next(Op::read) == 0, what + "READ failed");
            reply.body().u32();  // eof
            Bytes got;
            if (i < chunks) {
                uint32_t size = reply.body().u32();
                check(length_of(answer.received.header.writes[i]) == size,
                      what + "the chunk's length is not the data's");
                auto place = client.connection().memory().subspan(i * mebibyte, size);
                got.assign(place.begin(), place.end());
            } else {
                got = reply.body().opaque();
            }
            auto expected = std::span(data).subspan(ranges[i].offset, ranges[i].count);
            check(std::ranges::equal(got, expected), what + "READ " + std::to_string(i) + " has wrong bytes");
        }
        check(reply.next(Op::getattr) == 0, what + "GETATTR behind the READs does not decode");
        for (size_t i = 3; i < chunks; ++i)
            check(length_of(answer.received.header.writes[i]) == 0, what + "an unused chunk came back as used");
    }
}

/// Small and odd READs, inline and by chunk: the padding is there, and zero (Decoder::fixed checks).
void padding(const ServerOptions& server) {
    Client client(server);
    Bytes data = pattern(7, mebibyte);
    Bytes handle = make_file(client, "padding", data);
    for (uint32_t count = 1; count <= 9; ++count) {
        uint32_t xid = client.next_xid();
        Read3Result result = read_result(client.call({}, read3(xid, handle, count, count).message), xid, false);
        check(std::ranges::equal(result.data, std::span(data).subspan(count, count)), "inline READ: wrong bytes");
        xid = client.next_xid();
        Compound call(xid);
        call.putrootfh().lookup("export").lookup("padding").read(count, count).getattr_size();
        Answer answer = client.call({}, call.finish());
        Decoder in(answer.message);
        check(decode_reply(in, xid) == RpcStatus::success, "COMPOUND was refused");
        CompoundReply reply(in);
        check(reply.count() == 5, "the compound ended early");
        reply.next(Op::putrootfh);
        reply.next(Op::lookup);
        reply.next(Op::lookup);
        check(reply.next(Op::read) == 0, "READ failed");
        reply.body().u32();
        check(std::ranges::equal(reply.body().opaque(), std::span(data).subspan(count, count)),
              "inline READ: wrong bytes");
        check(reply.next(Op::getattr) == 0,
              "GETATTR behind a READ of " + std::to_string(count) + " bytes does not decode");
    }
    for (uint32_t count : {4093u, 65537u, mebibyte - 3, mebibyte - 2, mebibyte - 1}) {
        uint32_t xid = client.next_xid();
        Header header;
        header.reply = Chunk{client.connection().segment(0, 2 * mebibyte)};
        Read3Result result = read_result(client.call(header, read3(xid, handle, 0, count).message), xid, false);
        check(std::equal(result.data.begin(), result.data.end(), data.begin()) && result.count == count,
              "READ of " + std::to_string(count) + " bytes by a reply chunk: wrong bytes");
        check(client.read(handle, 0, count, 4 * mebibyte) == Bytes(data.begin(), data.begin() + count),
              "READ of " + std::to_string(count) + " bytes by a write chunk: wrong bytes");
    }
}

/// A write list that nothing goes to comes back empty, and data past the end of a file is none.
void empty_results(const ServerOptions& server) {
    Client client(server);
    Bytes handle = make_file(client, "empty-results", pattern(8, 100));
    uint32_t xid = client.next_xid();
    Header header;
    header.writes.push_back({client.connection().segment(0, 4096)});
    Answer answer = client.call(header, null_call(xid).message);
    check(answer.received.header.writes.size() == 1 && length_of(answer.received.header.writes[0]) == 0,
          "an unused write chunk came back as used");
    check(client.read(handle, 100, 4096).empty(), "a READ at the end of the file returned bytes");
    check(client.read(handle, 40, 4096).size() == 60, "a READ over the end of the file");
    Bytes wrong = handle;
    wrong.back() ^= 0xff;
    xid = client.next_xid();
    answer = client.call(header, read3(xid, wrong, 0, 4096).message);
    check(answer.received.header.proc == Proc::msg, "a READ of a wrong handle was not answered");
}

void listings(const ServerOptions& server) {
    Client client(server);
    for (int i = 0; i < 100; ++i) client.create("entry-of-a-listing-" + std::to_string(i));
    for (uint32_t count : {512u, 4096u, 65536u}) {
        uint32_t xid = client.next_xid();
        Header header;
        header.reply = Chunk{client.connection().segment(0, 65536 + 4096)};
        header.writes.push_back({client.connection().segment(mebibyte, mebibyte)});  // not for a listing
        Answer answer = client.call(header, readdir3(xid, client.root(), count).message);
        check(answer.received.header.proc != Proc::error, "READDIR was refused");
        Decoder in(answer.message);
        check(decode_reply(in, xid) == RpcStatus::success && in.u32() == 0, "READDIR failed");
        if (in.u32()) in.skip(84);
        in.skip(8);
        uint32_t entries = 0;
        while (in.u32()) {
            in.skip(8);
            check(!in.opaque().empty(), "a nameless entry");
            in.skip(8);
            ++entries;
        }
        in.u32();
        check(in.left() == 0 && entries > 2, "READDIR of " + std::to_string(count) + " bytes does not decode");
        check(length_of(answer.received.header.writes[0]) == 0,
              "a listing went to a write chunk (RFC 8267 section 5.5)");
    }
}

/// A call that is sent again is answered from the reply cache, or not: never by bytes that have come into the buffer
/// since.
void replayed_read(const ServerOptions& server) {
    Client client(server);
    Bytes data = pattern(11, 60'000), other = pattern(12, 60'000);
    Bytes handle = make_file(client, "replayed", data), other_handle = make_file(client, "replayed-other", other);
    uint32_t xid = client.next_xid();
    Compound call(xid);
    call.putrootfh().lookup("export").create_directory("of-a-replay-" + std::to_string(xid));
    call.putrootfh().lookup("export").lookup("replayed").read(0, 60'000);
    for (int sent = 0; sent < 3; ++sent) {
        std::ranges::fill(client.connection().memory(), guard);
        Header header;
        header.writes.push_back({client.connection().segment(0, 65536)});
        Answer answer = client.call(header, call.finish());
        Decoder in(answer.message);
        check(decode_reply(in, xid) == RpcStatus::success, "COMPOUND was refused");
        CompoundReply reply(in);
        check(sent > 0 || reply.status() == 0, "the compound failed with " + std::to_string(reply.status()));
        if (reply.status() == 0)
            check(std::ranges::equal(client.connection().memory().first(60'000), data),
                  "a replayed READ has bytes of others");
        for (int i = 0; i < 8; ++i) client.read(other_handle, 0, 60'000, mebibyte);
    }
}

/// Who says that it takes more inline gets more inline (RFC 8797), who says nothing or nonsense gets the default.
void inline_sizes(const ServerOptions& server) {
    Bytes handle, data = pattern(10, 4096);
    {
        Client client(server);
        handle = make_file(client, "inline-sizes", data);
    }
    struct Case {
        std::string what;
        Bytes said;
        bool inlined;
    };
    const Bytes magic = {0xf6, 0xab, 0x0e, 0x18};
    auto with = [&](Bytes rest) {
        rest.insert(rest.begin(), magic.begin(), magic.end());
        return rest;
    };
    for (const Case& one : {Case{"nothing", {}, false}, Case{"4 KiB", with({1, 0, 3, 3}), true},
                            Case{"256 KiB", with({1, 0, 255, 255}), true}, Case{"1 KiB", with({1, 0, 0, 0}), false},
                            Case{"another version", with({9, 0, 3, 3}), false}, Case{"half of it", with({1}), false},
                            Case{"something else", Bytes(56, 0xee), false}}) {
        Client client(server, {.private_data = one.said});
        uint32_t xid = client.next_xid();
        Header header;
        header.reply = Chunk{client.connection().segment(0, 65536)};
        Answer answer = client.call(header, read3(xid, handle, 0, 2000).message);
        check(std::ranges::equal(read_result(answer, xid, false).data, std::span(data).first(2000)), "wrong bytes");
        check((answer.received.header.proc == Proc::msg) == one.inlined,
              "a reply of 2 KB to a client that said " + one.what + (one.inlined ? " did not come" : " came") +
                  " inline");
        const Bytes& said = client.connection().private_data();
        check(said.size() >= 8 && std::equal(magic.begin(), magic.end(), said.begin()) && said[4] == 1 && said[7] >= 3,
              "the server does not say that it takes 4 KiB inline");
    }
}

/// A chunk with a handle that is not ours ends this connection, and no other.
void wrong_handle(const ServerOptions& server) {
    Client bystander(server);
    Bytes data = pattern(9, 65536);
    Bytes handle = make_file(bystander, "wrong-handle", data);
    for (bool by_reply_chunk : {false, true}) {
        Client client(server);
        uint32_t xid = client.next_xid();
        Header header;
        Segment segment = client.connection().segment(0, 131072);
        segment.handle ^= 0x00ffff00;
        if (by_reply_chunk) {
            header.reply = Chunk{segment};
        } else {
            header.writes.push_back({segment});
        }
        client.send(header, read3(xid, handle, 0, 65536).message);
        check(client.connection().wait_closed(server.patience), "a wrong handle did not end the connection");
        check(bystander.read(handle, 0, 65536) == data, "another connection suffers");
    }
}

}  // namespace

std::vector<Scenario> reply_scenarios() {
    return {
        {"read-without-chunk", "a READ longer than fits inline is refused", read_without_chunk, true},
        {"chunk-too-short", "a chunk shorter than the data is refused and not written", chunk_too_short, true},
        {"many-segments", "a READ over many segments of odd sizes", many_segments},
        {"reply-chunk-over-one-mebibyte", "a reply chunk a little over 1 MiB", reply_chunk_over_one_mebibyte},
        {"read-beyond-the-buffer", "a READ over 1 MiB is cut, not overrun", read_beyond_the_buffer, true},
        {"several-reads", "READs of one compound and write chunks in any number", several_reads},
        {"padding", "small and odd READs are padded by zeros", padding},
        {"empty-results", "nothing to place, and nothing to read", empty_results},
        {"replayed-read", "a READ that is sent again has no bytes of others", replayed_read, true},
        {"inline-sizes", "as much inline as both sides say", inline_sizes},
        {"listings", "READDIR inline and by the reply chunk", listings},
        {"wrong-handle", "a wrong handle ends its connection only", wrong_handle, true},
    };
}

}  // namespace rogue
