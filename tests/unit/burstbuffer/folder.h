// A folder of a test's own on a disk (not tmpfs: O_DIRECT is wanted), removed at the end.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace fabric {

class Folder {
  public:
    Folder() {
        const char* parent = getenv("FABRIC_TEST_DISK");
        path_ = std::string(parent != nullptr ? parent : "/var/tmp") + "/fabric-test.XXXXXX";
        if (mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "cannot make a folder " << path_;
    }
    // One that is there already, and stays.
    explicit Folder(std::string existing) : path_(std::move(existing)), own_(false) {}
    ~Folder() {
        if (!own_) return;
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    const std::string& path() const { return path_; }
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  private:
    std::string path_;
    bool own_ = true;
};

}  // namespace fabric
