#!/usr/bin/python3
"""What RDMA connections cost the server, and what they leave behind. In the VM.

memory      several connections: the memory of each is bounded, and what one that moves data took comes back when it ends
shutdown    the server ends in bounded time with clients connected, and the clients find the next one
cycles N    N mounts, each with some data moved: memory, regions and queue pairs are as before
kills N     N connections whose client is killed: the same
"""
import os
import subprocess
import sys
import time

import guest

VERSIONS = "4.1", "3", "4.0", "4.2"                 # mounts of one version share a connection
MIB = 1 << 20


def settled(gateway, idle, seconds=120):
    """Waits until the process holds no more than `idle` of queue pairs and regions; returns what it holds."""
    end = time.monotonic() + seconds
    while True:
        now = guest.rdma_resources()
        if (now["qp"] <= idle["qp"] and now["mr"] <= idle["mr"]) or time.monotonic() > end:
            return now
        time.sleep(0.5)


def move(folder, name):
    """Writes and reads, so that buffers are used; FSAL MEM keeps 1 MiB of it."""
    (folder / name).write_bytes(os.urandom(MIB))
    subprocess.run(["dd", f"if={folder / name}", "of=/dev/null", "bs=1M", "iflag=direct", "status=none"], check=False)


def memory(gateway):
    folders = [guest.mount_point() for _ in VERSIONS]
    guest.mount(gateway, VERSIONS[0], folders[0])   # the first starts threads and caches
    before, before_qps = gateway.rss(), guest.rdma_resources()["qp"]
    for version, folder in zip(VERSIONS[1:], folders[1:]):
        guest.mount(gateway, version, folder)
    connections = guest.rdma_resources()["qp"] - before_qps
    assert connections >= len(VERSIONS) - 1, f"{len(VERSIONS) - 1} mounts made {connections} connections"
    each = (gateway.rss() - before) / connections
    print(f"memory: {connections} connections, {each / MIB:.1f} MiB each", flush=True)
    assert each < 24 * MIB, f"{each / MIB:.1f} MiB for each connection"
    for number, folder in enumerate(folders):
        move(folder, f"file{number}")
        guest.run("umount", folder)
    after = settled(gateway, {"qp": 0, "mr": 0})
    assert after["qp"] == 0 and after["mr"] == 0, f"{after} are left of connections that ended"


def shutdown(gateway):
    with guest.mounted(gateway, "4.1") as one, guest.mounted(gateway, "3") as two:
        move(one, "one")
        move(two, "two")
        start = time.monotonic()
        gateway.stop(90)
        print(f"shutdown: {time.monotonic() - start:.1f} s with two clients connected", flush=True)
        gateway.start()
        assert os.listdir(two) is not None


def unchanged(gateway, what, times, action):
    for number in range(min(times, 10)):            # caches fill, threads start
        action(number)
    settled(gateway, {"qp": 0, "mr": 0}, 60)
    before, before_rss = guest.rdma_resources(), gateway.rss()
    for number in range(times):
        action(number)
    after = settled(gateway, before)
    grown = gateway.rss() - before_rss
    print(f"{what}: {times} times: {before} -> {after}, memory {grown / MIB:+.1f} MiB", flush=True)
    if any(after[kind] > before[kind] for kind in ("qp", "mr", "cq")):
        # Soft-RoCE gives up on a queue pair whose end takes long, and keeps it: "Timed out waiting for qp".
        kernel = [line for line in guest.run("dmesg").splitlines() if "rxe" in line or "Timed out" in line]
        raise AssertionError("\n".join([f"{before} before and {after} after {times} {what}", *kernel[-10:]]))
    assert grown < 32 * MIB, f"{grown / MIB:.1f} MiB more after {times} {what}"


def cycles(gateway, times):
    def action(number):
        with guest.mounted(gateway, ("3", "4.0", "4.1", "4.2")[number % 4]) as folder:
            (folder / "file").write_bytes(os.urandom(200_000))
    unchanged(gateway, "cycles", times, action)


def kills(gateway, times):
    def action(_):
        before = guest.rdma_resources()["qp"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        client = subprocess.Popen(["rping", "-c", "-a", guest.ADDRESS, "-p", "20049", "-C", "1", "-S", "64"], **quiet)
        end = time.monotonic() + 20
        while guest.rdma_resources()["qp"] <= before and client.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        client.kill()
        client.wait()
    unchanged(gateway, "kills", times, action)


def main(name, *numbers):
    with guest.rdma_gateway() as gateway:
        globals()[name](gateway, *map(int, numbers))
        assert name == "shutdown" or gateway.alive()


if __name__ == "__main__":
    main(*sys.argv[1:])
