"""File operations whose results are logged line by line, so that two file systems can be compared.

A line is `name = value` or `name ! ERRNO`. Nothing that may differ by right (inode and device numbers, times that nobody
set, free space) is logged.
"""
import contextlib
import ctypes
import errno
import os
import stat
import sys
import zlib

libc = ctypes.CDLL(None, use_errno=True)
ALICE, BOB, CAROL = 2001, 2002, 2003                # users without an entry in passwd
STAFF, TEAM = 3001, 3002                            # groups
FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_COLLAPSE, FALLOC_ZERO = 1, 2, 8, 16


def log(name, operation, *arguments, **keywords):
    """Runs the operation and logs its value or errno; the value is returned (None on error)."""
    try:
        value = operation(*arguments, **keywords)
    except OSError as error:
        print(f"{name} ! {errno.errorcode.get(error.errno, error.errno)}", flush=True)
        return None
    print(f"{name} = {value!r}", flush=True)
    return value


def as_user(uid, gid, groups, function, *arguments):
    """Runs the function in a process of that user."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            function(*arguments)
            status = 0
        except BaseException as error:              # a child must not go on as a second parent
            print(f"{function.__name__} broke: {error!r}", flush=True)
        finally:
            sys.stdout.flush()
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise AssertionError(f"{function.__name__} as user {uid} ended with status {status}")


def put(path, data=b"", mode=0o644, flags=0):
    """Creates or truncates a file with the data; how many bytes were written."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags, mode)
    try:
        return os.write(descriptor, data) if data else 0
    finally:
        os.close(descriptor)


def get(path):
    with open(path, "rb", buffering=0) as file:
        data = file.read()
    return data if len(data) < 200 else (len(data), hash_of(data))


def hash_of(data):
    return zlib.crc32(data)


def look(path):
    """What lstat says, as far as two file systems must agree."""
    s = os.lstat(path)
    size = s.st_size if not stat.S_ISDIR(s.st_mode) else "-"
    links = s.st_nlink
    device = (os.major(s.st_rdev), os.minor(s.st_rdev)) if s.st_rdev else ""
    return f"{stat.filemode(s.st_mode)} {stat.S_IMODE(s.st_mode):o} {s.st_uid}:{s.st_gid} size {size} links {links} {device}"


def times(path):
    s = os.lstat(path)
    return (s.st_atime_ns, s.st_mtime_ns)


def opened(path, flags, mode=0o644):
    """Opens and closes; "opened" on success."""
    os.close(os.open(path, flags, mode))
    return "opened"


@contextlib.contextmanager
def descriptor(path, flags=os.O_RDWR, mode=0o644):
    fd = os.open(path, flags, mode)
    try:
        yield fd
    finally:
        os.close(fd)


def fallocate(fd, mode, offset, length):
    if libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")
