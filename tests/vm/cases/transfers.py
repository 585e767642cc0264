"""What only RDMA has: small writes that travel inline, small reads with padding, many calls in flight, one that is held up, large
ACL replies."""
import errno
import multiprocessing
import os
import shutil
import signal

from guest import rdma, trees
from guest.backing import Backing
from guest.mounts import Mount
from guest.servers import make_server
from guest.shell import run as command, wait_until
from guest.suite import Skip, Suite, expect, expect_equal

CONTEXT = multiprocessing.get_context("fork")
IN_FLIGHT = 64


def setattr_in_disguise():
    """40 bytes that read as a v4 SETATTR to size 3: a server that decodes file data as operations truncates the file."""
    words = [34, 0, 0, 0, 0, 1, 1 << 4, 8, 0, 3]     # SETATTR, stateid, bitmap with size, length, value (RFC 7530 16.32)
    return b"".join(word.to_bytes(4, "big") for word in words)


def inline_writes(server, backing, version, protocol):
    """1 byte to 8 KiB, each stable by itself with the attributes asked for in the same compound: exact bytes, exact size."""
    with Mount(server, version, protocol) as mount:
        path = os.path.join(mount.path, f"inline-{version}-{protocol}")
        bodies = [trees.content(f"inline{n}", n) for n in
                  [*range(1, 10), 39, 40, 41, 255, 511, 512, 513, 700, 900, 1000, 1023, 1024, 1025, 2047, 3000, 4095, 4096, 4097,
                   5000, 8000, 8191, 8192]]
        bodies += [setattr_in_disguise(), setattr_in_disguise() * 5, bytes(40), b"\xff" * 40]
        for number, body in enumerate(bodies):
            descriptor = os.open(f"{path}-{number}", os.O_RDWR | os.O_CREAT | os.O_SYNC, 0o644)
            expect_equal(os.write(descriptor, body), len(body), "bytes written")
            expect_equal(os.fstat(descriptor).st_size, len(body), f"size after a write of {len(body)}")
            os.pwrite(descriptor, b"+", len(body))
            os.close(descriptor)
        mount.remount()
        for number, body in enumerate(bodies):
            with open(os.path.join(backing.path, os.path.basename(f"{path}-{number}")), "rb") as file:
                expect(file.read() == body + b"+", f"a write of {len(body)} bytes arrived as other bytes")
            with open(f"{path}-{number}", "rb") as file:
                expect(file.read() == body + b"+", f"{len(body) + 1} bytes were read back as other bytes")
            os.unlink(f"{path}-{number}")


def odd_reads(server, version, protocol):
    """Direct reads of odd lengths at odd places, among them one byte short of the largest transfer."""
    with Mount(server, version, protocol) as mount:
        size = (3 << 20) + 5
        path = os.path.join(mount.path, f"odd-{version}-{protocol}")
        trees.write_file(path, "odd", size)
        body = trees.content("odd", size)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
        for offset in (0, 1, 3, 511, 4095, 4096, 4097, 12345, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, size - 9, size - 1):
            for length in (1, 2, 3, 4, 5, 7, 9, 1023, 1025, 4095, 4097, (1 << 20) - 1, 1 << 20, (1 << 20) + 1):
                data = os.pread(descriptor, length, offset)
                expect(data == body[offset:offset + length], f"{length} bytes at {offset}: got {len(data)}, or other bytes")
        expect_equal(os.pread(descriptor, 4096, size), b"", "a read at the end of the file")
        expect_equal(os.pread(descriptor, 4096, size + 100_000), b"", "a read behind the end of the file")
        os.close(descriptor)
        os.unlink(path)


def _read_block(path, number):
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    data = os.pread(descriptor, 4096, number * 4096)
    os.close(descriptor)
    return data


def calls_in_flight(server, version):
    """While the server does not answer, the client may have 64 calls on their way on one connection; all are answered later."""
    if not hasattr(server, "pid"):
        raise Skip("knfsd is no process that could be halted")
    readers = 2 * IN_FLIGHT
    with Mount(server, version, "rdma", options="nconnect=1") as mount:
        path = os.path.join(mount.path, f"flight-{version}")
        trees.write_file(path, "flight", readers * 4096)
        body = trees.content("flight", readers * 4096)
        folder = rdma.transports("rdma")[0]
        with CONTEXT.Pool(readers) as pool:
            pool.starmap(_read_block, [(path, 0)] * readers)         # every process has opened the file before
            os.kill(server.pid, signal.SIGSTOP)
            try:
                results = pool.starmap_async(_read_block, [(path, n) for n in range(readers)], chunksize=1)
                wait_until(lambda: rdma.transport_info(folder).get("cur_cong", 0) >> 8 >= IN_FLIGHT, 60,
                           f"{IN_FLIGHT} calls in flight; the transport says {rdma.transport_info(folder)}")
            finally:
                os.kill(server.pid, signal.SIGCONT)
            blocks = results.get(240)
        for number, block in enumerate(blocks):
            expect(block == body[number * 4096:(number + 1) * 4096], f"block {number} has other bytes")


