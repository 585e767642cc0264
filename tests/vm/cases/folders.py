"""Large folders: every name once, also while the folder changes, over a restart in mid-listing, and beside a broken entry;
other calls are answered meanwhile."""
import ctypes
import multiprocessing
import os
import struct

from guest.backing import Backing
from guest.mounts import Mount
from guest.servers import make_server
from guest.shell import run as command
from guest.suite import Skip, Suite, expect, expect_equal

CONTEXT = multiprocessing.get_context("fork")
libc = ctypes.CDLL(None, use_errno=True)
SYS_GETDENTS64 = 217


def fill(folder, count, prefix="entry"):
    """Empty files made on the backing file system itself: hard links are the cheapest names, files every 1000."""
    os.makedirs(folder)
    last = None
    for number in range(count):
        path = os.path.join(folder, f"{prefix}{number:07d}")
        if number % 1000 == 0:
            os.mknod(path, 0o100644)
            last = path
        else:
            os.link(last, path)


def read_some(descriptor, size=4096):
    """Names of one getdents64 call with a buffer of `size` bytes; empty at the end."""
    buffer = ctypes.create_string_buffer(size)
    count = libc.syscall(SYS_GETDENTS64, descriptor, buffer, size)
    if count < 0:
        raise OSError(ctypes.get_errno(), "getdents64")
    names, place = [], 0
    while place < count:
        length = struct.unpack_from("<H", buffer, place + 16)[0]
        names.append(buffer.raw[place + 19:place + length].split(b"\0")[0].decode())
        place += length
    return names


def check_names(listed, stable, what):
    seen = {}
    for name in listed:
        seen[name] = seen.get(name, 0) + 1
    missing = [name for name in stable if name not in seen]
    twice = [name for name in stable if seen.get(name, 0) > 1]
    if missing or twice:
        raise AssertionError(f"{what}: of {len(stable)} stable names {len(missing)} missing {missing[:3]}, "
                             f"{len(twice)} more than once {twice[:3]}")


def _poke(path, stop, count):
    """Small calls that the server must answer while somebody lists."""
    while not stop.is_set():
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.pwrite(descriptor, b"poke", 0)
        os.close(descriptor)
        os.unlink(path)
        count.value += 1


def large(server, backing, version, protocol, count):
    folder = os.path.join(backing.path, "large")
    with Mount(server, version, protocol) as mount:
        stop, pokes = CONTEXT.Event(), CONTEXT.Value("q", 0)
        poker = CONTEXT.Process(target=_poke, args=(os.path.join(mount.path, "poke"), stop, pokes), daemon=True)
        poker.start()
        before = pokes.value
        names = os.listdir(os.path.join(mount.path, "large"))
        during = pokes.value - before
        stop.set()
        poker.join(120)
        check_names(names, [f"entry{n:07d}" for n in range(count)], f"listing {count} entries")
        expect_equal(len(names), count, "names listed")
        expect(poker.exitcode == 0, f"the other process ended with {poker.exitcode}")
        expect(during >= 3, f"only {during} creations by another process while {count} entries were listed")
        kinds = {entry.is_file(follow_symlinks=False) for entry in os.scandir(os.path.join(mount.path, "large"))}
        expect_equal(kinds, {True}, "d_type of the entries")
        expect_equal(len(os.listdir(folder)), count, "entries on the backing file system")


def changing(server, backing, version, protocol):
    """Names come and go while the folder is listed; the 3000 that stay are listed once each, and the listing ends."""
    name = f"changing-{version}-{protocol}"
    folder = os.path.join(backing.path, name)
    fill(folder, 3000, "stays")
    for number in range(1500):
        os.mknod(os.path.join(folder, f"goes{number:05d}"), 0o100644)
    with Mount(server, version, protocol) as mount:
        descriptor = os.open(os.path.join(mount.path, name), os.O_RDONLY | os.O_DIRECTORY)
        listed, rounds = [], 0
        while names := read_some(descriptor, 1024):
            listed += names
            rounds += 1
            expect(rounds < 5000, f"the listing does not end: {len(listed)} names so far")
            if rounds % 2 and rounds < 600:
                # Through the mount, so that the client drops its cache of the folder, and behind its back.
                with open(os.path.join(mount.path, name, f"comes{rounds:05d}"), "wb"):
                    pass
                for gone in (f"goes{rounds:05d}", f"goes{1499 - rounds:05d}"):
                    if os.path.exists(os.path.join(folder, gone)):
                        os.unlink(os.path.join(mount.path if rounds % 4 == 1 else backing.path, name, gone))
        os.close(descriptor)
    check_names(listed, [f"stays{n:07d}" for n in range(3000)], "a listing of a folder that changes")


def over_restart(server, backing, version, protocol):
    """The server is killed and started in mid-listing: the cookie of the life before still means the same place."""
    if not hasattr(server, "kill9"):
        raise Skip("knfsd is no process")
    name = f"restart-{version}-{protocol}"
    fill(os.path.join(backing.path, name), 20_000)
    with Mount(server, version, protocol) as mount:
        descriptor = os.open(os.path.join(mount.path, name), os.O_RDONLY | os.O_DIRECTORY)
        listed = read_some(descriptor) + read_some(descriptor)
        server.kill9()
        server.restart(timeout=240)
        while names := read_some(descriptor):
            listed += names
        os.close(descriptor)
    check_names(listed, [f"entry{n:07d}" for n in range(20_000)], "a listing over a restart")


def broken_entry(server, backing, version, protocol):
    """One name whose inode is damaged on disk: the rest of the listing arrives, and only that name fails."""
    if backing.kind != "ext4":
        raise Skip("damaging an inode is done with ext4's debugfs")
    name = f"broken-{version}-{protocol}"
    folder = os.path.join(backing.path, name)
    os.makedirs(folder)
    for number in range(50):
        os.mknod(os.path.join(folder, f"n{number:02d}"), 0o100644)
    server.kill9()
    os.sync()
    backing.unmount()
    command("debugfs", "-w", "-R", f"clri /{name}/n25", backing.image)
    backing.mount()
    server.restart(timeout=240)
    with Mount(server, version, protocol) as mount:
        listed = [n for n in os.listdir(os.path.join(mount.path, name)) if n != "n25"]
        check_names(listed, [f"n{n:02d}" for n in range(50) if n != 25], "a listing with a broken entry")
        for number in (24, 26):
            os.stat(os.path.join(mount.path, name, f"n{number}"))
        try:
            os.stat(os.path.join(mount.path, name, "n25"))
        except OSError:
            return
        raise AssertionError("the damaged entry has attributes")


def run(options):
    count = 1_000_000 if options.long else 20_000
    backing = Backing(options.backing, size_mb=1024 if options.long else 512, make_options=["-N", "120000"] if options.backing == "ext4" else [])
    fill(os.path.join(backing.path, "large"), count)
    server = make_server(options.server, backing.path).start()
    suite = Suite(options.only)
    for version in options.versions:
        for protocol in options.protocols:
            name = f"v{version} {protocol}"
            suite.case(f"large folder {name}", large, server, backing, version, protocol, count)
            suite.case(f"changing folder {name}", changing, server, backing, version, protocol)
            suite.case(f"listing over a restart {name}", over_restart, server, backing, version, protocol)
    if options.server != "knfsd":
        suite.case("broken entry", broken_entry, server, backing, options.versions[-1], options.protocols[0])
    suite.case("stop", server.stop)
    suite.finish()
