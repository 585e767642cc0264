// One operation of the engine that the calling thread waits for.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "common/io/engine.h"
#include "common/result.h"

namespace fabric::store {

struct Call : io::Request {
    std::atomic<bool> over{false};

    Status run(io::Engine& by, std::string_view what) {
        complete = [](io::Request& request) {
            auto& call = static_cast<Call&>(request);
            call.over.store(true);
            call.over.notify_one();
        };
        by.submit(*this);
        over.wait(false);
        if (error != 0) return Status::from_errno(error, what);
        if (done != length) return Status::from_errno(EIO, std::string(what) + ": cut short");
        return {};
    }
};

}  // namespace fabric::store
