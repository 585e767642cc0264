// Exit statuses of fabricctl.
#pragma once

namespace fabric::ctl {

// fsck has them as fsck(8) does.
enum Exit {
    all_well = 0,
    missing = 1,  // something that was asked for is not there, or could not be done; it was said what and why
    fsck_repaired = 1,
    fsck_left = 4,
    fsck_failed = 8,
    no_node = 8,  // the node could not be asked
    wrong_usage = 16,
};

}  // namespace fabric::ctl
