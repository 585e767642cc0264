#!/usr/bin/python3
"""Measures write-back: a checkpoint saved through NFS into a gateway's burst buffer, beside the same bytes written straight to the
disk that the buffer lies on, and how draining goes.

    bench_write_back.py [--mib 512] [--runs 5] [--json FILE]

- save: seconds until fsync returns, by four connections of libnfs, against O_DIRECT writes of 1 MiB and fsync on the same disk
- the same with the backing store slowed to a tenth of that disk
- drain: MiB/s of `fabricctl drain`, against pwrite and fsync of as many bytes in the backing folder
- a reader's step (32 reads of 1 MiB from the backing store) while a checkpoint is drained, against the step without

FABRIC_TEST_DIR names the disk; buffer and backing store both lie on it, which is the harder case: what is drained is read from, and
written to, the disk that the reader waits for. Medians; ours and the peer's in turn.
"""
import argparse
import ctypes
import json
import mmap
import os
import pathlib
import shutil
import statistics
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "lib"))
import gateway as gw                                # noqa: E402

MIB = 1 << 20
CONNECTIONS = 4
LIBNFS = ctypes.CDLL("libnfs.so.13", use_errno=True)
for name, result, arguments in (
        ("nfs_init_context", ctypes.c_void_p, []), ("nfs_get_error", ctypes.c_char_p, [ctypes.c_void_p]),
        ("nfs_parse_url_dir", ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]),
        ("nfs_mount", ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]),
        ("nfs_open", ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_void_p]),
        ("nfs_close", ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p]),
        ("nfs_fsync", ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p]),
        ("nfs_pwrite", ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p]),
        ("nfs_pread", ctypes.c_int, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_void_p])):
    function = getattr(LIBNFS, name)
    function.restype, function.argtypes = result, arguments


class Client:
    """One connection, v3. Calls leave Python's lock, so that several go on at once."""

    def __init__(self, gateway, export):
        self.context = LIBNFS.nfs_init_context()
        url = f"nfs://127.0.0.1{export}?version=3&nfsport={gateway.nfs_port}&mountport={gateway.mount_port}"
        LIBNFS.nfs_parse_url_dir(self.context, url.encode())
        self.need(LIBNFS.nfs_mount(self.context, b"127.0.0.1", export.encode()), "mount")

    def need(self, result, what):
        if result < 0:
            raise OSError(-result, f"{what}: {LIBNFS.nfs_get_error(self.context)}")
        return result

    def open(self, path, flags):
        file = ctypes.c_void_p()
        self.need(LIBNFS.nfs_open(self.context, path.encode(), flags, ctypes.byref(file)), path)
        return file

    def write(self, file, offset, address):
        if self.need(LIBNFS.nfs_pwrite(self.context, file, offset, MIB, address), "write") != MIB:
            raise OSError("a short write")

    def read(self, file, offset, address):
        if self.need(LIBNFS.nfs_pread(self.context, file, offset, MIB, address), "read") != MIB:
            raise OSError("a short read")

    def sync(self, file):
        self.need(LIBNFS.nfs_fsync(self.context, file), "fsync")
        self.need(LIBNFS.nfs_close(self.context, file), "close")


def seconds(work):
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


