// What is done when the process runs out of descriptors.
#pragma once

namespace fabric::fsal {

void start_descriptor_relief();
void stop_descriptor_relief();
// A descriptor was opened. The kernel gives the lowest free number, so a high one means that few are left: some that
// are not in use are closed then, before anybody is refused one.
void watch_descriptors(int opened);

}  // namespace fabric::fsal
