// Errors as values: Status says what went wrong, Result<T> is a value or a Status. No exception crosses a layer.
#pragma once

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace fabric {

// What kind of failure it was, for code that decides; the errno says it to a POSIX caller, the message to a person.
enum class Code {
    ok,
    io,           // a system call failed; errno_value tells which way
    invalid,      // the caller's argument
    config,       // a setting; the message names file, line and key
    unavailable,  // try again later or elsewhere
    timeout,
    corrupt,  // a checksum or a format is wrong
};

class [[nodiscard]] Status {
  public:
    Status() = default;
    Status(Code code, int errno_value, std::string message)
        : code_(code), errno_value_(errno_value), message_(std::move(message)) {}

    // A failed system call: `what` names the call and its object ("openat export root /data").
    static Status from_errno(int errno_value, std::string_view what = {});
    static Status config(std::string message) { return {Code::config, EINVAL, std::move(message)}; }
    static Status invalid(std::string message) { return {Code::invalid, EINVAL, std::move(message)}; }

    bool ok() const { return code_ == Code::ok; }
    Code code() const { return code_; }
    // Positive errno, 0 when ok.
    int errno_value() const { return errno_value_; }
    const std::string& message() const { return message_; }

  private:
    Code code_ = Code::ok;
    int errno_value_ = 0;
    std::string message_;
};

// A T or the Status that says why there is none. value() may be called only when ok().
template <typename T>
class [[nodiscard]] Result {
  public:
    Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
    Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose

    bool ok() const { return value_.has_value(); }
    const Status& status() const { return status_; }
    T& value() & { return *value_; }
    const T& value() const& { return *value_; }
    T&& value() && { return *std::move(value_); }
    T* operator->() { return &*value_; }
    T& operator*() & { return *value_; }
    T&& operator*() && { return *std::move(value_); }

  private:
    std::optional<T> value_;
    Status status_;
};

}  // namespace fabric

// Returns the Status of a failed expression from the calling function.
#define FABRIC_RETURN_IF_ERROR(expression)                                          \
    do {                                                                            \
        if (::fabric::Status status_ = (expression); !status_.ok()) return status_; \
    } while (0)
