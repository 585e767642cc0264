"""A backing disk that fails, moves less than it was asked, or is slow (common/fault.h), as an application on a client sees it."""
import ctypes
import errno
import multiprocessing
import os
import time

from guest import trees
from guest.load import progress
from guest.mounts import Mount
from guest.servers import drain, writes_back
from guest.suite import Skip, expect, expect_equal

CONTEXT = multiprocessing.get_context("fork")
MIB = 1 << 20
SHORT = "backing.read=short:5000 backing.write=short:3000"
SLOW = "backing.read=delay:400"
STRIKES_WITHIN = 60                                 # seconds until an armed fault must have struck
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_long, ctypes.c_long, ctypes.c_uint]


def error_of(action):
    """The name of the errno that the action fails with; "" when it works."""
    try:
        action()
    except OSError as error:
        return errno.errorcode[error.errno]
    return ""


def until_struck(action, what):
    """Repeats the action until it fails: a running server looks at its faults every 50 ms. Returns the errno's name."""
    end = time.monotonic() + STRIKES_WITHIN
    while not (name := error_of(action)):
        expect(time.monotonic() < end, f"{what}: the fault never reached the application")
    return name


def read_all(descriptor, size):
    """All of it: a read that fails in its middle returns what came before, and the next one says why."""
    data = b""
    while len(data) < size and (part := os.pread(descriptor, size - len(data), len(data))):
        data += part
    return data


def commits_sent(mount):
    """COMMITs of this mount so far (/proc/self/mountstats)."""
    with open("/proc/self/mountstats", encoding="utf-8") as file:
        part = file.read().split(f" mounted on {mount.path} ", 1)[1].split("\ndevice ", 1)[0]
    return sum(int(line.split()[1]) for line in part.splitlines() if line.strip().startswith("COMMIT:"))


def send_unstable(descriptor, length):
    """Has the client send its dirty pages and wait for the answers; on a mount with write=eager no COMMIT follows by itself."""
    if LIBC.sync_file_range(descriptor, 0, length, 7) != 0:     # before, write, after
        raise OSError(ctypes.get_errno(), "sync_file_range")


def failed_fsync(server, backing, version, protocol):
    """fsync says EIO when the disk does, once; what is written and synced afterwards is there. So does a write with O_DSYNC."""
    with Mount(server, version, protocol) as mount:
        for name, flags in (("fsync", 0), ("dsync", os.O_DSYNC)):
            path = os.path.join(mount.path, f"{name}-{version}-{protocol}")
            body = trees.content(path, 300_000)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o644)

            def store():
                os.pwrite(descriptor, body, 0)
                os.fsync(descriptor)
            store()
            server.set_faults("backing.fsync=EIO*1")
            expect_equal(until_struck(store, name), "EIO", f"{name} on a disk that fails")
            server.set_faults("")
            body = body[::-1]
            expect_equal(error_of(store), "", f"{name} once the disk works again")
            os.close(descriptor)
            drain(server)
            with open(os.path.join(backing.path, os.path.basename(path)), "rb") as file:
                expect(file.read() == body, f"{path}: other bytes than the last fsync acknowledged")


def lost_unstable_writes(server, backing, version, protocol):
    """When the server lost writes that it had answered as unstable, its verifier changes, and the client sends them again: not
    only those of the file whose COMMIT failed. The loss is made real behind the server's back."""
    if writes_back(server):
        raise Skip("write-back: nothing is lost behind the server's back; what its disk loses: host.write_back")
    with Mount(server, version, protocol, options="write=eager") as mount:
        size = 3 * MIB + 17
        paths = [os.path.join(mount.path, f"{name}-{version}-{protocol}") for name in ("lost", "failing")]
        lost, failing = (os.open(path, os.O_RDWR | os.O_CREAT, 0o644) for path in paths)
        os.pwrite(failing, b"first", 0)
        os.fsync(failing)
        body = trees.content("lost", size)
        commits = commits_sent(mount)
        os.pwrite(lost, body, 0)
        send_unstable(lost, size)
        there = os.path.join(backing.path, os.path.basename(paths[0]))
        with open(there, "r+b") as file:
            expect(file.read() == body, "the bytes did not arrive before the COMMIT")
            file.seek(0)
            file.write(bytes(size))
        expect_equal(commits_sent(mount) - commits, 0, "COMMITs before the loss, which would make the writes durable")

        def store():
            os.pwrite(failing, b"again", 0)
            os.fsync(failing)
        server.set_faults("backing.fsync=EIO*1")
        expect_equal(until_struck(store, "fsync of another file"), "EIO", "fsync of another file")
        server.set_faults("")
        os.fsync(lost)
        with open(there, "rb") as file:
            expect(file.read() == body, "fsync succeeded, and the lost bytes were not sent again")
        os.close(lost)
        os.close(failing)


