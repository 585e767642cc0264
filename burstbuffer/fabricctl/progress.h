// The bar that a staging job shows on a terminal.
#pragma once

#include <chrono>
#include <string>

#include "burstbuffer/control/message.h"

namespace fabric::ctl {

// "1.5 GiB", for people.
std::string human_bytes(double bytes);
// "1:02:03" or "2:03".
std::string human_seconds(double seconds);

// The text of one line, `width` characters at most. Rates are over the time since `loading` began.
std::string progress_line(const control::Json& progress, double loading_seconds, size_t width);

}  // namespace fabric::ctl
