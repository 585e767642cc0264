// A test's other process, which works until it is killed and tells what it does.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fabric {

// Where the child writes its steps: whole structs, one before it begins a step and one when it is done.
constexpr int report_fd = 9;

template <typename Step>
void report(const Step& step) {
    ASSERT_EQ(write(report_fd, &step, sizeof(step)), static_cast<ssize_t>(sizeof(step)));
}

// Runs this program's test `filter` with these variables until it dies, by a fault or so long after its first step; the
// steps it told of.
template <typename Step>
std::vector<Step> run_child(const std::string& filter, std::vector<std::string> environment, unsigned milliseconds) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], report_fd);
    std::vector<char*> variables;
    for (std::string& variable : environment) variables.push_back(variable.data());
    for (char** at = environ; *at != nullptr; ++at) variables.push_back(*at);
    variables.push_back(nullptr);
    std::string program = "/proc/self/exe", only = "--gtest_filter=" + filter, brief = "--gtest_brief=1";
    char* arguments[] = {program.data(), only.data(), brief.data(), nullptr};
    pid_t process = 0;
    EXPECT_EQ(posix_spawn(&process, "/proc/self/exe", &actions, nullptr, arguments, variables.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    auto killer = [process](unsigned after) {
        return std::jthread([process, after](const std::stop_token& stop) {
            std::mutex mutex;
            std::unique_lock lock(mutex);
            std::condition_variable_any told;
            told.wait_for(lock, stop, std::chrono::milliseconds(after), [] { return false; });
            if (!stop.stop_requested()) kill(process, SIGKILL);
        });
    };
    // How long the start takes depends on the machine and on what the build instruments.
    std::jthread clock = killer(120'000);
    std::vector<Step> steps;
    Step step;
    while (read(ends[0], &step, sizeof(step)) == static_cast<ssize_t>(sizeof(step))) {
        steps.push_back(step);
        if (steps.size() == 1) clock = killer(milliseconds);
    }
    clock = {};
    ::close(ends[0]);
    int status = 0;
    EXPECT_EQ(waitpid(process, &status, 0), process);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the child ended by itself, status " << status;
    return steps;
}

}  // namespace fabric
