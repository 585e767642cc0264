"""The connection is cut in the middle of transfers, again and again: clients go on, no byte is wrong, and the server gives back
queue pairs, memory regions and memory."""
import os
import time

from guest import rdma, trees
from guest.backing import Backing
from guest.load import Reader, Writer, progress
from guest.mounts import Mount
from guest.servers import make_server
from guest.suite import Skip, Suite, expect

SETTLE = 120                                        # seconds for the server to give a dead connection's resources back
RSS_GROWTH = 96 << 20                               # bytes allowed above the level after warm-up


def cut_under_load(server, version, protocol, cuts):
    with Mount(server, version, protocol) as mount:
        size = 24 << 20
        data = os.path.join(mount.path, "data")
        trees.write_file(data, "disconnect", size)
        reader = Reader(data, "disconnect", size).start()
        writer = Writer(os.path.join(mount.path, "records"), 300_000).start()
        small = Writer(os.path.join(mount.path, "small"), 700).start()
        progress(reader.rounds, 120, "the reader before any cut")
        progress(writer.acknowledged, 120, "the writer before any cut")
        done = 0
        while done < cuts:
            folders = rdma.transports(protocol)
            if not folders:
                raise Skip(f"this kernel shows no {protocol} transport in {rdma.TRANSPORTS}")
            for folder in folders:
                rdma.cut(folder)
                done += 1
            if done % 10 == 0:
                progress(writer.acknowledged, 240, f"the writer after {done} cuts")
                if done % 100 == 0:
                    print(f"     {done} cuts", flush=True)
            else:
                time.sleep(0.03 * (done % 7))       # another place in the transfer each time
        progress(reader.rounds, 240, f"the reader after {cuts} cuts")
        progress(small.acknowledged, 240, f"small writes after {cuts} cuts")
        if protocol == "rdma" and hasattr(server, "rss"):
            held = rdma.resources()
            expect(held["qp"] and held["mr"], f"a gateway with a client holds {held}: what it holds is not seen")
        for worker in (reader, writer, small):
            worker.stop()
        mount.remount()
        for worker in (writer, small):
            worker.verify()
        expect(trees.hash_file(data) == trees.write_file("/dev/shm/check", "disconnect", size), "the data file has other bytes")


def resources_return(server, cuts):
    """After the cuts and an unmount the server holds what it held after its first client had left."""
    if not hasattr(server, "rss"):
        raise Skip("knfsd is no process")
    cut_under_load(server, "4.1", "rdma", 5)        # warm-up: pools and caches reach their size
    before = settled(None)
    rss = server.rss()
    for version in ("3", "4.2"):
        cut_under_load(server, version, "rdma", cuts // 2)
    after = settled(before)
    expect(after == before, f"after {cuts} disconnects the server holds {after}, before {before}")
    expect(server.rss() <= rss + RSS_GROWTH, f"RSS grew from {rss >> 20} to {server.rss() >> 20} MB")
    print(f"     {cuts} disconnects: {before} before, {after} after; RSS {rss >> 20} to {server.rss() >> 20} MB", flush=True)


def settled(wanted):
    """The gateway's resources when they equal `wanted`, or (None) when they stay the same for 5 s; the last ones on time-out."""
    last, since, end = None, time.monotonic(), time.monotonic() + SETTLE
    while time.monotonic() < end:
        now = rdma.resources()
        if wanted is not None and now == wanted:
            return now
        if now != last:
            last, since = now, time.monotonic()
        elif wanted is None and time.monotonic() - since > 5:
            return now
        time.sleep(0.5)
    return last


def mount_cycles(server, cycles):
    """Mounts, reads and unmounts; what the server holds does not grow with the number of mounts."""
    def cycle(number):
        version = ("3", "4.0", "4.1", "4.2")[number % 4]
        with Mount(server, version, "rdma", path="/mnt/cycle") as mount:
            path = os.path.join(mount.path, f"cycle{number % 8}")
            trees.write_file(path, number, 70_000)
            expect(os.path.getsize(path) == 70_000, "size")
    for number in range(8):
        cycle(number)
    if not hasattr(server, "rss"):
        raise Skip("knfsd is no process")
    before, rss = settled(None), server.rss()
    for number in range(cycles):
        cycle(number)
        if number % 100 == 99:
            print(f"     {number + 1} mounts: {rdma.resources()}, RSS {server.rss() >> 20} MB", flush=True)
    after = settled(before)
    expect(after == before, f"after {cycles} mounts the server holds {after}, before {before}")
    expect(server.rss() <= rss + RSS_GROWTH, f"RSS grew from {rss >> 20} to {server.rss() >> 20} MB in {cycles} mounts")
    print(f"     {cycles} mounts: {before} before, {after} after; RSS {rss >> 20} to {server.rss() >> 20} MB", flush=True)


def run(options):
    backing = Backing(options.backing, size_mb=512)
    server = make_server(options.server, backing.path).start()
    suite = Suite(options.only)
    if "tcp" in options.protocols:
        for version in options.versions:
            suite.case(f"cut v{version} tcp", cut_under_load, server, version, "tcp", 200 if options.long else 10)
    if "rdma" in options.protocols:
        for version in options.versions:
            suite.case(f"cut v{version} rdma", cut_under_load, server, version, "rdma", 20 if options.long else 10)
        suite.case("resources after disconnects", resources_return, server, 1000 if options.long else 10)
        suite.case("resources after mounts", mount_cycles, server, 1000 if options.long else 12)
    suite.case("stop", server.stop)
    suite.finish()
