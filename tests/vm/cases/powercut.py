"""Power cuts under the burst buffer: the crash model of write-back (tests/unit/burstbuffer/writeback) on a disk of which only
what was flushed is sure to be there afterwards.

The disk is a device mapper target that logs every write in the order in which the device completed it, with its flushes
(dm-log-writes). After each kill the file system is made again from the log: everything up to the last flush before the kill,
and of what was written behind that some, torn or not at all, by chance. A device writes 4 KiB, aligned, whole or not at all:
the superblock of ext4, which has a checksum and no copy that a mount looks for, would not bear less. The journal, the segment files, the index and the
files of the backing store all lie on it.
"""
import os
import random
import struct
import sys

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from guest.shell import PATIENCE, CommandFailed, run as command    # noqa: E402
from guest.suite import Suite, expect               # noqa: E402

NAME, PATH = "powercut", "/srv/powercut"
SAFE, LIVE, LOG = (f"/dev/shm/powercut.{part}" for part in ("safe", "live", "log"))
SIZE, LOG_SIZE, SECTOR, WHOLE = 128 << 20, 2 << 30, 512, 8
FLUSH, FUA, DISCARD, MARK = 1, 2, 4, 8
MAGIC = 0x6a736677736872
os.environ["DM_DISABLE_UDEV"] = "1"                 # which does not run in the guest: dmsetup makes the node itself


def loop(image):
    return command("losetup", "--find", "--show", image)


def connect():
    """Mounts a copy of what is safe, and logs what is written to it."""
    command("cp", "--sparse=always", SAFE, LIVE)
    with open(LOG, "wb") as log:
        log.truncate(LOG_SIZE)
    command("dmsetup", "create", NAME, "--table", f"0 {SIZE // SECTOR} log-writes {loop(LIVE)} {loop(LOG)}")
    command("mount", f"/dev/mapper/{NAME}", PATH)


def disconnect():
    command("umount", PATH)
    command("dmsetup", "remove", NAME)
    for image in (LIVE, LOG):
        for line in command("losetup", "-j", image).splitlines():
            command("losetup", "--detach", line.split(":")[0])


def entries():
    """(sector, sectors, flags, where the data is in the log) of each; see drivers/md/dm-log-writes.c."""
    with open(LOG, "rb") as log:
        magic, version, count, sector_size = struct.unpack("<QQQI", log.read(28))
        expect((magic, version, sector_size) == (MAGIC, 1, SECTOR), f"the log's head is {magic:#x}, {version}, {sector_size}")
        at = SECTOR
        for _ in range(count):
            log.seek(at)
            sector, sectors, flags, _ = struct.unpack("<QQQQ", log.read(32))
            at += SECTOR
            yield sector, sectors, flags, at
            if not flags & DISCARD:
                at += sectors * SECTOR


def torn(sector, sectors, chance):
    """So many of its sectors, up to a border of what is written whole."""
    borders = [at - sector for at in range(sector - sector % WHOLE + WHOLE, sector + sectors, WHOLE)]
    return chance.choice([0, *borders, sectors])


def replay(chance):
    """Brings what is safe up to the mark, and a part of what was written between it and the next flush. How much of each."""
    safe = open(SAFE, "r+b")
    log = open(LOG, "rb")
    marked, flushed, lost = False, 0, 0
    for sector, sectors, flags, at in entries():
        if flags & MARK:
            marked = True
            continue
        if marked and flags & (FLUSH | FUA):
            break
        if flags & DISCARD or sectors == 0:
            continue
        kept = sectors if not marked else chance.choice((0, sectors, torn(sector, sectors, chance)))
        flushed += not marked
        lost += kept != sectors
        log.seek(at)
        safe.seek(sector * SECTOR)
        safe.write(log.read(kept * SECTOR))
    expect(marked, "the log has no mark")
    safe.close()
    log.close()
    return flushed, lost


def cut():
    """What the crash test runs after each kill. The device is not told of the end: only of a mark, where it was."""
    seed = random.randrange(1 << 32)
    command("dmsetup", "message", NAME, "0", "mark", "cut")
    disconnect()
    flushed, lost = replay(random.Random(seed))
    print(f"cut {seed}: {flushed} writes flushed, {lost} lost or torn", flush=True)
    connect()


def rounds(number):
    tools = os.environ["FABRIC_VM_TOOLS"]
    program = os.path.join(tools, "../unit/burstbuffer/writeback/writeback_crash_test")
    environment = {**os.environ, "FABRIC_TEST_DISK": PATH, "FABRIC_CRASH_ROUNDS": str(number),
                   "FABRIC_CRASH_CUT": f"{sys.executable} {os.path.abspath(__file__)}"}
    try:
        shown = command(program, "--gtest_brief=1", "--gtest_filter=WriteBackCrash.*", env=environment, timeout=3600 * PATIENCE)
    except CommandFailed:
        print(command("dmesg")[-2000:], flush=True)     # why a file system was not mounted, if that was it
        raise
    cuts = [line.split() for line in shown.splitlines() if line.startswith("cut ")]
    expect(len(cuts) == number, f"{len(cuts)} cuts in {number} rounds:\n{shown[-2000:]}")
    lost = sum(int(words[5]) for words in cuts)
    print(f"{number} cuts, {sum(int(words[2]) for words in cuts)} writes flushed, {lost} lost or torn", flush=True)
    expect(lost > number, "next to nothing was lost: the cuts cut nothing")


def run(options):
    os.makedirs(PATH, exist_ok=True)
    command("modprobe", "-a", "ext4", "loop", "dm-log-writes")
    with open(SAFE, "wb") as image:
        image.truncate(SIZE)
    command("mkfs.ext4", "-q", "-F", SAFE)
    connect()
    suite = Suite(options.only)
    suite.case("what was acknowledged survives power cuts", rounds, 400 if options.long else 12)
    suite.case("the disk is let go", disconnect)
    suite.finish()


if __name__ == "__main__":
    cut()
