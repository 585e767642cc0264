// The C++ interface: owners end what they own, errors are exceptions with the library's text, bytes are those of the C
// interface.
#include <type_traits>

#include "tests/xds/client/fixture.h"
#include "xds/client/include/xds.hpp"

namespace fabric::xds {
namespace {

static_assert(!std::is_copy_constructible_v<::xds::File> && std::is_nothrow_move_constructible_v<::xds::File>);
static_assert(!std::is_copy_assignable_v<::xds::Context> && std::is_nothrow_move_assignable_v<::xds::Context>);

class Cpp : public WithTarget {
  protected:
    ::xds::Context context(::xds::Options options = {}) {
        options.address = config.listen;
        return ::xds::Context(options);
    }
};

template <typename Call>
int error_of(Call&& call) {
    try {
        call();
    } catch (const ::xds::Error& error) {
        EXPECT_NE(std::string(error.what()), "");
        return error.number();
    }
    return 0;
}

TEST_F(Cpp, ReadsWritesAndAttributes) {
    ::xds::Context ctx = context({.verify = true});
    std::string bytes = random_bytes(3'000'001, 1);
    ::xds::File file = ctx.open("w", O_RDWR | O_CREAT, 0640);
    EXPECT_EQ(file.write(std::as_bytes(std::span(bytes)), 5), bytes.size());
    file.sync();
    EXPECT_TRUE(contents(this->file("w")) == std::string(5, '\0') + bytes);
    std::string back(bytes.size() + 100, '#');
    EXPECT_EQ(file.read(std::as_writable_bytes(std::span(back)), 5), bytes.size());
    EXPECT_TRUE(back == bytes + std::string(100, '#'));
    EXPECT_EQ(file.attributes().bytes, bytes.size() + 5);
    EXPECT_EQ(file.explain(back.data(), back.size()).find(host_path() == XDS_PATH_DIRECT ? "direct: " : "tcp: "), 0u);
    EXPECT_EQ(host_bytes(ctx.stats()), 2 * bytes.size());
    file.close();
    EXPECT_EQ(error_of([&] { file.sync(); }), EBADF);
}

TEST_F(Cpp, StreamsKeepTheOrder) {
    ::xds::Context ctx = context();
    std::string bytes = random_bytes(1'500'000, 5), back(bytes.size(), '#');
    ::xds::File file = ctx.open("s", O_RDWR | O_CREAT), write_only = ctx.open("w", O_WRONLY | O_CREAT);
    ::xds::Stream stream;
    ::xds::Transfer saved, loaded, wrong{.length = 5};
    ssize_t seen = 0;
    stream.call([&] { saved.length = bytes.size(); });
    stream.write(file, bytes.data(), saved);
    stream.call([&, held = std::make_unique<int>(1)] {
        seen = saved.result;
        loaded.length = back.size();
    });
    stream.read(file, back.data(), loaded);
    stream.sync();
    EXPECT_EQ(seen, static_cast<ssize_t>(bytes.size()));
    EXPECT_EQ(loaded.result, static_cast<ssize_t>(bytes.size()));
    EXPECT_TRUE(back == bytes);
    stream.read(write_only, back.data(), wrong);
    EXPECT_EQ(error_of([&] { stream.sync(); }), EBADF);
    stream.close();
    EXPECT_EQ(error_of([&] { stream.sync(); }), EBADF);
    EXPECT_EQ(error_of([] { ::xds::Stream none("abacus"); }), ENOTSUP);
}

TEST_F(Cpp, OwnersMoveAndEndWhatTheyOwn) {
    put(file("f"), "bytes");
    ::xds::Context ctx = context();
    ::xds::File first = ctx.open("f");
    xds_file* handle = first.get();
    ::xds::File second = std::move(first);
    EXPECT_EQ(first.get(), nullptr);
    EXPECT_EQ(second.get(), handle);
    char back[5];
    EXPECT_EQ(second.read(back, 5, 0), 5u);
    second = ctx.open("f");
    EXPECT_EQ(xds_pread(handle, back, 5, 0), -EBADF) << "the file that was replaced is closed";
    xds_file* last = nullptr;
    {
        ::xds::File inner = ctx.open("f");
        last = inner.get();
    }
    EXPECT_EQ(xds_pread(last, back, 5, 0), -EBADF);
    ctx = context();
    EXPECT_EQ(error_of([&] { second.read(back, 5, 0); }), ECANCELED) << "its context is closed";
}

TEST_F(Cpp, ErrorsAreExceptionsWithTheirText) {
    ::xds::Context ctx = context();
    EXPECT_EQ(error_of([&] { ctx.open("none"); }), ENOENT);
    EXPECT_EQ(error_of([&] { ctx.open("none", O_APPEND); }), EINVAL);
    EXPECT_EQ(error_of([&] { ctx.open_fd(-1); }), EBADF);
    EXPECT_EQ(error_of([&] { ctx.queue(0); }), EINVAL);
    EXPECT_EQ(error_of([] { ::xds::Context({.address = "nowhere"}); }), EINVAL);
    try {
        ctx.open("none");
    } catch (const ::xds::Error& error) {
        EXPECT_NE(std::string(error.what()).find("none"), std::string::npos) << error.what();
    }
}

TEST_F(Cpp, QueuesBuffersAndBatches) {
    std::string bytes = random_bytes(1 << 20, 2);
    put(file("f"), bytes);
    ::xds::Context ctx = context();
    ::xds::File f = ctx.open("f");
    std::string memory(bytes.size(), '#');
    ::xds::Buffer kept = ctx.keep_registered(memory.data(), memory.size());
    ::xds::Queue queue = ctx.queue(4);
    for (uint64_t i = 0; i < 4; ++i) EXPECT_TRUE(queue.read(f, memory.data() + (i << 18), 1 << 18, i << 18, 100 + i));
    EXPECT_FALSE(queue.read(f, memory.data(), 1, 0, 104)) << "it is full";
    uint64_t seen = 0;
    for (unsigned fetched = 0; fetched < 4;)
        for (const ::xds::Completion& done : queue.wait(4)) {
            EXPECT_EQ(done.bytes(), size_t{1} << 18) << done.reason;
            EXPECT_EQ(done.path, static_cast<::xds::Path>(host_path()));
            seen |= 1 << (done.cookie - 100);
            ++fetched;
        }
    EXPECT_EQ(seen, 0xfu);
    EXPECT_TRUE(memory == bytes);
    EXPECT_FALSE(queue.cancel(100));
    EXPECT_TRUE(queue.write(f, memory.data(), 1, 0, 7)) << "taken, and its completion has the error";
    std::vector<::xds::Completion> wrong = queue.wait(1);
    ASSERT_EQ(wrong.size(), 1u);
    EXPECT_FALSE(wrong[0].ok());
    EXPECT_EQ(error_of([&] { (void)wrong[0].bytes(); }), EBADF);
    EXPECT_TRUE(queue.wait(1).empty()) << "none is in progress";

    std::string one(10, '-'), two(10, '-');
    xds_many batch[] = {{sizeof(xds_many), 0, "f", one.data(), 10, 0, 0},
                        {sizeof(xds_many), 0, "no", two.data(), 10, 0, 0}};
    EXPECT_EQ(ctx.read_many(batch), 1u);
    EXPECT_EQ(one, bytes.substr(0, 10));
    EXPECT_EQ(batch[1].error, -ENOENT);
}

}  // namespace
}  // namespace fabric::xds
