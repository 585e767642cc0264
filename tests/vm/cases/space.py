"""The backing file system runs out of blocks, of inodes, or of a user's quota: the caller who caused it gets ENOSPC or EDQUOT,
nothing that was acknowledged is lost, and after room is made the service goes on."""
import errno
import os

from guest import trees
from guest.backing import Backing
from guest.recorder import as_user, fallocate
from guest.mounts import Mount
from guest.servers import make_server
from guest.shell import run as command
from guest.suite import Suite, expect, expect_equal

USER = 2001


def error_of(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "no error"


def fill(path, limit=200 << 20):
    """Appends with fsync until an error; bytes that fsync acknowledged, kept in the file's name for the check."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    acknowledged = 0
    try:
        while acknowledged < limit:
            os.write(descriptor, trees.content(acknowledged, 1 << 20))
            os.fsync(descriptor)
            acknowledged += 1 << 20
        return acknowledged, "no error"
    except OSError as error:
        return acknowledged, errno.errorcode[error.errno]
    finally:
        try:
            os.close(descriptor)
        except OSError:
            pass                                    # the same error once more


def blocks(server, backing, version, protocol):
    with Mount(server, version, protocol) as mount:
        path = os.path.join(mount.path, "filler")
        acknowledged, error = fill(path)
        expect_equal(error, "ENOSPC", f"appending after {acknowledged} bytes")
        expect(acknowledged > 16 << 20, f"only {acknowledged} bytes fitted")
        if version == "4.2":
            descriptor = os.open(os.path.join(mount.path, "allocated"), os.O_RDWR | os.O_CREAT, 0o644)
            expect_equal(error_of(fallocate, descriptor, 0, 0, 400 << 20), "ENOSPC", "allocating more than there is")
            os.close(descriptor)
            os.unlink(os.path.join(mount.path, "allocated"))
        mount.remount()
        with open(path, "rb") as file:
            for start in range(0, acknowledged, 1 << 20):
                expect(file.read(1 << 20) == trees.content(start, 1 << 20), f"acknowledged bytes at {start} are not there")
        os.unlink(path)
        trees.write_file(path, "again", 8 << 20, sync=True)
        expect(trees.hash_file(os.path.join(backing.path, "filler")) == trees.hash_file(path), "written after room was made")
        os.unlink(path)


def inodes(server, version, protocol):
    with Mount(server, version, protocol) as mount:
        folder = os.path.join(mount.path, "many")
        os.mkdir(folder)
        made, error = 0, "no error"
        while error == "no error" and made < 5000:
            error = error_of(os.mknod, os.path.join(folder, f"i{made}"), 0o100644)
            made += error == "no error"
        expect_equal(error, "ENOSPC", f"creating file {made}")
        expect_equal(error_of(os.mkdir, os.path.join(folder, "d")), "ENOSPC", "mkdir")
        expect_equal(error_of(os.symlink, "x", os.path.join(folder, "s")), "ENOSPC", "symlink")
        for number in range(made):
            os.unlink(os.path.join(folder, f"i{number}"))
        os.mknod(os.path.join(folder, "i0"), 0o100644)
        os.unlink(os.path.join(folder, "i0"))
        os.rmdir(folder)


def quota(server, backing, version, protocol):
    """2 MiB and 40 files for one user; another user is not touched."""
    command("setquota", "-u", USER, 2048, 2048, 40, 40, backing.path)
    with Mount(server, version, protocol) as mount:
        folder = os.path.join(mount.path, "users")
        os.mkdir(folder)
        os.chmod(folder, 0o777)

        def over_blocks():
            acknowledged, error = fill(os.path.join(folder, "mine"), limit=20 << 20)
            expect_equal(error, "EDQUOT", f"appending beyond the quota after {acknowledged} bytes")
            expect(1 << 20 <= acknowledged <= 2 << 20, f"{acknowledged} bytes fitted into a quota of 2 MiB")
            if version == "4.2":
                descriptor = os.open(os.path.join(folder, "allocated"), os.O_RDWR | os.O_CREAT, 0o644)
                expect_equal(error_of(fallocate, descriptor, 0, 0, 8 << 20), "EDQUOT", "allocating beyond the quota")
                os.close(descriptor)
                os.unlink(os.path.join(folder, "allocated"))
            os.unlink(os.path.join(folder, "mine"))
            trees.write_file(os.path.join(folder, "mine"), "q", 1 << 20, sync=True)

        def over_files():
            error, made = "no error", 0
            while error == "no error" and made < 100:
                error = error_of(os.mknod, os.path.join(folder, f"q{made}"), 0o100644)
                made += error == "no error"
            expect_equal((error, made), ("EDQUOT", 39), "creating more files than the quota has")

        as_user(USER, USER, [], over_blocks)
        as_user(USER, USER, [], over_files)
        as_user(USER + 1, USER + 1, [], lambda: trees.write_file(os.path.join(folder, "other"), "o", 4 << 20, sync=True))
        command("rm", "-rf", folder)


def run(options):
    backing = Backing("ext4", size_mb=64, make_options=["-N", "1500", "-O", "quota"], mount_options="usrquota")
    server = make_server(options.server, backing.path).start()
    suite = Suite(options.only)
    for version in options.versions:
        for protocol in options.protocols:
            name = f"v{version} {protocol}"
            suite.case(f"disk full {name}", blocks, server, backing, version, protocol)
            if protocol == "tcp" or options.long:
                suite.case(f"inodes full {name}", inodes, server, version, protocol)
            suite.case(f"quota {name}", quota, server, backing, version, protocol)
    suite.case("stop", server.stop)
    suite.finish()
