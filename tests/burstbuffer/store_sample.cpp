// store_sample FOLDER: makes a store there with ten clean records and two dirty ones, of a block each.
// number.
#include <cstdio>
#include <string>

#include "burstbuffer/store/local_store.h"
#include "tests/unit/burstbuffer/sample.h"

int main(int argc, char** argv) {
    using namespace fabric;
    if (argc != 2) return 2;
    auto engine = io::Engine::start({.lanes = 1});
    if (!engine.ok()) return 1;
    io::BufferPool pool({});
    store::StoreOptions options{.folder = argv[1], .capacity = 0, .reserve = 0, .segment_size = 1 << 20, .index = {}};
    auto opened = store::LocalStore::open(options, **engine, pool);
    if (!opened.ok()) {
        std::fprintf(stderr, "%s\n", opened.status().message().c_str());
        return 1;
    }
    for (uint32_t number = 0; number < 12; ++number) {
        std::string data(4096, static_cast<char>('a' + number));
        store::LocalStore::Entry entry{sample_key(number), {data.data(), data.size()}};
        auto kind = number < 10 ? store::LocalStore::Kind::clean : store::LocalStore::Kind::dirty;
        if (!(*opened)->put({&entry, 1}, kind).ok()) return 1;
    }
    return 0;
}
