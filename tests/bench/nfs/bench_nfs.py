"""Measures NFS servers beside each other and prints a table (and JSON by --json).

    bench_nfs.py [--json FILE] [--runs 5] [--only KIND[,KIND]] [--peer VFS]
    bench_nfs.py --tiny                     everything once, small: does it work?
    bench_nfs.py --linear 1000000           cold listings of a quarter, a half and all of so many entries: time per entry
    bench_nfs.py --memory 10                ten minutes of everything at once: the servers' memory, minute by minute
    bench_nfs.py --vm [--json FILE]         in the VM: this gateway against knfsd, over RDMA and TCP (bench_vm.py)

On the host: our FSAL and a stock one on the same Ganesha, both up at the same time, NFSv3 over TCP on loopback, one
connection, page cache warm. Runs are interleaved, ours and the peer in turn; medians. The server's CPU time of each run
(all its threads) stands beside the wall time.
"""
import argparse
import itertools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "lib"))
import gateway as gw                                # noqa: E402  (the path is set above)
import nfs3                                         # noqa: E402

MEBIBYTE = 1 << 20


def load_program():
    built = [os.environ.get("FABRIC_NFS_LOAD"), os.path.join(os.environ.get("FABRIC_BUILD_DIR", ""), "tests/bench/nfs/nfs_load"),
             HERE.parents[2] / "build/tests/bench/nfs/nfs_load"]
    for path in filter(None, built):
        if os.path.exists(path):
            return str(path)
    raise SystemExit("nfs_load is not built: cmake --build build --target nfs_load, or name it by FABRIC_NFS_LOAD")


class Kind:
    """One thing measured. `unit` is per second; `per` is what CPU time is divided by."""

    def __init__(self, name, unit, per, target, arguments, scale=1.0, per_scale=1.0):
        self.name, self.unit, self.per, self.target = name, unit, per, target
        self.arguments, self.scale, self.per_scale = arguments, scale, per_scale

    def figures(self, result, cpu):
        """(throughput, CPU per unit) of one run."""
        amount = result["bytes"] if self.unit == "MB/s" else result["operations"]
        return amount / self.scale / result["seconds"], cpu / (amount / self.per_scale)


