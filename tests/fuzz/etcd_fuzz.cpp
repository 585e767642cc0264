// Answers of etcd and records at it, as somebody hostile would write them. The first byte chooses the parser.
#include <cstdint>
#include <cstdlib>

#include "burstbuffer/pool/etcd/json.h"
#include "burstbuffer/pool/records.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace fabric;
    if (size == 0) return 0;
    std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
    etcd::Range range{"a", "b", 0, 0};
    etcd::KeyValue key{"k", std::string(body), 1, 1, 1, 0};
    switch (data[0] % 8) {
        case 0:
            if (Result<etcd::Reply> reply = etcd::parse_reply(range, body); reply.ok()) {
                for (const etcd::KeyValue& one : reply->found.at(0).keys) {
                    if (one.key < "a" || one.key >= "b") std::abort();
                }
            }
            break;
        case 1:
            (void)etcd::parse_reply(etcd::Txn{{}, {range}, {etcd::Put{"a", "", 0}, range}}, body);
            break;
        case 2:
            (void)etcd::parse_reply(etcd::KeepAlive{5}, body);
            break;
        case 3:
            (void)etcd::parse_watch(body);
            break;
        case 4:
            (void)etcd::parse_refusal(body);
            (void)etcd::parse_token(body);
            break;
        case 5:
            // What is believed can be written again, and is the same.
            if (Result<pool::MapRecord> map = pool::decode<pool::MapRecord>(key); map.ok()) {
                key.value = pool::encode(*map);
                if (Result<pool::MapRecord> again = pool::decode<pool::MapRecord>(key);
                    !again.ok() || !(*again == *map)) {
                    std::abort();
                }
            }
            break;
        case 6:
            (void)pool::decode<pool::MemberRecord>(key);
            break;
        default:
            (void)pool::decode<pool::JobRecord>(key);
            (void)pool::decode<pool::OwnerRecord>(key);
            break;
    }
    return 0;
}
