#include "tests/xds/client/daemon.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/xds/transport/place.h"

namespace fabric::xds {

Daemon::Daemon(const std::string& root, int port) {
    config_ = testing::TempDir() + "fabricd.XXXXXX";
    close(mkstemp(config_.data()));
    std::ofstream(config_) << "xds:\n  listen: " << transport::test_address(port)
                           << "\n  rdma: " << (transport::over_rdma() ? "required" : "off") << "\n  root: " << root
                           << "\n  lanes: 1\n  drain_seconds: 10\nsecurity:\n  anonymous_uid: " << geteuid()
                           << "\n  anonymous_gid: " << getegid() << "\n";
    int pipe_ends[2];
    EXPECT_EQ(pipe(pipe_ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(pipe_ends[1], STDOUT_FILENO);
        close(pipe_ends[0]);
        close(pipe_ends[1]);
        execl(FABRICD, "fabricd", "--config", config_.c_str(), nullptr);
        _exit(127);
    }
    close(pipe_ends[1]);
    FILE* lines = fdopen(pipe_ends[0], "r");
    char line[256];
    while (port_ == 0 && fgets(line, sizeof line, lines) != nullptr) (void)sscanf(line, "xds_port=%d", &port_);
    fclose(lines);
    EXPECT_NE(port_, 0) << "fabricd did not start";
}

Daemon::~Daemon() {
    kill();
    unlink(config_.c_str());
}

std::string Daemon::address() const { return transport::test_address(port_); }

void Daemon::kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
}

void Daemon::pause() {
    ::kill(pid_, SIGSTOP);
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, WUNTRACED), pid_);
    EXPECT_TRUE(WIFSTOPPED(status));
}

void Daemon::resume() { ::kill(pid_, SIGCONT); }

int Daemon::terminate() {
    ::kill(pid_, SIGTERM);
    return wait();
}

int Daemon::wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
}

}  // namespace fabric::xds