def failed_read(server, backing, version, protocol):
    """A read of a disk that fails is EIO, never an end of file or zeros, and right again once the disk is."""
    with Mount(server, version, protocol) as mount:
        name = f"unreadable-{version}-{protocol}"
        body = trees.content(name, 2 * MIB)
        with open(os.path.join(backing.path, name), "wb") as file:
            file.write(body)
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)   # what is in memory needs no disk
        descriptor = os.open(os.path.join(mount.path, name), os.O_RDONLY)

        def load():
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            with open(os.path.join(backing.path, name), "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            expect(read_all(descriptor, len(body)) == body, "reads that did not fail have other bytes")
        server.set_faults("backing.read=EIO")
        expect_equal(until_struck(load, "read"), "EIO", "a read of a disk that fails")
        server.set_faults("")
        end = time.monotonic() + STRIKES_WITHIN
        while error_of(load):
            expect(time.monotonic() < end, "reads fail though the disk works again")
        os.close(descriptor)


def short_transfers(server, backing, version, protocol):
    """The disk moves a part of each request: the client gets all of it, and no early end of file."""
    with Mount(server, version, protocol) as mount:
        for size in (1, 3001, 65536, MIB + 1, 3 * MIB + 5):
            path = os.path.join(mount.path, f"short-{size}-{version}-{protocol}")
            local = os.path.join(backing.path, os.path.basename(path))
            body = trees.content(path, size)
            with open(path, "wb") as file:
                file.write(body)
                os.fsync(file.fileno())
            drain(server)
            with open(local, "rb") as file:
                expect(file.read() == body, f"a file of {size} bytes arrived as other bytes")
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
            for offset in (0, 1, 4096, 5000, size // 2, max(0, size - 4097), size):
                data = os.pread(descriptor, MIB, offset)
                expect(data == body[offset:offset + MIB], f"{len(data)} bytes at {offset} of {size}: other bytes, or too few")
            os.close(descriptor)


def _read_cold(path, size, body, done):
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    for offset in range(0, size, MIB):
        if os.pread(descriptor, MIB, offset) != body[offset:offset + MIB]:
            return
        done.value += 1
    os.close(descriptor)


def slow_disk(server, backing, version, protocol):
    """While reads wait for a slow disk, names and attributes are served, and every byte is right in the end."""
    with Mount(server, version, protocol, options="actimeo=0,lookupcache=none") as mount:
        size, name = 40 * MIB, f"slow-{version}-{protocol}"
        body = trees.content(name, size)
        local = os.path.join(backing.path, name)
        with open(local, "wb") as file:
            file.write(body)
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        counters = [CONTEXT.Value("q", 0) for _ in range(2)]
        readers = [CONTEXT.Process(target=_read_cold, args=(os.path.join(mount.path, name), size, body, counter), daemon=True)
                   for counter in counters]
        for reader in readers:
            reader.start()
        progress(counters[0], 120, "the reads of a slow disk")
        for number in range(5):
            os.stat(mount.path)
            os.mkdir(os.path.join(mount.path, f"{name}-{number}"))
        expect(counters[0].value < size // MIB, "names were served only after all reads of the slow disk")
        for reader in readers:
            reader.join(240)
        expect_equal([counter.value for counter in counters], [size // MIB] * 2, "blocks read with right bytes")


def run_cases(suite, server, backing, options):
    """All cases in each version over each transport. The server is restarted where a fault is armed from the first call on."""
    def each(cases):
        for version in options.versions:
            for protocol in options.protocols:
                for case in cases:
                    suite.case(f"{case.__name__} v{version} {protocol}", case, server, backing, version, protocol)
    each((failed_fsync, lost_unstable_writes, failed_read))
    if suite.case("restart with short transfers", server.restart_with_faults, SHORT):
        each((short_transfers,))
    if suite.case("restart with a slow disk", server.restart_with_faults, SLOW):
        each((slow_disk,))
    server.set_faults("")
