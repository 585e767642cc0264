#include <sys/wait.h>

#include <cstdlib>

#include "tests/xds/client/fixture.h"

namespace fabric::xds {
namespace {

class CProgram : public WithTarget {};

TEST_F(CProgram, EndsInAnyOrder) {
    put(file("f"), "hello");
    for (const char* how : {"close", "leave", "unload"}) {
        std::string command = std::string(PROGRAM) + " " + config.listen + " " + how;
        EXPECT_EQ(std::system(command.c_str()), 0) << how;
    }
}

}  // namespace
}  // namespace fabric::xds