class Bench:
    def __init__(self, options):
        self.mib, self.runs = options.mib, options.runs
        self.rows = []
        self.backing = pathlib.Path(gw.backing_dir())
        (self.backing / "ckpt").mkdir(mode=0o777)
        os.chmod(self.backing / "ckpt", 0o777)
        self.page = mmap.mmap(-1, MIB)              # aligned
        self.page[:] = os.urandom(MIB)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.page))
        self.made = 0

    def start(self):
        rules = f"  paths:\n    - {self.backing}/ckpt/**\n  max_dirty: {2 * self.mib + 64}MiB\n  max_age: 86400\n  shutdown: keep"
        self.gateway = gw.Gateway([gw.Export(str(self.backing))], burst_buffer=True, write_back=rules)
        settings = self.gateway._burst_buffer_settings

        def larger():
            path = settings()
            text = path.read_text().replace("capacity: 64MiB", f"capacity: {6 * self.mib + 1024}MiB")
            path.write_text(text.replace("segment: 2MiB", "segment: 64MiB"))
            return path
        self.gateway._burst_buffer_settings = larger
        self.gateway.start()
        self.clients = [Client(self.gateway, "/export") for _ in range(CONNECTIONS)]

    def close(self):
        self.gateway.close()
        shutil.rmtree(self.backing, ignore_errors=True)

    def report(self, name, unit, better, ours, peer, theirs):
        own, other = statistics.median(ours), statistics.median(theirs)
        self.rows.append({"name": name, "unit": unit, "better": better, "ours": own, "peers": {peer: other},
                          "ratios": {peer: own / other}, "runs": len(ours)})
        print(f"{name:<34} {own:>10.3f} {unit:<6} {other:>10.3f} {peer:<34} ratio {own / other:.2f}", flush=True)

    # -- what is measured

    def save(self):
        """A checkpoint through NFS: each connection writes its part, then all sync."""
        self.made += 1
        name = f"/ckpt/{self.made}"
        files = [client.open(name, os.O_CREAT | os.O_RDWR) for client in self.clients]
        part = self.mib // CONNECTIONS

        def work(number):
            client, file = self.clients[number], files[number]
            for i in range(number * part, (number + 1) * part):
                client.write(file, i * MIB, self.address)
            client.sync(file)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(CONNECTIONS)]

        def run():
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return seconds(run)

    def write_local(self, path, flags):
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | flags, 0o600)

        def run():
            for i in range(self.mib):
                os.pwrite(descriptor, self.page, i * MIB)
            os.fsync(descriptor)
        took = seconds(run)
        os.close(descriptor)
        os.unlink(path)
        return took

    def drain(self):
        self.gateway.set_faults("")
        took = seconds(self.gateway.drain)
        for file in (self.backing / "ckpt").iterdir():
            file.unlink()
        return took

    def saves(self):
        ours, theirs = [], []
        for _ in range(self.runs):
            self.gateway.set_faults("drain.open=ENOSPC")        # what is drained meanwhile is another row's
            ours.append(self.save())
            self.drain()
            theirs.append(self.write_local(self.gateway.work / "plain", os.O_DIRECT))
        self.report("save_until_fsync", "s", "lower", ours, "O_DIRECT write + fsync", theirs)
        return statistics.median(theirs)

    def slow_backing(self, local):
        delay = max(1, round(10 * local / self.mib * 1000))     # ms for each MiB
        ours, theirs = [], []
        for _ in range(self.runs):
            self.gateway.set_faults(f"drain.write=delay:{delay}")
            ours.append(self.save())
            self.drain()
            theirs.append(self.write_local(self.gateway.work / "plain", os.O_DIRECT))
        self.report("save_backing_at_a_tenth", "s", "lower", ours, "O_DIRECT write + fsync", theirs)

    def drains(self):
        ours, theirs = [], []
        for _ in range(self.runs):
            self.gateway.set_faults("drain.open=ENOSPC")
            self.save()
            ours.append(self.mib / self.drain())
            theirs.append(self.mib / self.write_local(self.backing / "plain", 0))
        self.report("drain", "MiB/s", "higher", ours, "pwrite + fsync there", theirs)

    def steps(self):
        """Steps until the drain is over, or eight of them."""
        path = self.backing / "data"
        with open(path, "wb") as file:
            for _ in range(256):
                file.write(os.urandom(MIB))
            os.fsync(file.fileno())
        reader = Client(self.gateway, "/export")
        file = reader.open("/data", os.O_RDONLY)
        target = ctypes.create_string_buffer(MIB)

        def step(number):
            for i in range(32):
                reader.read(file, (number * 32 + i) % 256 * MIB, target)

        def measured():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
            return statistics.median(seconds(lambda number=number: step(number)) for number in range(8))
        ours, theirs = [], []
        for _ in range(self.runs):
            theirs.append(measured())
            self.gateway.set_faults("drain.open=ENOSPC")
            self.save()
            self.gateway.set_faults("")
            ours.append(measured())
            self.drain()
        self.report("reader_step_while_draining", "s", "lower", ours, "without a drain", theirs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=512, help="size of a checkpoint")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    bench = Bench(options)
    try:
        bench.start()
        bench.slow_backing(bench.saves())
        bench.drains()
        bench.steps()
    finally:
        bench.close()
    if options.json:
        with open(options.json, "w", encoding="ascii") as file:
            json.dump(bench.rows, file, indent=2)


if __name__ == "__main__":
    main()
