#!/usr/bin/python3
"""Does every kind of file operation in one folder and logs each result, so that two file systems can be compared line by line.

    fileops.py DIR

A line is `name = value` or `name ! ERRNO`. Nothing that may differ by right (inode and device numbers, times that nobody
set, free space) is logged. Runs as root; parts of it run as ordinary users.
"""
import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import socket
import stat
import struct
import sys
import time
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


def section(name):
    os.umask(0o022)
    os.mkdir(name)
    os.chmod(name, 0o777)
    os.chdir(name)


def creating():
    log("create", put, "a", b"hello")
    log("read back", get, "a")
    log("create again", put, "a", b"HE")
    log("read after overwrite", get, "a")
    log("exclusive on existing", put, "a", b"", 0o644, os.O_EXCL)
    log("exclusive new", put, "excl", b"x", 0o640, os.O_EXCL)
    log("look exclusive", look, "excl")
    log("truncate by open", put, "a", b"", 0o644, os.O_TRUNC)
    log("look truncated", look, "a")
    for mode in (0o000, 0o200, 0o400, 0o444, 0o600, 0o666, 0o755, 0o777, 0o1777, 0o2755, 0o4755, 0o7777):
        os.umask(0)
        log(f"create mode {mode:o}", put, f"mode{mode:o}", b"", mode, os.O_EXCL)
        log(f"look mode {mode:o}", look, f"mode{mode:o}")
        log(f"mkdir mode {mode:o}", os.mkdir, f"dir{mode:o}", mode)
        log(f"look dir mode {mode:o}", look, f"dir{mode:o}")
    for mask in (0o077, 0o027, 0o777):
        os.umask(mask)
        log(f"create umask {mask:o}", put, f"mask{mask:o}", b"", 0o666)
        log(f"look umask {mask:o}", look, f"mask{mask:o}")
    os.umask(0o022)
    log("missing parent", put, "no/file")
    log("file as parent", put, "a/file")
    log("open a folder for writing", opened, "dir755", os.O_WRONLY)
    log("open a folder with create", opened, "dir755", os.O_RDONLY | os.O_CREAT)
    log("open missing", opened, "missing", os.O_RDONLY)
    log("O_DIRECTORY on a file", opened, "a", os.O_RDONLY | os.O_DIRECTORY)
    os.symlink("a", "link")
    os.symlink("nowhere", "dangling")
    os.symlink("loop", "loop")
    log("O_NOFOLLOW on a symlink", opened, "link", os.O_RDONLY | os.O_NOFOLLOW)
    log("through a symlink", opened, "link", os.O_RDONLY)
    log("through a dangling symlink", opened, "dangling", os.O_RDONLY)
    log("create through a dangling symlink", opened, "dangling", os.O_WRONLY | os.O_CREAT)
    log("created by it", look, "nowhere")
    log("exclusive on a symlink", opened, "link", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    log("symlink loop", opened, "loop", os.O_RDONLY)


def folders():
    log("mkdir", os.mkdir, "d")
    log("mkdir again", os.mkdir, "d")
    put("f")
    log("mkdir over a file", os.mkdir, "f")
    log("mkdir below a file", os.mkdir, "f/x")
    log("mkdir below nothing", os.mkdir, "n/x")
    for depth in range(3):
        os.mkdir(f"d/sub{depth}")
        log(f"links of a folder with {depth + 1}", lambda: os.lstat("d").st_nlink)
    log("rmdir not empty", os.rmdir, "d")
    log("rmdir a file", os.rmdir, "f")
    log("rmdir missing", os.rmdir, "n")
    log("unlink a folder", os.unlink, "d")
    log("rmdir", os.rmdir, "d/sub0")
    log("links after rmdir", lambda: os.lstat("d").st_nlink)
    log("rmdir dot", os.rmdir, "d/.")
    log("rmdir dot dot", os.rmdir, "d/sub1/..")
    for number in range(100):
        put(f"d/entry{number:03}")
    log("list", lambda: hash_of("\n".join(sorted(os.listdir("d"))).encode()))
    log("list types", lambda: sorted({(e.is_dir(follow_symlinks=False), e.is_file(follow_symlinks=False))
                                      for e in os.scandir("d")}))


def special_files():
    log("fifo", os.mkfifo, "fifo", 0o640)
    log("look fifo", look, "fifo")
    log("char device", os.mknod, "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    log("look char device", look, "null")
    log("block device", os.mknod, "loop", stat.S_IFBLK | 0o600, os.makedev(7, 200))
    log("look block device", look, "loop")
    log("large numbers", os.mknod, "large", stat.S_IFCHR | 0o600, os.makedev(511, 70000))
    log("look large numbers", look, "large")
    log("mknod a file", os.mknod, "plain", stat.S_IFREG | 0o604)
    log("look plain", look, "plain")
    log("mknod existing", os.mknod, "fifo", stat.S_IFIFO | 0o600)
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as server:
        log("socket", server.bind, "socket")
    log("look socket", look, "socket")
    log("read the null device", get, "null")


def links():
    put("a", b"data")
    log("link", os.link, "a", "b")
    log("links", look, "a")
    log("link exists", os.link, "a", "b")
    log("link missing", os.link, "no", "c")
    os.mkdir("d")
    log("link a folder", os.link, "d", "e")
    log("link into a folder", os.link, "a", "d/c")
    log("unlink one", os.unlink, "a")
    log("the other", get, "b")
    log("links after unlink", look, "b")
    for length in (1, 59, 60, 61, 255, 1000, 4000):
        log(f"symlink of {length}", os.symlink, "t" * length, f"s{length}")
        log(f"readlink of {length}", lambda length=length: hash_of(os.readlink(f"s{length}").encode()))
        log(f"look symlink of {length}", look, f"s{length}")
    log("symlink exists", os.symlink, "x", "s1")
    log("symlink with odd bytes", os.symlink, b"\xff\xfe /../ \n", b"odd")
    log("read odd", os.readlink, b"odd")
    log("readlink of a file", os.readlink, "b")
    log("hard link to a symlink", os.link, "s1", "s1b", follow_symlinks=False)
    log("look hard link to a symlink", look, "s1b")
    log("unlink missing", os.unlink, "nothing")
    log("unlink below a file", os.unlink, "b/x")


def renaming():
    put("a", b"A")
    put("b", b"B")
    os.makedirs("d/e")
    os.mkdir("empty")
    log("rename over a file", os.rename, "a", "b")
    log("content", get, "b")
    log("source is gone", look, "a")
    log("rename missing", os.rename, "a", "c")
    log("file over folder", os.rename, "b", "d")
    log("folder over file", os.rename, "d", "b")
    log("folder over full folder", os.rename, "empty", "d")
    log("folder over empty folder", os.rename, "d", "empty")
    log("moved child", look, "empty/e")
    log("folder into itself", os.rename, "empty", "empty/e/x")
    log("folder onto its parent", os.rename, "empty/e", "empty")
    os.link("b", "b2")
    log("hard link onto itself", os.rename, "b", "b2")
    log("both are there", lambda: sorted(os.listdir(".")))
    log("onto the same name", os.rename, "b", "b")
    log("into a folder", os.rename, "b", "empty/e/b")
    log("folder to another parent", os.rename, "empty/e", "moved")
    log("its dot dot", lambda: os.path.samefile("moved/..", "."))
    log("to a missing parent", os.rename, "moved", "no/moved")
    put("victim", b"victim")
    put("killer", b"killer")
    with descriptor("victim", os.O_RDONLY) as fd:
        log("over an open file", os.rename, "killer", "victim")
        log("the open file", os.pread, fd, 100, 0)
        log("its links", lambda: os.fstat(fd).st_nlink)
    log("the name", get, "victim")
    os.mkdir("other")
    put("other/target", b"old target")
    put("source", b"source")
    with descriptor("source", os.O_RDWR) as fd:
        log("an open file to another folder", os.rename, "source", "other/target")
        log("written after it", os.pwrite, fd, b"SO", 0)
        log("read after it", os.pread, fd, 100, 0)
    log("there", get, "other/target")


def attributes():
    put("f", b"0123456789")
    for mode in (0o000, 0o001, 0o010, 0o100, 0o644, 0o755, 0o1644, 0o2755, 0o4755, 0o6711, 0o7777, 0o600):
        log(f"chmod {mode:o}", os.chmod, "f", mode)
        log(f"look {mode:o}", look, "f")
    log("chown", os.chown, "f", ALICE, STAFF)
    log("look chown", look, "f")
    os.chmod("f", 0o6755)
    log("chown clears suid", os.chown, "f", BOB, -1)
    log("look cleared", look, "f")
    log("chgrp", os.chown, "f", -1, TEAM)
    log("look chgrp", look, "f")
    log("large ids", os.chown, "f", 4294967294 - 1, 2147483648)
    log("look large ids", look, "f")
    os.chown("f", 0, 0)
    os.chmod("f", 0o6755)
    log("root writes to suid", put, "f", b"x")
    log("look suid written by root", look, "f")
    for size in (3, 20, 0, 5000, 1, 1 << 40):
        log(f"truncate to {size}", os.truncate, "f", size)
        log(f"look size {size}", look, "f")
    log("truncate negative", lambda: _truncate("f", -1))
    log("truncate too large", os.truncate, "f", (1 << 63) - 1)
    os.truncate("f", 3)
    log("bytes", get, "f")
    log("truncate a folder", os.truncate, ".", 0)
    for atime, mtime in ((0, 0), (1, 999_999_999), (1_500_000_000_123_456_789, 1_600_000_000_987_654_321),
                         (4_000_000_000_000_000_001, 4_000_000_000_000_000_002)):
        log(f"utimens {mtime}", os.utime, "f", ns=(atime, mtime))
        log(f"times {mtime}", times, "f")
    log("times of a folder", lambda: (os.utime(".", ns=(11, 22)), times("."))[1])
    os.symlink("f", "link")
    log("times of a symlink", os.utime, "link", ns=(1_000_000_000_000_000_005, 1_000_000_000_000_000_007), follow_symlinks=False)
    log("symlink's mtime", lambda: os.lstat("link").st_mtime_ns)
    log("owner of a symlink", os.chown, "link", ALICE, STAFF, follow_symlinks=False)
    log("look symlink", lambda: (os.lstat("link").st_uid, os.lstat("link").st_gid))
    before = os.lstat("f")
    os.utime("f", ns=(5, 5))
    put("f", b"abc")
    log("write changes mtime", lambda: os.lstat("f").st_mtime_ns > before.st_mtime_ns > 5)
    ctime = os.lstat("f").st_ctime_ns
    time.sleep(0.05)                                # more than the kernel's clock tick
    os.chmod("f", 0o611)
    log("chmod changes ctime", lambda: os.lstat("f").st_ctime_ns > ctime)


def _truncate(path, size):
    if libc.truncate(os.fsencode(path), ctypes.c_long(size)) != 0:
        raise OSError(ctypes.get_errno(), path)


def data():
    pattern = bytes(range(256)) * 16
    with descriptor("f", os.O_RDWR | os.O_CREAT) as fd:
        log("write", os.pwrite, fd, pattern, 0)
        log("overwrite in the middle", os.pwrite, fd, b"middle", 1000)
        log("far write", os.pwrite, fd, b"far", 1_000_003)
        log("read the gap", lambda: set(os.pread(fd, 5000, 500_000)))
        log("read at the end", os.pread, fd, 100, 1_000_000)
        log("read behind the end", os.pread, fd, 100, 2_000_000)
        log("write at 1 TiB", os.pwrite, fd, b"tera", 1 << 40)
        log("read at 1 TiB", os.pread, fd, 10, 1 << 40)
        log("write at the last offset", os.pwrite, fd, b"xy", (1 << 63) - 3)
        log("fsync", os.fsync, fd)
        log("fdatasync", os.fdatasync, fd)
        log("ftruncate", os.ftruncate, fd, 1_000_006)
    log("all", get, "f")
    with descriptor("f", os.O_WRONLY | os.O_APPEND) as fd:
        log("append", os.write, fd, b"appended")
        log("read from write-only", os.read, fd, 1)
    log("appended", lambda: get("f")[0])
    with descriptor("f", os.O_RDONLY) as fd:
        log("write to read-only", os.write, fd, b"x")
        log("tail", os.pread, fd, 20, 1_000_000)
    for size in (1, 2, 3, 4, 5, 7, 9, 1023, 1024, 4095, 8191, 8192, 8193, 1 << 20, (1 << 20) + 1):
        body = (pattern * (size // len(pattern) + 1))[:size]
        put(f"s{size}", body)
        log(f"bytes of {size}", lambda size=size, body=body: open(f"s{size}", "rb").read() == body)
    with descriptor("direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT) as fd:
        buffer = mmap.mmap(-1, 8192)
        buffer[:] = pattern * 2
        log("direct write", os.pwrite, fd, buffer, 4096)
        log("direct read", _direct_read, fd, 4096, 8192)
        log("direct read of the hole", _direct_read, fd, 0, 4096)
        log("direct read behind the end", _direct_read, fd, 1 << 20, 4096)
    with descriptor("mapped", os.O_RDWR | os.O_CREAT) as fd:
        os.ftruncate(fd, 10_000)
        with mmap.mmap(fd, 10_000) as view:
            view[5000:5006] = b"mapped"
            view.flush()
        log("through the map", os.pread, fd, 8, 4999)
    with descriptor("s9") as fd:
        os.unlink("s9")
        log("read after unlink", os.pread, fd, 9, 0)
        log("write after unlink", os.pwrite, fd, b"still", 0)
        log("links after unlink", lambda: os.fstat(fd).st_nlink)
    with descriptor("s8192") as fd:
        log("sendfile out", lambda: _sendfile(fd))
    with descriptor("copied", os.O_RDWR | os.O_CREAT) as out, descriptor("s8193", os.O_RDONLY) as fd:
        log("copy_file_range", os.copy_file_range, fd, out, 8193, 0, 0)
        log("copied is right", lambda: open("copied", "rb").read() == open("s8193", "rb").read())


def _direct_read(fd, offset, size):
    buffer = mmap.mmap(-1, size)
    count = os.preadv(fd, [buffer], offset)
    return count, hash_of(buffer[:count])


def _sendfile(fd):
    with descriptor("/dev/null", os.O_WRONLY) as null:
        return os.sendfile(null, fd, 0, 8192)


def fallocate(fd, mode, offset, length):
    if libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")


def space():
    with descriptor("f", os.O_RDWR | os.O_CREAT) as fd:
        log("allocate", fallocate, fd, 0, 0, 100_000)
        log("look allocated", look, "f")
        log("blocks are there", lambda: os.fstat(fd).st_blocks * 512 >= 100_000)
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"x" * 300_000, 0)
        os.fsync(fd)
        log("allocate keeps bytes", fallocate, fd, 0, 200_000, 200_000)
        log("look grown", look, "f")
        log("allocate keep size", fallocate, fd, FALLOC_KEEP_SIZE, 0, 1_000_000)
        log("look kept", look, "f")
        log("punch", fallocate, fd, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, 65_536, 131_072)
        log("hole reads zeros", lambda: set(os.pread(fd, 131_072, 65_536)))
        log("before the hole", os.pread, fd, 4, 65_532)
        log("behind the hole", os.pread, fd, 4, 65_536 + 131_072)
        log("punch unaligned", fallocate, fd, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, 10, 20)
        log("unaligned hole", os.pread, fd, 40, 0)
        log("punch behind the end", fallocate, fd, FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE, 10_000_000, 4096)
        log("look after punches", look, "f")
        log("collapse", fallocate, fd, FALLOC_COLLAPSE, 0, 4096)
        log("zero range", fallocate, fd, FALLOC_ZERO, 0, 4096)
        log("allocate nothing", fallocate, fd, 0, 0, 0)
        log("allocate negative", fallocate, fd, 0, -1, 10)
        log("allocate too far", fallocate, fd, 0, (1 << 63) - 10, 5)
    with descriptor("f", os.O_RDONLY) as fd:
        log("allocate read-only", fallocate, fd, 0, 0, 10)
    with descriptor("sparse", os.O_RDWR | os.O_CREAT) as fd:
        os.pwrite(fd, b"a" * 65_536, 131_072)
        os.ftruncate(fd, 1 << 20)
        os.fsync(fd)
        for offset in (0, 1, 131_072, 150_000, 196_607, 196_608, 500_000, (1 << 20) - 1, 1 << 20, 1 << 21):
            log(f"data from {offset}", os.lseek, fd, offset, os.SEEK_DATA)
            log(f"hole from {offset}", os.lseek, fd, offset, os.SEEK_HOLE)
    put("empty")
    with descriptor("empty", os.O_RDONLY) as fd:
        log("data of an empty file", os.lseek, fd, 0, os.SEEK_DATA)
        log("hole of an empty file", os.lseek, fd, 0, os.SEEK_HOLE)


def statfs():
    s = os.statvfs(".")
    log("statfs name length", lambda: s.f_namemax)
    log("statfs is sane", lambda: (s.f_blocks > 0, s.f_bfree <= s.f_blocks, s.f_files > 0, s.f_ffree <= s.f_files))
    log("statfs bytes", lambda: round(s.f_blocks * s.f_frsize / (1 << 20), -1))     # the client rounds to its block size
    before = os.statvfs(".").f_bfree * s.f_frsize
    with descriptor("eater", os.O_RDWR | os.O_CREAT) as fd:
        os.pwrite(fd, os.urandom(1 << 20) * 8, 0)
        os.fsync(fd)
    after = os.statvfs(".")
    log("8 MiB are gone", lambda: 8 <= (before - after.f_bfree * after.f_frsize) >> 20 <= 9)


def xattrs():
    put("f", b"x")
    log("list none", os.listxattr, "f")
    log("get missing", os.getxattr, "f", "user.none")
    log("set", os.setxattr, "f", "user.a", b"value")
    log("get", os.getxattr, "f", "user.a")
    log("create existing", os.setxattr, "f", "user.a", b"x", os.XATTR_CREATE)
    log("replace missing", os.setxattr, "f", "user.b", b"x", os.XATTR_REPLACE)
    log("replace", os.setxattr, "f", "user.a", b"other\0bytes\xff", os.XATTR_REPLACE)
    log("get replaced", os.getxattr, "f", "user.a")
    log("empty value", os.setxattr, "f", "user.empty", b"")
    log("get empty", os.getxattr, "f", "user.empty")
    log("2000 bytes", os.setxattr, "f", "user.big", b"B" * 2000)
    log("get 2000", lambda: len(os.getxattr("f", "user.big")))
    log("over 64 KiB", os.setxattr, "f", "user.huge", b"H" * 65537)
    log("long name", os.setxattr, "f", "user." + "n" * 250, b"x")
    log("too long name", os.setxattr, "f", "user." + "n" * 251, b"x")
    log("list", lambda: sorted(n for n in os.listxattr("f") if n.startswith("user.")))
    log("remove", os.removexattr, "f", "user.a")
    log("remove again", os.removexattr, "f", "user.a")
    os.mkdir("d")
    log("on a folder", os.setxattr, "d", "user.d", b"folder")
    log("of a folder", os.getxattr, "d", "user.d")
    os.symlink("f", "s")
    log("on a symlink", os.setxattr, "s", "user.s", b"x", follow_symlinks=False)
    for number in range(20):
        os_setxattr_quietly("f", f"user.many{number:02}", b"m" * 20)
    log("list many", lambda: hash_of("".join(sorted(n for n in os.listxattr("f") if n.startswith("user."))).encode()))
    os.chmod("f", 0o644)
    as_user(BOB, BOB, [], lambda: (log("other user reads", os.getxattr, "f", "user.empty"),
                                   log("other user sets", os.setxattr, "f", "user.bob", b"x")))


def os_setxattr_quietly(path, name, value):
    with contextlib.suppress(OSError):
        os.setxattr(path, name, value)


def acl(*entries):
    """The bytes of system.posix_acl_access: version 2, then (tag, permissions, id) (acl(5))."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, bits, number & 0xffffffff) for tag, bits, number in entries)


def acls():
    user_obj, user, group_obj, group, mask, other = 0x01, 0x02, 0x04, 0x08, 0x10, 0x20
    full = acl((user_obj, 6, -1), (user, 4, ALICE), (user, 0, CAROL), (group_obj, 0, -1), (group, 6, TEAM), (mask, 6, -1),
               (other, 0, -1))
    put("f", b"acl")
    log("acl none", os.getxattr, "f", "system.posix_acl_access")
    log("acl set", os.setxattr, "f", "system.posix_acl_access", full)
    log("acl get", os.getxattr, "f", "system.posix_acl_access")
    log("acl mode", look, "f")
    for uid, groups in ((ALICE, []), (CAROL, []), (BOB, []), (BOB, [TEAM])):
        as_user(uid, uid, groups, lambda uid=uid, groups=groups: (
            log(f"acl read by {uid} {groups}", get, "f"),
            log(f"acl write by {uid} {groups}", put, "f", b"acl")))
    os.chmod("f", 0o640)
    log("acl after chmod", os.getxattr, "f", "system.posix_acl_access")
    os.mkdir("d")
    log("acl default", os.setxattr, "d", "system.posix_acl_default", full)
    log("acl default get", os.getxattr, "d", "system.posix_acl_default")
    put("d/child", b"c", 0o666)
    os.mkdir("d/sub")
    log("acl inherited", os.getxattr, "d/child", "system.posix_acl_access")
    log("acl inherited mode", look, "d/child")
    log("acl inherited by a folder", os.getxattr, "d/sub", "system.posix_acl_default")
    log("acl default on a file", os.setxattr, "f", "system.posix_acl_default", full)
    log("acl broken", os.setxattr, "f", "system.posix_acl_access", acl((user_obj, 6, -1), (user, 4, ALICE)))
    log("acl removed", os.removexattr, "f", "system.posix_acl_access")
    log("acl gone", os.getxattr, "f", "system.posix_acl_access")


def names():
    for label, name in (("of 255 bytes", b"n" * 255), ("of 256 bytes", b"n" * 256), ("of 255 bytes in UTF-8", "ä".encode() * 127 + b"x"),
                        ("invalid UTF-8", b"\xff\xfe\x80"), ("overlong UTF-8", b"\xc0\xaf"), ("surrogate", b"\xed\xa0\x80"),
                        ("blank", b" "), ("blanks around", b"  x  "), ("newline", b"a\nb"),
                        ("leading dash", b"-rf"), ("backslash", b"a\\b"), ("three dots", b"..."), ("control", b"\x01\x7f"),
                        ("star", b"*?[]"), ("nfs silly", b".nfs0001"), ("percent", b"%s%n"), ("colon", b"a:b")):
        log(f"create {label}", put, name, label.encode())
        log(f"read {label}", get, name)
        log(f"mkdir {label}", os.mkdir, b"d" + name[1:] if len(name) > 250 else b"d" + name)
        log(f"look up missing {label}", look, b"m" + name[1:])
        log(f"rename {label}", os.rename, name, b"r" + name[1:])
        log(f"symlink {label}", os.symlink, b"x", name)
        log(f"link {label}", os.link, name, b"h" + name[1:], follow_symlinks=False)
        log(f"unlink {label}", os.unlink, name)
        log(f"rmdir {label}", os.rmdir, b"d" + name[1:] if len(name) > 250 else b"d" + name)
    log("all names", lambda: sorted(os.listdir(b".")))
    log("case matters", lambda: (put("case"), put("CASE"), len([n for n in os.listdir(".") if n.lower() == "case"]))[2])


def _lock(fd, kind, start, length, wait=False):
    fcntl.lockf(fd, kind | (0 if wait else fcntl.LOCK_NB), length, start)
    return "locked"


def _who_locks(fd, kind, start, length):
    request = struct.pack("hhqqi", kind, 0, start, length, 0)
    found = struct.unpack("hhqqi", fcntl.fcntl(fd, fcntl.F_GETLK, request))
    return found[:4] if found[0] != fcntl.F_UNLCK else "free"


def locks():
    put("f", b"lock me")
    with descriptor("f") as fd:
        log("exclusive", _lock, fd, fcntl.LOCK_EX, 10, 20)

        def other():
            with descriptor("f") as mine:
                log("conflict", _lock, mine, fcntl.LOCK_EX, 15, 1)
                log("conflict shared", _lock, mine, fcntl.LOCK_SH, 29, 1)
                log("just before", _lock, mine, fcntl.LOCK_EX, 0, 10)
                log("just behind", _lock, mine, fcntl.LOCK_EX, 30, 0)
                log("who", _who_locks, mine, fcntl.F_WRLCK, 0, 0)
                log("who elsewhere", _who_locks, mine, fcntl.F_WRLCK, 5, 2)
        os.chmod("f", 0o666)
        as_user(ALICE, ALICE, [], other)
        log("after the other's end", _lock, fd, fcntl.LOCK_EX, 0, 0)
        log("unlock the middle", fcntl.lockf, fd, fcntl.LOCK_UN, 10, 15)

        def middle():
            with descriptor("f") as mine:
                log("the middle", _lock, mine, fcntl.LOCK_EX, 15, 10)
                log("left of it", _lock, mine, fcntl.LOCK_EX, 14, 1)
                log("right of it", _lock, mine, fcntl.LOCK_SH, 25, 1)
        as_user(BOB, BOB, [], middle)
        log("downgrade", _lock, fd, fcntl.LOCK_SH, 0, 0)

        def shared():
            with descriptor("f") as mine:
                log("shared with shared", _lock, mine, fcntl.LOCK_SH, 0, 5)
                log("exclusive with shared", _lock, mine, fcntl.LOCK_EX, 0, 5)
                log("who shares", _who_locks, mine, fcntl.F_WRLCK, 0, 1)
        as_user(BOB, BOB, [], shared)
        log("unlock", fcntl.lockf, fd, fcntl.LOCK_UN, 0, 0)
        log("at the end of offsets", _lock, fd, fcntl.LOCK_EX, 10, (1 << 63) - 1 - 10 - (1 << 62))
    with descriptor("f", os.O_RDONLY) as fd:
        log("exclusive on read-only", _lock, fd, fcntl.LOCK_EX, 0, 1)
        log("shared on read-only", _lock, fd, fcntl.LOCK_SH, 0, 1)
    with descriptor("f") as one, descriptor("f") as two:
        log("flock", fcntl.flock, one, fcntl.LOCK_EX | fcntl.LOCK_NB)
        log("flock conflict", fcntl.flock, two, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(one, fcntl.LOCK_UN)
        log("flock after unlock", fcntl.flock, two, fcntl.LOCK_SH | fcntl.LOCK_NB)


def permissions():
    for owner in ((ALICE, STAFF), (BOB, TEAM), (0, 0)):
        for mode in (0o000, 0o400, 0o200, 0o600, 0o040, 0o020, 0o060, 0o004, 0o002, 0o006, 0o644, 0o464, 0o066, 0o606, 0o660):
            name = f"f{owner[0]}-{mode:o}"
            put(name, b"data")
            os.chown(name, *owner)
            os.chmod(name, mode)
    everybody = sorted(os.listdir("."))
    for uid, gid, groups in ((0, 0, [0]), (ALICE, ALICE, []), (ALICE, ALICE, [STAFF]), (CAROL, TEAM, []), (CAROL, CAROL, [STAFF, TEAM]),
                             (CAROL, CAROL, list(range(5000, 5014)) + [TEAM])):
        def attempt(uid=uid, groups=groups):
            for name in everybody:
                log(f"{uid} {groups[-2:]} reads {name}", get, name)
                log(f"{uid} {groups[-2:]} writes {name}", put, name, b"data")
                log(f"{uid} {groups[-2:]} access {name}", lambda name=name: [os.access(name, m) for m in (4, 2, 1)])
        as_user(uid, gid, groups, attempt)


def folder_permissions():
    for mode in (0o000, 0o100, 0o200, 0o300, 0o400, 0o500, 0o700, 0o070, 0o007):
        name = f"d{mode:o}"
        os.mkdir(name)
        put(f"{name}/in", b"inside", 0o666)
        os.chown(name, ALICE, STAFF)
        os.chmod(name, mode)
    for uid, gid, groups in ((ALICE, ALICE, []), (BOB, STAFF, []), (CAROL, CAROL, []), (0, 0, [])):
        def attempt(uid=uid):
            for name in sorted(n for n in os.listdir(".") if n.startswith("d")):
                log(f"{uid} lists {name}", os.listdir, name)
                log(f"{uid} looks in {name}", look, f"{name}/in")
                log(f"{uid} reads in {name}", get, f"{name}/in")
                log(f"{uid} creates in {name}", put, f"{name}/new{uid}", b"n", 0o600)
                log(f"{uid} removes in {name}", os.unlink, f"{name}/new{uid}")
                log(f"{uid} mkdir in {name}", os.mkdir, f"{name}/sub{uid}")
                log(f"{uid} rmdir in {name}", os.rmdir, f"{name}/sub{uid}")
        as_user(uid, gid, groups, attempt)


def setgid_and_sticky():
    os.mkdir("team")
    os.chown("team", ALICE, TEAM)
    os.chmod("team", 0o2777)
    os.mkdir("sticky")
    os.chmod("sticky", 0o1777)

    def creator():
        os.umask(0)
        log("file in a setgid folder", put, "team/file", b"x", 0o664)
        log("look file in a setgid folder", look, "team/file")
        log("folder in a setgid folder", os.mkdir, "team/folder", 0o755)
        log("look folder in a setgid folder", look, "team/folder")
        log("symlink in a setgid folder", os.symlink, "x", "team/symlink")
        log("look symlink in a setgid folder", look, "team/symlink")
        log("fifo in a setgid folder", os.mkfifo, "team/fifo", 0o644)
        log("look fifo in a setgid folder", look, "team/fifo")
        log("setgid file of an alien group", put, "team/sgid", b"x", 0o2775)
        log("look setgid file of an alien group", look, "team/sgid")
        log("create in sticky", put, "sticky/bobs", b"bob", 0o666)
        log("mkdir in sticky", os.mkdir, "sticky/bobdir")
    as_user(BOB, BOB, [], creator)

    def stranger():
        log("write into sticky", put, "sticky/bobs", b"new")
        log("unlink in sticky", os.unlink, "sticky/bobs")
        log("rename in sticky", os.rename, "sticky/bobs", "sticky/mine")
        log("rmdir in sticky", os.rmdir, "sticky/bobdir")
        put("sticky/carols")
        log("rename over in sticky", os.rename, "sticky/carols", "sticky/bobs")
    as_user(CAROL, CAROL, [], stranger)
    as_user(BOB, BOB, [], lambda: log("owner unlinks in sticky", os.unlink, "sticky/bobs"))
    as_user(0, 0, [], lambda: log("root unlinks in sticky", os.rmdir, "sticky/bobdir"))


def ownership():
    put("alices", b"alice")
    os.chown("alices", ALICE, STAFF)
    os.chmod("alices", 0o666)

    def owner():
        log("owner chmod", os.chmod, "alices", 0o6775)
        log("look owner chmod", look, "alices")
        log("owner gives away", os.chown, "alices", BOB, -1)
        log("owner chgrp to own group", os.chown, "alices", -1, STAFF)
        log("owner chgrp to alien group", os.chown, "alices", -1, TEAM)
        log("look owner chgrp", look, "alices")
        log("owner utime", os.utime, "alices", ns=(1_000_000_001, 2_000_000_002))
        log("owner times", times, "alices")
        os.chmod("alices", 0o4777)
        log("owner device", os.mknod, "device", stat.S_IFCHR | 0o600, os.makedev(1, 3))
        log("owner fifo", os.mkfifo, "afifo")
    as_user(ALICE, ALICE, [STAFF], owner)

    def other():
        log("other chmod", os.chmod, "alices", 0o600)
        log("other chown", os.chown, "alices", CAROL, -1)
        log("other utime", os.utime, "alices", ns=(5, 5))
        log("other touch", lambda: os.utime("alices"))
        log("other truncate", os.truncate, "alices", 2)
        log("other writes to suid", put, "alices", b"zz")
        log("look suid after another's write", look, "alices")
        log("other links", os.link, "alices", "linked")
    as_user(CAROL, CAROL, [], other)

    def not_member():
        log("chmod setgid outside the group", os.chmod, "outside", 0o2775)
        log("look setgid outside the group", look, "outside")
    put("outside")
    os.chown("outside", ALICE, TEAM)
    as_user(ALICE, ALICE, [], not_member)
    os.chmod("alices", 0o444)

    def read_only():
        log("owner writes a read-only file", put, "alices", b"q")
        log("owner truncates a read-only file", os.truncate, "alices", 0)
        log("owner creates a read-only file and writes it", put, "fresh", b"written", 0o444, os.O_EXCL)
        log("look fresh", look, "fresh")
        with descriptor("fresh", os.O_RDONLY) as fd:
            os.fchmod(fd, 0)
            log("read after losing permission", os.pread, fd, 10, 0)
    as_user(ALICE, ALICE, [STAFF], read_only)

    def execute_only():
        log("read an execute-only file", get, "program")
    put("program", b"#!/bin/sh\n", 0o111)
    os.chmod("program", 0o111)
    as_user(BOB, BOB, [], execute_only)


SECTIONS = (creating, folders, special_files, links, renaming, attributes, data, space, statfs, xattrs, acls, names, locks,
            permissions, folder_permissions, setgid_and_sticky, ownership)


def main():
    root = os.path.abspath(sys.argv[1])
    wanted = sys.argv[2:]
    for function in SECTIONS:
        if wanted and function.__name__ not in wanted:
            continue
        os.chdir(root)
        section(function.__name__)
        print(f"# {function.__name__}", flush=True)
        function()


if __name__ == "__main__":
    main()
