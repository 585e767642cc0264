"""Byte-range locks between two clients, one of them in a network of its own."""
import fcntl
import multiprocessing
import os
import struct

from guest.backing import Backing
from guest.mounts import Mount
from guest.network import Client
from guest.servers import make_server
from guest.shell import run as command, wait_until
from guest.suite import Suite, expect, expect_equal

WAIT = 120                                          # seconds; the client polls for a blocked lock every 30 s
CONTEXT = multiprocessing.get_context("fork")


def try_lock(path, kind, start, length):
    """"locked" (and released again) or the name of the error, by a process of its own."""
    with CONTEXT.Pool(1) as pool:
        return pool.apply(_try_lock, (path, kind, start, length))


def _try_lock(path, kind, start, length):
    with open(path, "r+b", buffering=0) as file:
        try:
            fcntl.lockf(file, kind | fcntl.LOCK_NB, length, start)
        except OSError as error:
            return os.strerror(error.errno)
        return "locked"


def conflict(path):
    """(type, start, length) of the lock that stands in the way of a lock of the whole file, or None; by another process."""
    with CONTEXT.Pool(1) as pool:
        return pool.apply(_conflict, (path,))


def _conflict(path):
    with open(path, "r+b", buffering=0) as file:
        request = struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0)
        kind, _, start, length, _ = struct.unpack("hhqqi", fcntl.fcntl(file, fcntl.F_GETLK, request))
    return None if kind == fcntl.F_UNLCK else (kind, start, length)


BUSY = os.strerror(11)                              # EAGAIN


def ranges(one, two):
    """A lock of one client keeps the other out of exactly its range, until it is released."""
    path = os.path.join(one, "ranges")
    there = os.path.join(two, "ranges")
    with open(path, "w+b", buffering=0) as file:
        file.write(b"x" * 100)
        os.fsync(file.fileno())
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 20, 10)
        expect_equal(try_lock(there, fcntl.LOCK_EX, 29, 1), BUSY, "the last locked byte")
        expect_equal(try_lock(there, fcntl.LOCK_SH, 10, 1), BUSY, "shared on the first locked byte")
        expect_equal(try_lock(there, fcntl.LOCK_EX, 0, 10), "locked", "the bytes before")
        expect_equal(try_lock(there, fcntl.LOCK_EX, 30, 0), "locked", "the bytes behind")
        expect_equal(conflict(there), (fcntl.F_WRLCK, 10, 20), "F_GETLK by the other client")
        fcntl.lockf(file, fcntl.LOCK_UN, 10, 15)
        expect_equal(try_lock(there, fcntl.LOCK_EX, 15, 10), "locked", "the middle after its release")
        expect_equal(try_lock(there, fcntl.LOCK_EX, 14, 1), BUSY, "left of the middle")
        expect_equal(try_lock(there, fcntl.LOCK_EX, 25, 1), BUSY, "right of the middle")
        fcntl.lockf(file, fcntl.LOCK_SH, 0, 0)
        expect_equal(try_lock(there, fcntl.LOCK_SH, 0, 0), "locked", "shared beside shared")
        expect_equal(try_lock(there, fcntl.LOCK_EX, 0, 0), BUSY, "exclusive beside shared")
    expect_equal(try_lock(there, fcntl.LOCK_EX, 0, 0), "locked", "after close")
    expect_equal(conflict(there), None, "F_GETLK after close")


def _hold(path, held, release):
    with open(path, "r+b", buffering=0) as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        held.set()
        release.wait(WAIT)


def _holder(path):
    held, release = CONTEXT.Event(), CONTEXT.Event()
    process = CONTEXT.Process(target=_hold, args=(path, held, release), daemon=True)
    process.start()
    return process, held, release


def waiting(one, two):
    """A blocking lock is granted when the holder lets go, and the lock of a killed process is free."""
    path, there = os.path.join(one, "waiting"), os.path.join(two, "waiting")
    open(path, "wb").close()
    first, held, release = _holder(path)
    expect(held.wait(WAIT), "the first client did not get its lock")
    second, granted, _ = _holder(there)
    expect(not granted.wait(1), "two clients hold the same exclusive lock")
    release.set()
    expect(granted.wait(WAIT), "the waiting client was not granted the lock after its release")
    first.join(WAIT)
    second.kill()
    second.join(WAIT)
    wait_until(lambda: try_lock(path, fcntl.LOCK_EX, 0, 0) == "locked", WAIT, "the lock of a killed process to be free")


def _count(path, times):
    for _ in range(times):
        with open(path, "r+b", buffering=0) as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            number = int(file.read())
            file.seek(0)
            file.write(b"%08d" % (number + 1))
            fcntl.lockf(file, fcntl.LOCK_UN)


def counting(one, two, times=40):
    """Two clients add to one number under a lock: none is lost, so the locks also make the caches agree."""
    paths = [os.path.join(folder, "number") for folder in (one, two)]
    with open(paths[0], "wb") as file:
        file.write(b"%08d" % 0)
    workers = [CONTEXT.Process(target=_count, args=(path, times)) for path in paths]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(300)
        expect_equal(worker.exitcode, 0, "exit code of a counting process")
    with open(paths[1], "rb") as file:
        expect_equal(int(file.read()), 2 * times, "the number")


def vanished(one, two, client):
    """The lock of a client that is cut off is free once its lease has run out, and the client learns of it."""
    path, there = os.path.join(one, "vanished"), os.path.join(two, "vanished")
    open(path, "wb").close()
    holder, held, release = _holder(there)
    expect(held.wait(WAIT), "the client did not get its lock")
    command("ip", "link", "set", f"to-{client.name}", "down")
    try:
        expect_equal(try_lock(path, fcntl.LOCK_EX, 0, 0), BUSY, "before the lease has run out")
        wait_until(lambda: try_lock(path, fcntl.LOCK_EX, 0, 0) == "locked", WAIT, "the lease to run out")
    finally:
        command("ip", "link", "set", f"to-{client.name}", "up")
    release.set()
    holder.join(WAIT)
    expect_equal(sorted(os.listdir(two)), sorted(os.listdir(one)), "listing by the client that came back")


def run(options):
    backing = Backing(options.backing, size_mb=256)
    second, third = Client("b", 9), Client("c", 10)
    server = make_server(options.server, backing.path, nfsv4={"Lease_Lifetime": 10, "Grace_Period": 10}).start()
    suite = Suite(options.only)
    for version in options.versions:
        for protocol in options.protocols:
            if version == "3" and protocol == "rdma":
                continue                            # NLM runs over TCP whatever carries NFS, and needs a network of its own
            first = third if version == "3" else None
            with Mount(server, version, protocol, client=first) as one, Mount(server, version, "tcp", client=second) as two:
                for function in (ranges, waiting, counting):
                    suite.case(f"{function.__name__} v{version} {protocol}", function, one.path, two.path)
                if version == "4.1" and protocol == "tcp":
                    suite.case(f"vanished v{version} {protocol}", vanished, one.path, two.path, second)
    server.stop()
    suite.finish()
