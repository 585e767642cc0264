// open, close and stat: names and handles.
#include "xds/target/operations.h"
#include "xds/target/target.h"

namespace fabric::xds::target {
namespace {

using security::Capability;

constexpr uint32_t rights_mask = wire::open_flags::read | wire::open_flags::write;
static_assert(security::rights::read == wire::open_flags::read && security::rights::write == wire::open_flags::write);

// By FileId: the capability must be of this cluster, for this client, and cover what is asked. Nobody learns from the
// answer whether the file exists, since it is not looked for before.
Result<Opened> open_by_capability(Session& session, const Job& job) {
    Target& target = session.target();
    security::Expected expected{target.config().cluster, wall_clock_ns()};
    Result<Capability> grant = security::open_capability(target.keys(), job.capability, expected);
    Status denied(Code::invalid, EACCES, "no valid capability for this file");
    if (!grant.ok() || grant->client != session.user().client) return denied;
    uint32_t wanted = job.flags & rights_mask;
    if (wanted == 0 || (wanted & ~uint32_t{grant->rights}) != 0 || (job.flags & ~rights_mask) != 0) return denied;
    return target.tree().open_id(grant->file, job.flags, *grant);
}

// Seals the right to open the same file, as the reply carries it. Without an id there is none.
std::string capability_for(Session& session, const Job& job) {
    if (!job.opened.id) return {};
    Target& target = session.target();
    Capability grant = job.opened.file->grant;
    grant.rights = static_cast<uint16_t>(job.flags & rights_mask);
    grant.cluster = target.config().cluster;
    grant.client = session.user().client;
    if (grant.expiry_ns == 0)
        grant.expiry_ns = wall_clock_ns() + uint64_t{target.config().capability_seconds} * 1'000'000'000;
    grant.file = on_wire(*job.opened.id);
    Result<std::string> sealed = security::seal(target.keys(), grant);
    return sealed.ok() ? std::move(*sealed) : std::string();
}

void open_blocking(Job& job) {
    Session& session = job.session;
    Result<Opened> opened = job.path.empty()
                                ? open_by_capability(session, job)
                                : session.target().tree().open_path(session.user(), job.path, job.flags, job.mode);
    job.status = opened.status();
    if (!opened.ok()) return;
    job.opened = std::move(*opened);
    job.sealed = capability_for(session, job);
}

void opened(Job& job) {
    Session& session = job.session;
    if (!job.status.ok()) return session.fail(job, job.status);
    Result<uint32_t> handle = session.add_file(job.opened.file);
    if (!handle.ok()) return session.fail(job, handle.status(), wire::Cause::overloaded);
    wire::OpenReply reply;
    reply.handle = *handle;
    reply.attributes = job.opened.attributes;
    if (job.opened.id) reply.file = on_wire(*job.opened.id);
    reply.capability = job.sealed;
    session.reply(job, reply);
}

void stat_blocking(Job& job) {
    Session& session = job.session;
    Result<Opened> found = job.file != nullptr ? session.target().tree().stat_file(*job.file)
                                               : session.target().tree().stat_path(session.user(), job.path);
    job.status = found.status();
    if (found.ok()) job.opened = std::move(*found);
}

void stat_done(Job& job) {
    if (!job.status.ok()) return job.session.fail(job, job.status);
    wire::StatReply reply;
    reply.attributes = job.opened.attributes;
    if (job.opened.id) reply.file = on_wire(*job.opened.id);
    job.session.reply(job, reply);
}

}  // namespace

void start_open(Session& session, Job& job, const wire::Open& message) {
    uint32_t changes = wire::open_flags::create | wire::open_flags::exclusive | wire::open_flags::truncate;
    if ((message.flags & ~wire::open_flags::all) != 0)
        return session.fail(job, {Code::invalid, EOPNOTSUPP, "unknown open flags"}, wire::Cause::not_supported);
    if ((message.flags & rights_mask) == 0 ||
        ((message.flags & changes) != 0 && (message.flags & wire::open_flags::write) == 0))
        return session.fail(job,
                            {Code::invalid, EINVAL,
                             "open for neither reading nor writing, or a change without "
                             "the right to write"},
                            wire::Cause::bad_request);
    job.flags = message.flags;
    job.mode = message.mode;
    job.path = message.path;
    job.capability = message.capability;
    session.offload(job, open_blocking, opened);
}

// close(2) may wait for a file server: not on the reactor's thread.
void start_close(Session& session, Job& job, const wire::Close& message) {
    job.file = session.remove_file(message.handle);
    if (job.file == nullptr)
        return session.fail(job, {Code::invalid, EBADF, "close: no such handle"}, wire::Cause::not_found);
    session.offload(
        job, [](Job& self) { self.file.reset(); }, [](Job& self) { self.session.reply(self, wire::CloseReply{}); });
}

void start_stat(Session& session, Job& job, const wire::Stat& message) {
    job.path = message.path;
    if (job.path.empty()) {
        job.file = session.file(message.handle);
        if (job.file == nullptr)
            return session.fail(job, {Code::invalid, EBADF, "stat: no such handle"}, wire::Cause::not_found);
    }
    session.offload(job, stat_blocking, stat_done);
}

// One node has every chunk.
void start_layout(Session& session, Job& job, const wire::Layout& message) {
    if (session.file(message.handle) == nullptr)
        return session.fail(job, {Code::invalid, EBADF, "layout: no such handle"}, wire::Cause::not_found);
    const std::string& node = session.target().config().node;
    wire::Member self{0, static_cast<uint16_t>(node.size()), 0, 1, 0};
    session.reply(
        job, wire::LayoutReply{session.target().map_epoch(), 1 << 20, std::span<const wire::Member>(&self, 1), node});
}

}  // namespace fabric::xds::target
