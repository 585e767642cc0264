// A whole file as text, for configuration files.
#pragma once

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>

#include "common/result.h"

namespace fabric {

// `what` names the file's purpose in the error: "configuration file".
inline Result<std::string> read_file(const std::string& path, const std::string& what) {
    std::ifstream file(path);
    if (!file) return Status::from_errno(errno, what + " " + path);
    std::ostringstream content;
    content << file.rdbuf();
    return content.str();
}

}  // namespace fabric
