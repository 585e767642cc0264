"""A machine that mounts its own gateway, with write-back, while memory is short: what the kernel writes out to the gateway must
not wait for memory that comes free only by that. Jobs run in a control group with a memory limit far below what they write, and
the machine is left with little beside them."""
import hashlib
import mmap
import multiprocessing
import os
import re

from guest.backing import Backing
from guest.mounts import Mount
from guest.servers import make_server
from guest.shell import PATIENCE, run as command
from guest.suite import Suite, expect, expect_equal

MIB = 1 << 20
GROUPS = "/sys/fs/cgroup"
JOB = os.path.join(GROUPS, "job")
LIMIT, SIZE, SPARE = 48 * MIB, 160 * MIB, 160 * MIB
CONTEXT = multiprocessing.get_context("fork")
RULES = "  paths:\n    - /**\n  max_dirty: 64MiB\nnode:\n  self_mounted: true"


def make_group():
    if not os.path.exists(os.path.join(GROUPS, "cgroup.controllers")):
        os.makedirs(GROUPS, exist_ok=True)
        command("mount", "-t", "cgroup2", "none", GROUPS)
    with open(os.path.join(GROUPS, "cgroup.subtree_control"), "w", encoding="ascii") as control:
        control.write("+memory")
    os.makedirs(JOB, exist_ok=True)
    with open(os.path.join(JOB, "memory.max"), "w", encoding="ascii") as limit:
        limit.write(str(LIMIT))


def block(seed, number):
    return hashlib.sha256(b"%d %d" % (seed, number)).digest() * (MIB // 32)


def job(path, seed, result):
    """Three times as much as it may have in memory, written, synced and read back."""
    with open(os.path.join(JOB, "cgroup.procs"), "w", encoding="ascii") as procs:
        procs.write(str(os.getpid()))
    with open(path, "wb") as file:
        for number in range(SIZE // MIB):
            file.write(block(seed, number))
        file.flush()
        os.fsync(file.fileno())
    with open(path, "rb") as file:
        right = all(file.read(MIB) == block(seed, number) for number in range(SIZE // MIB))
    result.value = 1 if right else 2


def hog(held, ready, go):
    """Takes all of the machine's memory but a little, and keeps it."""
    with open("/proc/meminfo", encoding="ascii") as info:
        available = int(re.search(r"MemAvailable:\s+(\d+) kB", info.read())[1]) * 1024
    memory = mmap.mmap(-1, max(MIB, available - SPARE),
                       flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)
    held.value = len(memory)
    ready.set()
    go.wait()


def read_or_why(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        return f"({error})\n"


def show_stacks(pids):
    """What each thread of the processes waits for, and how much memory there is: where a deadlock stands."""
    for pid in pids:
        for task in sorted(os.listdir(f"/proc/{pid}/task"), key=int) if os.path.exists(f"/proc/{pid}") else []:
            base = f"/proc/{pid}/task/{task}"
            print(f"-- {pid}/{task} {read_or_why(base + '/comm').strip()}\n{read_or_why(base + '/stack')}", end="", flush=True)
    names = ("MemFree", "MemAvailable", "Dirty", "Writeback:", "NFS_Unstable", "Mlocked", "Shmem:")
    print("".join(line for line in read_or_why("/proc/meminfo").splitlines(True) if line.startswith(names)), end="", flush=True)


def save_under_pressure(server, backing):
    make_group()
    # The images lie in memory: what they grow by would not be the jobs'.
    for image, size in ((backing.image, 600), (server.disk.image, 256)):
        command("fallocate", "-l", f"{size}M", image)
    held, ready, go = CONTEXT.Value("q", 0), CONTEXT.Event(), CONTEXT.Event()
    presses = CONTEXT.Process(target=hog, args=(held, ready, go), daemon=True)
    with Mount(server, "4.2", "tcp") as mount:
        presses.start()
        expect(ready.wait(120 * PATIENCE), "the memory was not taken in time")
        print(f"{held.value // MIB} MiB are taken, {SPARE // MIB} left", flush=True)
        results = [CONTEXT.Value("i", 0) for _ in range(2)]
        jobs = [CONTEXT.Process(target=job, args=(os.path.join(mount.path, f"save{seed}"), seed, result), daemon=True)
                for seed, result in enumerate(results)]
        for one in jobs:
            one.start()
        for one in jobs:
            one.join(200 * PATIENCE)
        if any(one.is_alive() for one in jobs):
            show_stacks([server.pid, presses.pid, *(one.pid for one in jobs)])
        go.set()
        presses.join(60)
        expect_equal([result.value for result in results], [1, 1], "jobs that ended with their bytes right (1)")
    server.drain()
    for seed in range(2):
        with open(os.path.join(backing.path, f"save{seed}"), "rb") as file:
            expect(all(file.read(MIB) == block(seed, number) for number in range(SIZE // MIB)), "other bytes at the backing store")


def locked(server):
    with open(f"/proc/{server.pid}/status", encoding="ascii") as status:
        kib = int(re.search(r"VmLck:\s+(\d+) kB", status.read())[1])
    expect(kib > 10_000, f"{kib} KiB of the gateway's memory are locked")


def run(options):
    backing = Backing(options.backing, size_mb=600)
    suite = Suite(options.only)
    server = make_server(options.server, backing.path, burst_buffer=True, write_back=RULES).start()
    suite.case("the gateway's memory is locked", locked, server)
    suite.case("jobs save while memory is short", save_under_pressure, server, backing)
    suite.case("stop", server.stop)
    suite.finish()
