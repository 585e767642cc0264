#include "burstbuffer/fabricd/cached_reads.h"

#include <utility>

namespace fabric::xds::fabricd {

void CachedReads::start(Request& request) {
    Call& call = calls_.take();
    call.owner = this;
    call.request = &request;
    call.file = *request.file;
    call.version = {request.size, request.mtime_ns, request.ctime_ns};
    call.offset = request.offset;
    call.size = request.length;
    call.to = request.to;
    call.outcome = cache::Read::Outcome::passed;
    call.bytes = 0;
    call.status = {};
    call.finished = &CachedReads::finished;
    cache_.start(call);
}

void CachedReads::finished(cache::Read& read) {
    auto& call = static_cast<Call&>(read);
    CachedReads& self = *call.owner;
    Request& request = *call.request;
    request.outcome = call.outcome == cache::Read::Outcome::served   ? Outcome::served
                      : call.outcome == cache::Read::Outcome::failed ? Outcome::failed
                                                                     : Outcome::passed;
    request.bytes = call.bytes;
    request.status = std::move(call.status);
    self.calls_.give_back(call);
    request.finished(request);
}

}  // namespace fabric::xds::fabricd
