// Asynchronous requests of a C caller: slots that are used again and again.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "xds/client/data_operation.h"

namespace fabric::xds::client {

// Thread safe.
class Queue {
  public:
    Queue(std::shared_ptr<Context> context, unsigned depth);
    // Cancels and waits.
    ~Queue();

    const std::shared_ptr<Context>& context() const { return context_; }
    // False: every slot is taken. `file` null or `problem` set: a completion that says so.
    bool submit(const xds_io& io, std::shared_ptr<File> file);
    int wait(xds_completion* completions, unsigned most, unsigned least, int timeout_ms);
    // How many it asked to end.
    unsigned cancel(uint64_t cookie);

  private:
    struct Slot;
    // Reports to its slot.
    template <typename Base>
    struct Member : Base {
        Slot* slot = nullptr;
        void begin() override { slot->in_progress = true; }
        void done() override { slot->queue->finished(*slot); }
    };
    struct Slot {
        Queue* queue = nullptr;
        Slot* next = nullptr;
        bool in_progress = false;  // the reactor's own: between submission and done()
        bool is_flush = false;
        std::shared_ptr<File> file;
        Member<DataOperation> data;
        Member<FlushOperation> flush;
        xds_completion completion{};
    };

    void start(Slot& slot, const xds_io& io);
    void complete(Slot& slot, int64_t result, xds_path path, std::string_view reason);
    void finished(Slot& slot);

    std::shared_ptr<Context> context_;
    std::vector<std::unique_ptr<Slot>> slots_;
    std::mutex mutex_;
    std::condition_variable changed_;
    Slot* free_ = nullptr;
    Slot* first_complete_ = nullptr;
    Slot* last_complete_ = nullptr;
    unsigned complete_ = 0;
    unsigned in_progress_ = 0;
};

}  // namespace fabric::xds::client
