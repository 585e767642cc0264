#include "tests/unit/xds/protocol/samples.h"

namespace fabric::xds::wire {
namespace {

template <size_t N>
std::array<std::byte, N> pattern(unsigned start) {
    std::array<std::byte, N> bytes;
    for (size_t i = 0; i < N; ++i) bytes[i] = static_cast<std::byte>(start + i);
    return bytes;
}

FileId file() { return {pattern<16>(0x10), 1, std::string_view("\x0b\x00\x00\x00\x07\x00\xfe\xff", 8)}; }

Attributes attributes() { return {5'000'000'001, 77, 1'700'000'000'123'456'789, -1, 0100640, 1000, 100, 2}; }

const std::vector<Segment>& segments() {
    static const std::vector<Segment> list = {{0x7f00'1234'5000, 0xdead'beef, 1 << 20}, {0x10, 1, 4097}};
    return list;
}
const std::vector<Member>& members() {
    static const std::vector<Member> list = {{0, 2, 9, 100, 0}, {11, 2, 9, 50, 0}};
    return list;
}
const std::vector<ManyEntry>& entries() {
    static const std::vector<ManyEntry> list = {{0, 3, 0, 4096, 0, 0}, {3, 4, 0, 100, 0, 4096}};
    return list;
}
const std::vector<ManyResult>& results() {
    static const std::vector<ManyResult> list = {{0, 4096, 5000, 0x1234'5678, Cause::none, 0},
                                                 {2, 0, 0, 0, Cause::not_found, 0}};
    return list;
}

std::vector<Body> one_of_each() {
    Hello hello;
    hello.cluster = pattern<16>(0xa0);
    hello.nonce = pattern<16>(0xb0);
    hello.time_ns = 1'700'000'000'000'000'000;
    hello.ticket = "ticket bytes";
    hello.proof = pattern<32>(0xc0);
    HelloReply welcome;
    welcome.instance = 0x0102'0304'0506'0708;
    welcome.map_epoch = 9;
    welcome.nonce = pattern<16>(0x30);
    welcome.proof = pattern<32>(0x40);
    welcome.node = "node-1";
    constexpr uint32_t open_mode = open_flags::read | open_flags::write | open_flags::create;
    return {hello,
            welcome,
            Open{open_mode, 0640, "models/a b.safetensors", {}, {}},
            OpenReply{3, 0, attributes(), file(), "capability bytes"},
            Close{3},
            CloseReply{},
            Layout{3, 9},
            LayoutReply{9, 1 << 20, std::span(members()), "n110.0.0.1n210.0.0.2xx"},
            Read{3, io_flags::checksum, 4095, 1'048'577, 9, 30'000, std::span(segments())},
            ReadReply{io_flags::checksum | io_flags::end_of_file, 0xe306'9283, 1'000'000, 4096},
            Write{3, io_flags::checksum | io_flags::stable, 1, 4097, 9, 0, 0x8a91'36aa, {}},
            WriteReply{0, 0, 4097, 0x0102'0304'0506'0708},
            Flush{3, 0},
            FlushReply{0x0102'0304'0506'0708},
            Stat{0, "models"},
            StatReply{attributes(), file()},
            ReadMany{io_flags::checksum, 1000, std::span(entries()), "a/bc/de", std::span(segments())},
            ReadManyReply{0, std::span(results())},
            Cancel{0xffff'ffff'ffff'ffff},
            LayoutRecall{10},
            RecallDone{10},
            Credit{},
            Goodbye{Cause::draining, "node-1 is being updated"},
            Error{13, Cause::access, 0, 250, 9, "node-1", "no capability for this file"}};
}

}  // namespace

std::vector<Sample> samples() {
    std::vector<Sample> list;
    uint64_t request = 1;
    for (const Body& body : one_of_each()) {
        Header header;
        header.request = request++;
        header.credits = static_cast<uint16_t>(request * 3);
        if (type_of(body) == Type::read_reply) header.data_length = 1'000'000;
        if (type_of(body) == Type::write) header.data_length = 4097;
        list.push_back({name_of(type_of(body)), header, body});
    }
    Header edge;
    edge.request = UINT64_MAX;
    edge.credits = UINT16_MAX;
    edge.data_length = max_data;
    list.push_back(
        {"read_all_bits", edge, Read{UINT32_MAX, UINT32_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT32_MAX, {}}});
    list.push_back({"open_by_id", Header{}, Open{open_flags::read, 0, {}, file(), "capability bytes"}});
    list.push_back({"hello_nobody", Header{}, Hello{}});
    list.push_back({"read_many_empty", Header{}, ReadMany{}});
    static const std::string longest(max_path, 'p');
    list.push_back({"stat_longest_path", Header{}, Stat{1, longest}});
    return list;
}

}  // namespace fabric::xds::wire