def held_up_call(server, backing, version):
    """A call that the server's disk holds up holds up no other call of its connection."""
    blocks = 100
    with Mount(server, version, "rdma", options="nconnect=1") as mount:
        path = os.path.join(mount.path, f"quick-{version}")
        trees.write_file(path, "quick", blocks * 4096)
        body = trees.content("quick", blocks * 4096)
        slow = f"slow-{version}"
        trees.write_file(os.path.join(backing.path, slow), "slow", 4096)    # the server has not opened it yet
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
        folder = rdma.transports("rdma")[0]
        with CONTEXT.Pool(1) as pool:
            pool.apply(_read_block, (path, 0))
            server.set_faults("backing.open=delay:8000*1")
            held = pool.apply_async(_read_block, (os.path.join(mount.path, slow), 0))
            wait_until(lambda: rdma.transport_info(folder).get("cur_cong", 0) >> 8 >= 1, 60, "the held-up call")
            for number in range(blocks):
                data = os.pread(descriptor, 4096, number * 4096)
                expect(data == body[number * 4096:(number + 1) * 4096], f"block {number} has other bytes")
            expect(not held.ready(), "the calls behind a held-up one were answered after it only")
            expect(held.get(60) == trees.content("slow", 4096), "the held-up read has other bytes")
            server.set_faults("")
        os.close(descriptor)


def copy_with_acls(server, backing, version, protocol):
    """cp -a of files with long ACLs, within the mount and out of it: it completes, with modes, times and (v3) ACLs."""
    with Mount(server, version, protocol) as mount:
        source = os.path.join(mount.path, f"acls-{version}-{protocol}")
        local = os.path.join(backing.path, os.path.basename(source))
        os.mkdir(source)
        for number in range(8):
            trees.write_file(os.path.join(source, f"f{number}"), number, 3000 * number)
            entries = ",".join(f"u:{5000 + n}:r--" for n in range(10 * number))
            if entries:
                command("setfacl", "-m", entries, os.path.join(local, f"f{number}"))
            os.chmod(os.path.join(local, f"f{number}"), 0o640 + number)
        mount.remount()                             # forgets the attributes from before
        for target in (source + "-copy", f"/dev/shm/copied-{version}-{protocol}"):
            command("cp", "-a", source, target, timeout=240)
            for number in range(8):
                one, two = os.stat(os.path.join(source, f"f{number}")), os.stat(os.path.join(target, f"f{number}"))
                expect_equal((two.st_mode, two.st_size, two.st_mtime_ns), (one.st_mode, one.st_size, one.st_mtime_ns), f"f{number}")
                expect(trees.hash_file(os.path.join(target, f"f{number}")) == trees.hash_file(os.path.join(source, f"f{number}")),
                       f"{target}/f{number} has other bytes")
        if version == "3":
            for number in range(8):
                acls = [command("getfacl", "--omit-header", "--absolute-names", os.path.join(folder, f"f{number}"))
                        for folder in (local, local + "-copy")]
                expect_equal(acls[1], acls[0], f"the ACL of f{number} after cp -a")
        shutil.rmtree(source)
        shutil.rmtree(source + "-copy")


def over_open_file(server, version, protocol):
    """Rename over a file that is open, in the same and from another folder: no ESTALE to who has it open."""
    with Mount(server, version, protocol) as mount:
        folder = os.path.join(mount.path, f"over-{version}-{protocol}")
        os.makedirs(os.path.join(folder, "other"))
        for source in ("new", "other/new"):
            for name, body in (("target", b"old bytes"), (source, b"new bytes")):
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(body)
            descriptor = os.open(os.path.join(folder, "target"), os.O_RDWR)
            os.rename(os.path.join(folder, source), os.path.join(folder, "target"))
            try:
                expect_equal(os.pread(descriptor, 100, 0), b"old bytes", f"the open file after a rename of {source} over it")
                os.pwrite(descriptor, b"OLD", 0)
                os.fsync(descriptor)
            except OSError as error:
                raise AssertionError(f"after a rename of {source}: {errno.errorcode[error.errno]}") from error
            os.close(descriptor)
            with open(os.path.join(folder, "target"), "rb") as file:
                expect_equal(file.read(), b"new bytes", "the name")
        mount.remount()
        expect_equal(sorted(os.listdir(folder)), ["other", "target"], "names left")


def run(options):
    backing = Backing(options.backing, size_mb=256)
    command("modprobe", "nfs", "max_session_slots=128")
    server = make_server(options.server, backing.path).start()
    suite = Suite(options.only)
    for version in options.versions:
        if "rdma" in options.protocols:
            suite.case(f"calls in flight v{version}", calls_in_flight, server, version)
            if options.server == "fabric":
                suite.case(f"held-up call v{version}", held_up_call, server, backing, version)
        for protocol in options.protocols:
            name = f"v{version} {protocol}"
            suite.case(f"inline writes {name}", inline_writes, server, backing, version, protocol)
            suite.case(f"odd reads {name}", odd_reads, server, version, protocol)
            suite.case(f"cp -a with ACLs {name}", copy_with_acls, server, backing, version, protocol)
            suite.case(f"rename over an open file {name}", over_open_file, server, version, protocol)
    suite.case("stop", server.stop)
    suite.finish()
