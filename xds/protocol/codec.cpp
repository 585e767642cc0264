#include "xds/protocol/codec.h"

#include <utility>

#include "common/crc32c.h"

namespace fabric::xds::wire {
namespace {

constexpr size_t type_count = std::variant_size_v<Body>;
constexpr size_t checksum_at = header_size - 4;

template <size_t... I>
constexpr bool in_order(std::index_sequence<I...>) {
    return ((static_cast<size_t>(std::variant_alternative_t<I, Body>::type) == I + 1) && ...);
}
static_assert(in_order(std::make_index_sequence<type_count>()), "Body must list the messages in the order of Type");

template <typename A>
void fields(A& a, Access<A, Header>& m) {
    begins_with(a, magic);
    a("type", m.type);
    a("flags", m.flags);
    a("credits", m.credits);
    a("body_length", m.body_length);
    a("data_length", m.data_length);
    a("request", m.request);
    uint32_t reserved = 0;
    a("reserved", reserved);
    a("checksum", m.checksum);
}

Status corrupt(std::string text) { return {Code::corrupt, EPROTO, "XDS message: " + std::move(text)}; }

uint32_t checksum(const std::byte* header, Bytes body) {
    return crc32c_extend(crc32c(header, checksum_at), body.data(), body.size());
}

// A hello may be longer in later versions: its reader takes what it knows. All else is exact.
bool may_be_longer(Type type) { return type == Type::hello || type == Type::hello_reply; }

template <typename M>
Result<Body> parse_as(Bytes body) {
    Reader reader(body);
    M message;
    fields(reader, message);
    if (!reader.ok() || (reader.left() != 0 && !may_be_longer(M::type)))
        return corrupt(std::string(name_of(M::type)) + " with impossible fields");
    return Body(message);
}

template <size_t... I>
Result<Body> parse_any(size_t index, Bytes body, std::index_sequence<I...>) {
    using Parse = Result<Body> (*)(Bytes);
    static constexpr Parse parsers[] = {parse_as<std::variant_alternative_t<I, Body>>...};
    return parsers[index](body);
}

}  // namespace

Result<size_t> encode(const Header& header, const Body& body, std::span<std::byte> out) {
    if (out.size() < header_size) return Status::invalid("XDS message: no room for a header");
    Writer writer(out.subspan(header_size));
    std::visit([&](const auto& message) { fields(writer, message); }, body);
    if (!writer.ok() || writer.size() > max_body)
        return Status::invalid(std::string("XDS message: ") + name_of(type_of(body)) + " is above its limits");
    Header complete = header;
    complete.type = type_of(body);
    complete.body_length = static_cast<uint32_t>(writer.size());
    Writer first(out.first(header_size));
    fields(first, std::as_const(complete));
    complete.checksum = checksum(out.data(), out.subspan(header_size, writer.size()));
    Writer last(out.subspan(checksum_at, 4));
    last("checksum", complete.checksum);
    return header_size + writer.size();
}

Result<Header> decode_header(const HeaderBytes& bytes) {
    Reader reader(bytes);
    Header header;
    fields(reader, header);
    if (!reader.ok()) return corrupt("not XDS");
    auto type = static_cast<size_t>(header.type);
    if (type == 0 || type > type_count) return corrupt("unknown type " + std::to_string(type));
    if (header.body_length > max_body) return corrupt("body of " + std::to_string(header.body_length) + " bytes");
    if (header.data_length > max_data) return corrupt("data of " + std::to_string(header.data_length) + " bytes");
    return header;
}

Result<Body> decode_body(const HeaderBytes& header, Bytes body) {
    Result<Header> decoded = decode_header(header);
    if (!decoded.ok()) return decoded.status();
    if (decoded->body_length != body.size()) return corrupt("body cut short");
    if (decoded->checksum != checksum(header.data(), body)) return corrupt("wrong checksum");
    return parse_body(decoded->type, body);
}

Result<Body> parse_body(Type type, Bytes body) {
    auto index = static_cast<size_t>(type) - 1;
    if (index >= type_count) return corrupt("unknown type");
    if (body.size() > max_body) return corrupt("body of " + std::to_string(body.size()) + " bytes");
    return parse_any(index, body, std::make_index_sequence<type_count>());
}

const char* name_of(Type type) {
    static constexpr const char* names[type_count] = {
        "hello",  "hello_reply",   "open",        "open_reply", "close",     "close_reply",
        "layout", "layout_reply",  "read",        "read_reply", "write",     "write_reply",
        "flush",  "flush_reply",   "stat",        "stat_reply", "read_many", "read_many_reply",
        "cancel", "layout_recall", "recall_done", "credit",     "goodbye",   "error"};
    auto index = static_cast<size_t>(type) - 1;
    return index < type_count ? names[index] : "unknown";
}

const char* name_of(Cause cause) {
    static constexpr const char* names[cause_count] = {
        "none",     "access",      "not_found",     "file_system", "device",   "stale_layout", "overloaded",
        "draining", "bad_request", "not_supported", "cancelled",   "deadline", "checksum",     "internal"};
    auto index = static_cast<size_t>(cause);
    return index < cause_count ? names[index] : "unknown";
}

std::string print(const Body& body) {
    Printer printer;
    std::visit([&](const auto& message) { fields(printer, message); }, body);
    return printer.text();
}

bool needs_credit(Type type) {
    switch (type) {
        case Type::open:
        case Type::close:
        case Type::layout:
        case Type::read:
        case Type::write:
        case Type::flush:
        case Type::stat:
        case Type::read_many:
        case Type::layout_recall:
            return true;
        default:
            return false;
    }
}

}  // namespace fabric::xds::wire
