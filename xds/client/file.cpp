#include "xds/client/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "xds/client/data_operation.h"

namespace fabric::xds::client {
namespace {

std::atomic<unsigned> next_home{0};

}  // namespace

// The handle on one stream. It is sent at once, outside of the context's list: operations wait for it.
class File::OpenOn : public Operation {
  public:
    explicit OpenOn(File& owner) : owner_(owner) {}

    void begin_on(Stream& stream) {
        self_ = owner_.shared_from_this();
        stream_ = &stream;
        if (send_next(stream, stream.take_piece(*this)).ok()) return;
        owner_.handles_[stream.index()].state = Handle::State::none;
        self_.reset();
    }
    bool is_internal() const override { return true; }
    std::shared_ptr<void> keep_alive() override { return std::move(self_); }
    bool has_more() const override { return false; }
    Status send_next(Stream& stream, Piece& piece) override {
        wire::Open open;
        open.flags = owner_.flags_;
        open.mode = owner_.mode_;
        if (!owner_.first_) open.flags &= wire::open_flags::read | wire::open_flags::write;
        by_id_ = !owner_.capability_.empty();
        if (by_id_) {
            open.file = {owner_.id_file_system_, owner_.id_type_, owner_.id_handle_};
            open.capability = owner_.capability_;
        } else {
            open.path = owner_.path_;
        }
        closing_ = false;
        return stream.send(piece, open);
    }
    void answered(Piece& piece, const wire::Header& header, const wire::Body& body) override {
        if (closing_) return;
        if (const auto* reply = std::get_if<wire::OpenReply>(&body); reply != nullptr && header.data_length == 0)
            owner_.opened(*stream_, *reply);
        else
            piece.status = {Code::corrupt, EPROTO, "wrong answer to an open"};
    }
    void piece_over(Piece& piece) override {
        if (closing_) return;
        Handle& handle = owner_.handles_[stream_->index()];
        if (!piece.status.ok() && by_id_ && piece.status.code() == Code::io) {
            // The capability has run out, or the target has other keys by now: by name again.
            owner_.capability_.clear();
            handle.state = Handle::State::none;
        } else if (!piece.status.ok()) {
            owner_.not_opened(*stream_, piece.status);
        } else if (owner_.closed_ && stream_->has_room()) {
            // The file was closed meanwhile: the handle came too late to be closed with the others.
            closing_ = true;
            self_ = owner_.shared_from_this();
            handle.state = Handle::State::none;
            if (!stream_->send(stream_->take_piece(*this), wire::Close{handle.number}).ok()) self_.reset();
        }
    }
    void done() override {}

  private:
    File& owner_;
    Stream* stream_ = nullptr;
    bool by_id_ = false, closing_ = false;
    std::shared_ptr<File> self_;  // alive while the message is in flight
};

// Anything with one message and one answer.
class File::Control : public Operation {
  public:
    explicit Control(File& target) : owner_(target) {}
    bool has_more() const override { return !sent_ && !failed(); }
    File* file() const override { return &owner_; }
    Status send_next(Stream& stream, Piece& piece) override {
        Status status = stream.send(piece, request(stream));
        sent_ = status.ok();
        return status;
    }
    void piece_over(Piece& piece) override {
        if (!piece.status.ok()) fail(piece.status);
    }
    virtual wire::Body request(Stream& stream) = 0;
    Status run() {
        limit = owner_.context_->settings().timeout;
        return owner_.context_->run(*this);
    }

