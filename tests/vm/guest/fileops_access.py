"""The parts of fileops.py about who may do what: permissions, owners, ACLs and locks."""
import fcntl
import os
import stat
import struct

from guest.recorder import ALICE, BOB, CAROL, STAFF, TEAM, as_user, descriptor, get, log, look, put, times


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
