// One connection of a client: who it is, what it has open, and its requests.
//
// All on the reactor's thread of its connection, unless it says otherwise.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "xds/target/job.h"

namespace fabric::xds::target {

class Target;

class Session : public transport::Owner {
  public:
    Session(Target& target, transport::Reactor& reactor, io::BufferPool& pool);
    ~Session() override;
    // Starts to receive.
    void start(std::unique_ptr<transport::Connection> connection);

    // Says goodbye; closes when the last request is answered.
    void drain();
    void close(const Status& why);
    // Tells the client that placements older than `epoch` are over.
    void recall(uint64_t epoch);

    // ---- for the operations (one file each) ----
    Target& target() { return target_; }
    const User& user() const { return user_; }
    // Null: no such handle.
    std::shared_ptr<OpenFile> file(uint32_t handle) const;
    // A handle for the file. ENFILE: as many are open as one connection may have.
    Result<uint32_t> add_file(std::shared_ptr<OpenFile> file);
    std::shared_ptr<OpenFile> remove_file(uint32_t handle);

    // The steps of a job. Each calls `then` on the reactor's thread when it is done, or ends the job itself when the
    // connection is gone or the client does not want the answer any more.
    // Memory of `bytes` for the job, in job.memory.
    void reserve(Job& job, size_t bytes, Job::Step then);
    // `block` on a worker.
    void offload(Job& job, Job::Step block, Job::Step then);
    // job.transfer, by the I/O engine.
    void transfer(Job& job, Job::Step then);
    // Takes a request's segments over. False: together they are shorter than `length` bytes, and the job was answered.
    bool take_segments(Job& job, const wire::List<wire::Segment>& segments, uint32_t flags, uint64_t length);
    // True: data comes and goes with the messages; false: by the job's segments.
    bool data_is_inline() const { return connection_ == nullptr || connection_->carries_data_inline(); }
    // The data of the job's message, into job.memory.
    void fetch(Job& job, Job::Step then);
    // The end of a job: its answer, with the first `data_length` bytes of job.slices, to job.places.
    void reply(Job& job, const wire::Body& body, size_t data_length = 0);
    void fail(Job& job, const Status& status, wire::Cause cause);
    // The cause that follows from the errno of a file system.
    void fail(Job& job, const Status& status);

    void on_message(transport::Connection& connection, const wire::Header& header, const wire::Body& body) override;
    void on_credits(transport::Connection& connection) override;
    void on_closed(transport::Connection& connection, const Status& why) override;

    // From any thread back to the reactor's, and on with job.then.
    void proceed(Job& job);

  private:
    void greet(const wire::Header& header, const wire::Hello& hello);
    void refuse(const wire::Header& header, const Status& status, wire::Cause cause);
    Result<User> authenticate(const wire::Hello& hello);
    void dispatch(Job& job, const wire::Body& body);
    void cancel(uint64_t victim);
    Job& take_job(const wire::Header& header);
    bool unwanted(Job& job);
    void admit_waiting();
    void try_reserve(Job& job);
    void take_buffers(Job& job);
    void give_memory_back(Job& job);
    void release(Job& job);
    void finish(Job& job);
    bool fits(size_t wanted) const;
    void watch(Job& job);
    void close_if_idle();

    Target& target_;
    transport::Reactor& reactor_;
    io::BufferPool& pool_;
    std::unique_ptr<transport::Connection> connection_;
    bool greeted_ = false;
    bool draining_ = false;
    User user_;
    transport::Send greeting_;
    struct Goodbye : transport::Send {
        Session* session = nullptr;
        bool gone = false;
    } goodbye_;
    struct Recall : transport::Send {
        Session* session = nullptr;
        bool busy = false;
    } recall_;
    uint64_t recalled_epoch_ = 0;  // to be sent
    struct Patience : transport::Timer {
        Session* session = nullptr;
    } patience_;  // for the hello

    std::vector<std::unique_ptr<Job>> jobs_;
    Job* free_jobs_ = nullptr;
    std::unordered_map<uint64_t, Job*> active_;
    size_t bytes_ = 0;  // reserved by its jobs
    Job* first_waiting_ = nullptr;
    Job* last_waiting_ = nullptr;

    std::vector<std::shared_ptr<OpenFile>> files_;  // by handle
    std::vector<uint32_t> free_handles_;
};

wire::Cause cause_of(const Status& status);

}  // namespace fabric::xds::target
