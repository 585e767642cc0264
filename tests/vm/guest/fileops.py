#!/usr/bin/python3
"""Does every kind of file operation in one folder and logs each result (see recorder.py).

    fileops.py DIR [SECTION...]

Runs as root; parts of it run as ordinary users.
"""
import contextlib
import ctypes
import mmap
import os
import socket
import stat
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from guest.fileops_access import acls, folder_permissions, locks, ownership, permissions, setgid_and_sticky     # noqa: E402
from guest.recorder import (ALICE, BOB, FALLOC_COLLAPSE, FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE, FALLOC_ZERO, STAFF, TEAM,    # noqa: E402
                            as_user, descriptor, fallocate, get, hash_of, libc, log, look, opened, put, times)


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
