"""Squashed and unknown users and many groups: the same script gives the same results as on the kernel's own server."""
import os
import re
import shutil
import subprocess
import sys

from guest import recorder
from guest.backing import Backing
from guest.recorder import as_user, get, log, look, put
from guest.mounts import Mount
from guest.servers import make_server
from guest.suite import Suite

UNKNOWN = 700123                                    # no such user or group anywhere
MANY = list(range(6000, 6032))                      # 32 supplementary groups; AUTH_SYS carries the first 16
EDGES = [MANY[n] for n in (0, 15, 16, 31)]          # those that have a file each


def prepare(folder):
    """On the backing file system itself, before any server runs."""
    os.makedirs(folder)
    os.chmod(folder, 0o777)
    os.chdir(folder)
    for name, uid, gid, mode in (("roots", 0, 0, 0o600), ("roots-group", 0, 0, 0o060), ("all", 0, 0, 0o666), ("nobodys", 65534, 65534, 0o600),
                                 ("unknowns", UNKNOWN, UNKNOWN, 0o600), ("alices", recorder.ALICE, recorder.STAFF, 0o640),
                                 *((f"group{n}", 0, n, 0o060) for n in (*EDGES, UNKNOWN))):
        put(name, name.encode())
        os.chown(name, uid, gid)
        os.chmod(name, mode)
    for name, mode in (("open", 0o777), ("closed", 0o755), ("sticky", 0o1777), ("setgid", 0o2777)):
        os.mkdir(name)
        os.chmod(name, mode)
    os.chown("setgid", 0, MANY[3])
    put("sticky/roots", b"r")


def script(folder):
    """Logs what each user may do."""
    os.chdir(folder)
    names = sorted(n for n in os.listdir(".") if os.path.isfile(n))
    for who, uid, gid, groups in (("root", 0, 0, [0]), ("unknown", UNKNOWN, UNKNOWN, []), ("alice", recorder.ALICE, recorder.ALICE, [recorder.STAFF]),
                                  ("nobody", 65534, 65534, []), ("16 groups", recorder.BOB, recorder.BOB, MANY[:16]),
                                  ("32 groups", recorder.CAROL, recorder.CAROL, MANY),
                                  ("root's group", recorder.BOB, 0, [])):
        as_user(uid, gid, groups, attempt, who, names)


def attempt(who, names):
    for name in names:
        log(f"{who} reads {name}", get, name)
        log(f"{who} writes {name}", put, name, name.encode())
    for place in ("open", "closed", "sticky", "setgid"):
        mine = f"{place}/{who}"
        log(f"{who} creates in {place}", put, mine, b"x", 0o644)
        log(f"{who} looks at it in {place}", look, mine)
        log(f"{who} mkdir in {place}", os.mkdir, mine + "-d")
        log(f"{who} looks at the folder in {place}", look, mine + "-d")
        log(f"{who} symlinks in {place}", os.symlink, "x", mine + "-s")
        log(f"{who} looks at the symlink in {place}", look, mine + "-s")
        log(f"{who} gives it away in {place}", os.chown, mine, 12345, -1)
        log(f"{who} changes the group in {place}", os.chown, mine, -1, MANY[1])
        log(f"{who} chmods in {place}", os.chmod, mine, 0o2755)
        log(f"{who} looks again in {place}", look, mine)
    log(f"{who} removes root's in sticky", os.unlink, "sticky/roots")
    log(f"{who} device", os.mknod, f"open/{who}-device", 0o020666, os.makedev(1, 3))
    log(f"{who} chowns root's", os.chown, "all", 12345, -1)
    log(f"{who} utimes root's", os.utime, "all", ns=(1, 1_000_000_000_000_000_001))


def results(server_kind, backing, squash, version, protocol):
    """The log of the script on a fresh folder."""
    folder = os.path.join(backing.path, "identity")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; "
                    f"from cases import identity; identity.prepare({folder!r})"], check=True)
    with Mount(server_kind, version, protocol) as mount:
        done = subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; "
                               f"from cases import identity; identity.script({os.path.join(mount.path, 'identity')!r})"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, errors="replace")
    if done.returncode != 0:
        raise AssertionError(f"the script ended with {done.returncode} ({squash}, v{version}): {done.stdout[-1500:]}")
    return dict(re.match(r"(.*?) ([=!] .*)$", line).groups() for line in done.stdout.splitlines())


def compare(ours, theirs):
    if ours is None or theirs is None:
        raise AssertionError("one of the two servers gave no results, see above")
    wrong = [f"{key}: knfsd {theirs.get(key, '(no line)')}; ours {ours.get(key, '(no line)')}"
             for key in dict.fromkeys([*theirs, *ours]) if ours.get(key) != theirs.get(key)]
    if wrong:
        raise AssertionError(f"{len(wrong)} of {len(theirs)} results differ:\n  " + "\n  ".join(wrong))


def run(options):
    backing = Backing(options.backing, size_mb=256)
    suite = Suite(options.only)
    runs = [(squash, version, protocol) for squash in ("no_root_squash", "root_squash", "all_squash")
            for version, protocol in (("3", "tcp"), ("4.2", "rdma")) if version in options.versions and protocol in options.protocols]
    logs = {}
    for kind in (options.server, "knfsd"):
        for squash in dict.fromkeys(squash for squash, _, _ in runs):
            server = make_server(kind, backing.path, squash,
                                 export_options={"Anonymous_Uid": 65534, "Anonymous_Gid": 65534}).start()
            for key in [key for key in runs if key[0] == squash]:
                def collect(key=key, kind=kind, server=server):
                    logs[kind, key] = results(server, backing, *key)
                suite.case(f"{key[0]} v{key[1]} {key[2]} on {kind}", collect)
            suite.case(f"stop of {kind} with {squash}", server.stop)
    for key in runs:
        suite.case(f"{key[0]} v{key[1]} {key[2]} as knfsd does", compare, logs.get((options.server, key)), logs.get(("knfsd", key)))
    suite.finish()
