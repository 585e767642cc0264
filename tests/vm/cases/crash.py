"""kill -9 of the gateway under load, and its restart: clients go on by themselves, what fsync acknowledged is there, open files,
working folders and locks are still good, and handles hold on a backing file system that has another device number."""
import errno
import fcntl
import os
import shutil

from cases.locks import BUSY, try_lock
from guest import trees
from guest.backing import Backing
from guest.load import OpenFile, Reader, Writer, progress
from guest.mounts import Mount
from guest.network import Client
from guest.servers import make_server
from guest.suite import Suite, expect, expect_equal

GRACE = {"Graceless": "false", "Lease_Lifetime": 10, "Grace_Period": 12}


def kill_under_load(server, backing, version, protocol, times):
    with Mount(server, version, protocol) as mount:
        folder = os.path.join(mount.path, f"crash-{version}-{protocol}")
        os.mkdir(folder)
        size = 8 << 20
        trees.write_file(os.path.join(folder, "data"), "crash", size)
        reader = Reader(os.path.join(folder, "data"), "crash", size).start()
        writers = [Writer(os.path.join(folder, f"records{n}"), length).start() for n, length in enumerate((100, 5000, 1_500_000))]
        held = OpenFile(os.path.join(folder, "held"), os.O_RDWR | os.O_CREAT)
        held.call("pwrite", b"before", 0)
        unsynced = OpenFile(os.path.join(folder, "unsynced"), os.O_RDWR | os.O_CREAT)
        body = trees.content("unsynced", 3 << 20)
        unsynced.call("pwrite", body, 0)            # no fsync: it is the client's to send again when the verifier changes
        for life in range(times):
            for writer in writers:
                progress(writer.acknowledged, 240, f"{writer.path} in life {life}")
            server.kill9()
            server.restart(timeout=240)
        for writer in writers:
            progress(writer.acknowledged, 240, f"{writer.path} after {times} kills")
        progress(reader.rounds, 240, f"the reader after {times} kills")
        for worker in (*writers, reader):
            worker.stop()
        expect_equal(held.call("pread", 100, 0), b"before", "the file that was open all the time")
        held.call("pwrite", b"after!", 0)
        held.call("fsync")
        held.close()
        unsynced.call("fsync")
        unsynced.close()
        mount.remount()
        for where in (folder, os.path.join(backing.path, os.path.basename(folder))):
            for writer in writers:
                writer.verify(os.path.join(where, os.path.basename(writer.path)))
            with open(os.path.join(where, "held"), "rb") as file:
                expect_equal(file.read(), b"after!", f"{where}/held")
            with open(os.path.join(where, "unsynced"), "rb") as file:
                expect(file.read() == body, f"{where}/unsynced has other bytes than were written")
        shutil.rmtree(folder)                       # the next ones need the space


def locks_over_restart(server, client, version):
    """A lock taken before the kill is reclaimed: nobody else gets it, in the grace period or after."""
    with Mount(server, version, "tcp") as one, Mount(server, version, "tcp", client=client) as two:
        path, there = os.path.join(one.path, f"locked{version}"), os.path.join(two.path, f"locked{version}")
        with open(path, "w+b", buffering=0) as file:
            file.write(b"x")
            os.fsync(file.fileno())
            fcntl.lockf(file, fcntl.LOCK_EX)
            expect_equal(try_lock(there, fcntl.LOCK_EX, 0, 0), BUSY, "before the kill")
            server.kill9()
            server.restart(timeout=240)
            expect_equal(try_lock(there, fcntl.LOCK_EX, 0, 0), BUSY, "after the restart")
            expect_equal(file.read(), b"", "reading on")
            fcntl.lockf(file, fcntl.LOCK_UN)
        expect_equal(try_lock(there, fcntl.LOCK_EX, 0, 0), "locked", "after the unlock")


def other_device(server, backing, version, protocol):
    """The gateway stops, the backing file system comes back with another device number: every handle still works."""
    with Mount(server, version, protocol) as mount:
        folder = os.path.join(mount.path, f"device-{version}-{protocol}")
        os.makedirs(os.path.join(folder, "deep/er"))
        path = os.path.join(folder, "deep/er/file")
        trees.write_file(path, "device", 300_000)
        held = os.open(path, os.O_RDWR)
        inside = os.open(os.path.join(folder, "deep"), os.O_RDONLY)
        os.listdir(inside)
        server.kill9()
        backing.move_to_other_device()
        server.restart(timeout=240)
        os.posix_fadvise(held, 0, 0, os.POSIX_FADV_DONTNEED)
        expect(os.pread(held, 400_000, 0) == trees.content("device", 300_000), "the open file has other bytes")
        os.pwrite(held, b"new", 300_000)
        os.fsync(held)
        os.close(held)
        expect_equal(os.listdir(inside), ["er"], "the folder that was open")
        os.close(inside)
        with open(os.path.join(backing.path, os.path.relpath(path, mount.path)), "rb") as file:
            expect_equal(file.read()[300_000:], b"new", "what was written through the old handle")


def stale(server, backing, version, protocol):
    """A file or folder that is gone on the server: ESTALE to who holds it, and ENOENT by name."""
    with Mount(server, version, protocol, options="actimeo=0,lookupcache=none") as mount:
        name = f"stale-{version}-{protocol}"
        os.mkdir(os.path.join(mount.path, name))
        path = os.path.join(mount.path, name, "file")
        with open(path, "wb") as file:
            file.write(b"here")
        held = os.open(path, os.O_RDONLY)
        inside = os.open(os.path.join(mount.path, name), os.O_RDONLY)
        os.unlink(os.path.join(backing.path, name, "file"))
        os.rmdir(os.path.join(backing.path, name))
        server.kill9()                              # the server itself must not hold the file open or cached
        server.restart(timeout=240)
        for what, call in (("fstat of a removed file", lambda: os.fstat(held)),
                           ("listing a removed folder", lambda: os.listdir(inside))):
            try:
                call()
            except OSError as error:
                expect_equal(errno.errorcode[error.errno], "ESTALE", what)
            else:
                raise AssertionError(f"{what} worked")
        os.close(inside)
        try:
            os.close(held)
        except OSError:
            pass                                    # a v4 close of a file that is gone may say so
        try:
            os.stat(path)
            raise AssertionError("a removed file was found by name")
        except FileNotFoundError:
            pass


def run(options):
    if options.server == "knfsd":
        raise SystemExit("crash.py: the kernel's server cannot be killed; use --server fabric or vfs")
    backing = Backing(options.backing, size_mb=512)
    suite = Suite(options.only)
    client = Client()
    server = make_server(options.server, backing.path, nfsv4=GRACE).start()
    for version in options.versions:
        for protocol in options.protocols:
            suite.case(f"kill v{version} {protocol}", kill_under_load, server, backing, version, protocol, 10 if options.long else 1)
    for version in options.versions:
        if version != "3":                          # v3 clients reclaim when the host's sm-notify tells them of a reboot
            suite.case(f"locks over a restart v{version}", locks_over_restart, server, client, version)
        for protocol in options.protocols:
            if options.long or version in ("3", "4.1"):
                suite.case(f"other device v{version} {protocol}", other_device, server, backing, version, protocol)
                suite.case(f"stale v{version} {protocol}", stale, server, backing, version, protocol)
    suite.case("stop", server.stop)
    suite.finish()