  protected:
    File& owner_;
    bool sent_ = false;
};

File::File(std::shared_ptr<Context> context, std::string path, uint32_t flags, uint32_t mode)
    : context_(std::move(context)), path_(std::move(path)), flags_(flags), mode_(mode) {
    size_t streams = context_->streams().size();
    handles_.resize(streams);
    opens_.resize(streams);
    home_ = next_home.fetch_add(1, std::memory_order_relaxed) % static_cast<unsigned>(streams);
}

File::File(std::shared_ptr<Context> context, UniqueFd local) : context_(std::move(context)), local_(std::move(local)) {
    path_ = "descriptor " + std::to_string(local_.get());
}

File::~File() = default;

File::Readiness File::prepare(Stream& stream) {
    if (closed_) {
        why_ = {Code::invalid, EBADF, path_ + " was closed"};
        return Readiness::failed;
    }
    Handle& handle = handles_[stream.index()];
    if (handle.generation != stream.generation()) handle = {Handle::State::none, stream.generation(), 0};
    if (handle.state == Handle::State::open) return Readiness::ready;
    if (!why_.ok()) return Readiness::failed;
    // The first open may create or truncate: it is done once, and the others wait for it.
    bool other_opening = first_ && std::any_of(handles_.begin(), handles_.end(),
                                               [](const Handle& one) { return one.state == Handle::State::opening; });
    if (handle.state == Handle::State::none && stream.has_room() && !other_opening) {
        auto& open = opens_[stream.index()];
        if (open == nullptr) open = std::make_unique<OpenOn>(*this);
        handle.state = Handle::State::opening;
        open->begin_on(stream);
    }
    return Readiness::pending;
}

void File::opened(Stream& stream, const wire::OpenReply& reply) {
    handles_[stream.index()] = {Handle::State::open, stream.generation(), reply.handle};
    first_ = false;
    if (!reply.capability.empty()) {
        id_file_system_ = reply.file.file_system;
        id_type_ = reply.file.handle_type;
        id_handle_ = reply.file.handle;
        capability_ = reply.capability;
    }
}

void File::not_opened(Stream& stream, const Status& why) {
    handles_[stream.index()].state = Handle::State::none;
    // A lost connection is no verdict on the file; the context decides whether it tries again.
    if (why.code() != Code::unavailable) why_ = {why.code(), why.errno_value(), path_ + ": " + why.message()};
}

Status File::open() {
    struct Opening : Control {
        using Control::Control;
        wire::Body request(Stream& stream) override { return wire::Stat{owner_.handle(stream), {}}; }
        void answered(Piece& piece, const wire::Header& header, const wire::Body& body) override {
            if (!std::holds_alternative<wire::StatReply>(body) || header.data_length != 0)
                piece.status = {Code::corrupt, EPROTO, "wrong answer to a stat"};
        }
        // Having the handle is all.
        bool has_more() const override { return !failed() && !ready(); }
        bool ready() const {
            auto& streams = owner_.context_->streams();
            return std::any_of(streams.begin(), streams.end(), [&](const auto& stream) {
                const Handle& handle = owner_.handles_[stream->index()];
                return handle.state == Handle::State::open && handle.generation == stream->generation();
            });
        }
        Status send_next(Stream&, Piece&) override { return {}; }
    } opening(*this);
    return opening.run();
}

Result<wire::Attributes> File::stat() {
    struct Asking : Control {
        using Control::Control;
        wire::Body request(Stream& stream) override { return wire::Stat{owner_.handle(stream), {}}; }
        void answered(Piece& piece, const wire::Header& header, const wire::Body& body) override {
            const auto* reply = std::get_if<wire::StatReply>(&body);
            if (reply == nullptr || header.data_length != 0)
                piece.status = {Code::corrupt, EPROTO, "wrong answer to a stat"};
            else
                attributes = reply->attributes;
        }
        wire::Attributes attributes;
    } asking(*this);
    FABRIC_RETURN_IF_ERROR(asking.run());
    return asking.attributes;
}

Status File::flush() {
    FlushOperation flush;
    flush.set(*this);
    return context_->run(flush);
}

bool File::flushed(uint64_t instance) {
    bool lost = std::any_of(unflushed_.begin(), unflushed_.end(), [&](uint64_t one) { return one != instance; });
    unflushed_.clear();
    return !lost;
}

Status File::close() {
    if (is_local()) return {};
    // One close on each connection that has a handle.
    struct Closing : Control {
        using Control::Control;
        File* file() const override { return nullptr; }
        bool has_more() const override { return false; }
        wire::Body request(Stream&) override { return wire::Credit{}; }
        void answered(Piece&, const wire::Header&, const wire::Body&) override {}
        // A handle that the target does not know is closed too.
        void piece_over(Piece&) override {}
        void begin() override {
            owner_.closed_ = true;
            for (auto& stream : owner_.context_->streams()) {
                Handle& handle = owner_.handles_[stream->index()];
                if (handle.state != Handle::State::open || handle.generation != stream->generation() ||
                    !stream->has_room())
                    continue;
                (void)stream->send(stream->take_piece(*this), wire::Close{handle.number});
                handle.state = Handle::State::none;
            }
        }
    } closing(*this);
    Status status = closing.run();
    return status.errno_value() == ECANCELED ? Status() : status;
}

}  // namespace fabric::xds::client
