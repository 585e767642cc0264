"""Compares a server with a local file system: fileops.py runs in both, the logs must agree but for what NFS itself cannot do."""
import os
import re
import shutil
import subprocess
import sys

FILEOPS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fileops.py")

# Lines that differ from a local file system by the protocol or by the Linux client, as the kernel's own server shows them
# too: (versions, section, name as a regular expression, the result over NFS as a regular expression).
ANY = ("3", "4.0", "4.1", "4.2")
BEFORE_42 = ("3", "4.0", "4.1")
V4 = ("4.0", "4.1", "4.2")
NOT_SUPPORTED = "! ENOTSUP"
DIFFERENCES = (
    # The client keeps an unlinked open file under another name ("silly rename").
    (ANY, "renaming", "its links", "= 1"),
    (ANY, "data", "links after unlink", "= 1"),
    # The 6.1 client sends a time of second 0 to a v3 server without its nanoseconds.
    (("3",), "attributes", "times (999999999|of a folder)", r"= \(0, 0\)"),
    # ALLOCATE, DEALLOCATE, SEEK and xattrs came with v4.2 (RFC 7862, RFC 8276); the client answers for the versions before.
    (ANY, "space", "allocate keep size|collapse|zero range", NOT_SUPPORTED),
    (BEFORE_42, "space", "allocate|allocate keeps bytes|punch.*", NOT_SUPPORTED),
    (BEFORE_42, "space", "look allocated", "= '-rw-r--r-- 644 0:0 size 0 links 1 '"),
    (BEFORE_42, "space", "blocks are there", "= False"),
    (BEFORE_42, "space", "look (grown|kept|after punches)", "= '-rw-r--r-- 644 0:0 size 300000 links 1 '"),
    (BEFORE_42, "space", "hole reads zeros", r"= \{120\}"),
    (BEFORE_42, "space", "unaligned hole", "= b'x{40}'"),
    (BEFORE_42, "space", r"data from (0|1|196608|500000|1048575)", r"= \d+"),
    (BEFORE_42, "space", r"hole from \d+", "= 1048576"),
    (V4, "xattrs", "list none", r"= \['system.nfs4_acl'\]"),
    (BEFORE_42, "xattrs", "list", r"= \[\]"),
    (BEFORE_42, "xattrs", "list many", "= 0"),
    (BEFORE_42, "xattrs", "(?!list).*", NOT_SUPPORTED),
    # The client has POSIX ACLs over v3 only (NFSACL), so over v4 none is set and the mode alone decides.
    (V4, "acls", "acl (none|set|get|after chmod|default.*|inherited|inherited by a folder|broken|removed|gone)", NOT_SUPPORTED),
    (V4, "acls", "acl (mode|inherited mode)", r"= '-rw-r--r-- 644 0:0 size \d links 1 '"),
    (V4, "acls", r"acl read by (2003|2002) \[\]", "= b'acl'"),
    (V4, "acls", r"acl write by 2002 \[3002\]", "! EACCES"),
)


def fileops_log(folder, sections=()):
    """{(section, name): result} of a run of fileops.py in an empty folder that is removed afterwards."""
    os.makedirs(folder)
    os.chmod(folder, 0o777)
    try:
        done = subprocess.run([sys.executable, FILEOPS, folder, *sections], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="surrogateescape", timeout=600, stdin=subprocess.DEVNULL)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if done.returncode != 0:
        raise AssertionError(f"fileops in {folder} ended with {done.returncode}: {done.stdout[-2000:]}")
    results = {}
    section = ""
    for line in done.stdout.splitlines():
        if line.startswith("# "):
            section = line[2:]
            continue
        name, mark, result = re.match(r"(.*?) ([=!]) (.*)$", line).groups()
        results[section, name] = f"{mark} {result}"
    return results


def allowed(version, section, name, result):
    return any(version in versions and section == where and re.fullmatch(pattern, name) and re.fullmatch(outcome, result)
               for versions, where, pattern, outcome in DIFFERENCES)


def differences(local, remote, version):
    """Lines that differ without being allowed to."""
    wrong = []
    for key in dict.fromkeys([*local, *remote]):
        ours, theirs = remote.get(key, "(no line)"), local.get(key, "(no line)")
        if ours != theirs and not allowed(version, *key, ours):
            wrong.append(f"{key[0]}/{key[1]}: local {theirs}; over NFS {ours}")
    return wrong