def kinds(tiny):
    size = 16 * MEBIBYTE if tiny else 512 * MEBIBYTE
    count, entries, files = (200, 1000, 100) if tiny else (40000, 100000, 10000)
    big = {"scale": 1e6, "per_scale": 1e9}
    few = {"scale": 1.0, "per_scale": 1e3}
    megabytes = size // MEBIBYTE
    return [
        Kind("read_1m", "MB/s", "CPU s/GB", "big", ["read", 4 * megabytes, "--depth", 8, "--size", MEBIBYTE, "--file-size", size], **big),
        Kind("write_1m", "MB/s", "CPU s/GB", "big", ["write", 2 * megabytes, "--depth", 8, "--size", MEBIBYTE, "--file-size", size], **big),
        Kind("randread_4k", "op/s", "CPU ms/op", "big", ["randread", count, "--depth", 32, "--size", 4096, "--file-size", size], **few),
        Kind("create_4k", "op/s", "CPU ms/op", "new", ["create", files, "--depth", 16, "--size", 4096], **few),
        Kind("open_read_close_4k", "op/s", "CPU ms/op", "small", ["open", count // 2, "--depth", 16, "--size", 4096, "--files", files], **few),
        Kind("list_100k", "op/s", "CPU ms/op", "many", ["list", 1], **few),
    ], size, files, entries


class Server:
    def __init__(self, fsal, base, size, files, entries, targets):
        self.fsal, self.entries = fsal, entries
        self.path = base / fsal.lower()
        self.fill(size if "big" in targets else 0, files if "small" in targets else 0, entries if "many" in targets else 0)
        self.gateway = gw.Gateway([gw.Export(str(self.path))], fsal=fsal, log_level="CRIT").start()
        self.turns = itertools.count()              # also of several threads

    def fill(self, size, files, entries):
        for name in ("small", "many", "new"):
            (self.path / name).mkdir(parents=True)
        block = os.urandom(MEBIBYTE)
        with open(self.path / "big", "wb") as big:
            for _ in range(size // MEBIBYTE):
                big.write(block)
        for number in range(files):
            (self.path / "small" / f"file-1-{number}").write_bytes(block[:4096])
        for number in range(entries):
            (self.path / "many" / f"entry-{number:07}").touch()
        subprocess.run(["sync", "-f", str(self.path)], check=True)

    def handle(self, target):
        with nfs3.Client.mount(self.gateway) as client:
            if target == "new":
                return client.mkdir(client.walk("new"), str(next(self.turns))).handle
            return client.walk(target)

    def run(self, kind):
        """(result of nfs_load, CPU seconds of the server)"""
        handle = self.handle(kind.target)
        before = self.gateway.cpu_seconds()
        command = [load_program(), "127.0.0.1", self.gateway.nfs_port, handle.hex(), *kind.arguments]
        done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True, timeout=600)
        result = json.loads(done.stdout)
        if kind.target == "many" and result["operations"] != self.entries + 2:
            raise SystemExit(f"{self.fsal}: listed {result['operations']} entries of {self.entries + 2}")
        return result, self.gateway.cpu_seconds() - before

    def close(self):
        self.gateway.close()


def measure(arguments):
    made, size, files, entries = kinds(arguments.tiny)
    if arguments.only:
        made = [kind for kind in made if kind.name in arguments.only.split(",")]
    base = pathlib.Path(gw.backing_dir("fabric-bench-"))
    servers = []
    try:
        for fsal in (arguments.ours, arguments.peer):
            servers.append(Server(fsal, base, size, files, entries, {kind.target for kind in made}))
        rows = []
        print(f"{'':22}{arguments.ours:>12}{arguments.peer:>12}   ratio")
        for kind in made:
            runs = {server.fsal: [] for server in servers}
            for server in servers:
                server.run(kind)                    # warm: page cache, handles, buffers
            for _ in range(arguments.runs):
                for server in servers:
                    runs[server.fsal].append(kind.figures(*server.run(kind)))
                time.sleep(0 if arguments.tiny else 0.2)
            rows += report(arguments, kind, runs)
            if arguments.json:                      # after each kind: a run that is stopped leaves what it has
                pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n")
        return 0
    finally:
        for server in servers:
            server.close()
        shutil.rmtree(base, ignore_errors=True)


def measure_linear(arguments):
    """The gateway alone, started anew for each listing. The folders are made once; the page cache is warm."""
    base = pathlib.Path(gw.backing_dir("fabric-bench-"))
    rows = []
    try:
        for entries in (arguments.linear // 4, arguments.linear // 2, arguments.linear):
            server = Server(arguments.ours, base / str(entries), 0, 0, entries, {"many"})
            try:
                runs = []
                for _ in range(arguments.runs):
                    server.gateway.stop()
                    server.gateway.restart()
                    result, cpu = server.run(Kind("list", "op/s", "", "many", ["list", 1]))
                    runs.append((result["seconds"] / entries * 1e6, cpu / entries * 1e6, server.gateway.rss()))
            finally:
                server.close()
            wall, cpu, rss = (statistics.median(run[i] for run in runs) for i in range(3))
            print(f"list {entries:>9} entries: {wall:6.2f} us an entry, server CPU {cpu:6.2f} us, RSS {rss / MEBIBYTE:.0f} MiB")
            rows.append({"name": f"nfs_list_cold_{entries}", "unit": "us/entry", "better": "lower", "ours": wall, "peers": {},
                         "ratios": {}, "runs": arguments.runs})
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(rows, indent=1) + "\n")
    return 0


def measure_memory(arguments):
    """Both servers under the same mixed load: two clients each, which do all kinds in turn from different places on."""
    made, size, files, entries = kinds(arguments.tiny)
    base = pathlib.Path(gw.backing_dir("fabric-bench-"))
    servers, threads, failures = [], [], []
    over = threading.Event()

    def client(server, first):
        try:
            for turn in itertools.count(first):
                if over.is_set():
                    return
                server.run(made[turn % len(made)])
        except Exception as error:                  # a run that failed makes the table worthless
            failures.append(f"{server.fsal}: {error}")
            over.set()

    try:
        for fsal in (arguments.ours, arguments.peer):
            servers.append(Server(fsal, base, size, files, entries, {kind.target for kind in made}))
        threads = [threading.Thread(target=client, args=(server, first)) for server in servers for first in (0, len(made) // 2)]
        for thread in threads:
            thread.start()
        memory = {server.fsal: [] for server in servers}
        print(f"{'minute':8}" + "".join(f"{server.fsal + ' MiB':>12}" for server in servers), flush=True)
        for minute in range(1, arguments.memory + 1):
            over.wait(60)
            for server in servers:
                memory[server.fsal].append(server.gateway.rss() / MEBIBYTE)
            print(f"{minute:<8}" + "".join(f"{memory[server.fsal][-1]:>12.0f}" for server in servers), flush=True)
            if over.is_set():
                raise SystemExit(failures[0])
    finally:
        over.set()
        for thread in threads:
            thread.join()
        for server in servers:
            server.close()
        shutil.rmtree(base, ignore_errors=True)
    grown = {fsal: statistics.median(all_[len(all_) // 2:]) / statistics.median(all_[:max(1, len(all_) // 2)])
             for fsal, all_ in memory.items()}
    print("second half to first: " + ", ".join(f"{fsal} {ratio:.2f}" for fsal, ratio in grown.items()))
    if arguments.json:
        row = {"name": "nfs_memory_growth", "unit": "second half to first", "better": "lower", "ours": grown[arguments.ours],
               "peers": {arguments.peer: grown[arguments.peer]}, "ratios": {}, "runs": 1, "MiB": memory}
        pathlib.Path(arguments.json).write_text(json.dumps([row], indent=1) + "\n")
    return 0


def report(arguments, kind, runs):
    """Prints the kind's two rows and returns them: throughput and CPU time."""
    rows = []
    ours, peer = arguments.ours, arguments.peer
    for index, (suffix, unit, better) in enumerate((("", kind.unit, "higher"), ("_cpu", kind.per, "lower"))):
        mine, other = (statistics.median(run[index] for run in runs[fsal]) for fsal in (ours, peer))
        ratio = mine / other if other else float("nan")
        print(f"{kind.name + suffix:22}{mine:>12.4g}{other:>12.4g}   {ratio:.2f}   {unit}, {better} is better", flush=True)
        rows.append({"name": f"nfs_{kind.name}{suffix}", "unit": unit, "better": better, "ours": mine, "peers": {peer: other},
                     "ratios": {peer: ratio}, "runs": len(runs[ours])})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only")
    parser.add_argument("--ours", default="FABRIC")
    parser.add_argument("--peer", default="VFS")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--linear", type=int, metavar="ENTRIES")
    parser.add_argument("--memory", type=int, metavar="MINUTES")
    parser.add_argument("--vm", action="store_true")
    arguments, rest = parser.parse_known_args()
    if arguments.vm:
        os.execv(sys.executable, [sys.executable, str(HERE / "bench_vm.py"), *rest,
                                  *(["--json", arguments.json] if arguments.json else []), "--runs", str(arguments.runs)])
    if rest:
        parser.error(f"unknown: {' '.join(rest)}")
    if arguments.tiny:
        arguments.runs = 1
    try:
        if arguments.memory:
            return measure_memory(arguments)
        return measure_linear(arguments) if arguments.linear else measure(arguments)
    except gw.NoHandles as error:
        print(f"SKIPPED bench_nfs: {error}")
        return 77


if __name__ == "__main__":
    sys.exit(main())
