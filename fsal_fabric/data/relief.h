// What is done when the process runs out of descriptors.
#pragma once

namespace fabric::fsal {

void start_descriptor_relief();
void stop_descriptor_relief();

}  // namespace fabric::fsal
