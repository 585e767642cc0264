#include "xds/client/handles.h"

#include <pthread.h>

namespace fabric::xds::client {

namespace {
std::atomic<unsigned> fork_count{0};
thread_local std::string last_error;
}  // namespace

unsigned forks() { return fork_count.load(); }

Registries& registries() {
    static Registries* instance = [] {
        auto* fresh = new Registries;
        pthread_atfork([] { registries().lock(); }, [] { registries().unlock(); },
                       [] {
                           fork_count.fetch_add(1);
                           registries().unlock();
                       });
        return fresh;
    }();
    return *instance;
}

int failed(const Status& status) {
    last_error = status.message();
    return -status.errno_value();
}
int failed(int error, const char* text) { return failed(Status(Code::invalid, error, text)); }
const char* last_error_text() { return last_error.c_str(); }

}  // namespace fabric::xds::client
