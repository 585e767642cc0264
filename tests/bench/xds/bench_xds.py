#!/usr/bin/env python3
"""XDS against its peers in the same run, over loopback TCP or, in tests/vm/vm, over soft-RoCE.

    bench_xds.py --build DIR [--seconds S] [--runs N] [--json FILE] [--tiny]

TCP: 4 MiB reads against iperf3 with as many streams, and against libnfs, with one connection and with as many, reading the
same file from the gateway into memory of the program (rows end in _cpu: the client's CPU seconds per GB); 4 KiB files in
batches against open+read+close by one thread; how long a program waits until libxds is loaded and connected.
RDMA, when VM_ADDRESS is set (tests/vm/vm sets it): 1 MiB reads and writes against ib_write_bw and ib_read_bw.
Prints a table; with --json the list of objects of DESIGN's form. Exit status 77: a peer's program is missing.
"""
import argparse
import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import gateway as gw

STREAMS = 4


class Target:
    """A fabricd of our own, serving a folder of its own."""

    def __init__(self, build, folder, host, rdma):
        self.root = os.path.join(folder, "root")
        os.makedirs(self.root, exist_ok=True)
        config = os.path.join(folder, "fabricd.yaml")
        with open(config, "w", encoding="ascii") as file:
            file.write(f"xds:\n  listen: {host}:0\n  rdma: {'required' if rdma else 'off'}\n  root: {self.root}\n"
                       f"security:\n  anonymous_uid: {os.geteuid()}\n  anonymous_gid: {os.getegid()}\n")
        self.process = subprocess.Popen([os.path.join(build, "burstbuffer/fabricd/fabricd"), "--config", config], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.address = f"{host}:" + self.process.stdout.readline().strip().split("=")[1]

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()


def run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        sys.exit(f"bench_xds: {' '.join(words)}: {done.stderr or done.stdout}")
    return done.stdout


def xdsbench(options, target, *words):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        run(os.path.join(options.build, "xds/tools/xdsbench"), "--address", target.address, "--seconds",
            str(options.seconds), "--json", file.name, *words)
        return json.load(open(file.name, encoding="ascii"))[0]


def iperf(options):
    """MB/s of iperf3 over loopback with as many streams as a context of libxds has."""
    server = subprocess.Popen(["iperf3", "-s", "-1", "-p", str(options.port)], stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            done = subprocess.run(["iperf3", "-c", "127.0.0.1", "-p", str(options.port), "-P", str(STREAMS), "-t",
                                   str(options.seconds), "-J"], capture_output=True, text=True, check=False)
            # Until its server listens it says so in JSON, and ends with 0 all the same.
            end = json.loads(done.stdout or "{}").get("end", {})
            if "sum_received" in end:
                return end["sum_received"]["bits_per_second"] / 8e6
            time.sleep(0.05)
        sys.exit("bench_xds: iperf3: " + done.stdout[-500:])
    finally:
        server.kill()
        server.wait()


def perftest(options, program, address):
    """MB/s of ib_write_bw or ib_read_bw, 1 MiB messages."""
    words = [program, "-s", "1048576", "-n", str(options.messages)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            done = subprocess.run([*words, address], capture_output=True, text=True, check=False)
            found = re.search(r"^\s*1048576\s+\d+\s+[\d.]+\s+([\d.]+)", done.stdout, re.MULTILINE)
            if found:
                return float(found.group(1)) * 1.048576       # perftest's MB are MiB
            time.sleep(0.1)
        sys.exit(f"bench_xds: {program}: {done.stdout[-500:]}{done.stderr[-500:]}")
    finally:
        server.kill()
        server.wait()


def row(name, unit, ours, peers, better="higher"):
    """`peers`: {name: values}. Medians and their ratios."""
    ours = statistics.median(ours)
    peers = {peer: statistics.median(values) for peer, values in peers.items()}
    return {"name": name, "unit": unit, "better": better, "ours": round(ours, 4),
            "peers": {peer: round(value, 4) for peer, value in peers.items()},
            "ratios": {peer: round(ours / value, 3) for peer, value in peers.items()}, "runs": 0}


@contextlib.contextmanager
def nfs_url(folder):
    """The folder exported by a gateway of our own; None where there is none."""
    if not os.environ.get("FABRIC_GANESHA_PREFIX"):
        yield None
        return
    with gw.Gateway([gw.Export(folder)]) as gateway:
        yield f"nfs://127.0.0.1/export/?version=3&nfsport={gateway.nfs_port}&mountport={gateway.ports['mount']}"


def over_tcp(options, folder):
    program = os.path.join(options.build, "tests/bench/xds")
    target = Target(options.build, folder, "127.0.0.1", False)
    small = os.path.join(folder, "small")
    os.mkdir(small)
    for number in range(64 if options.tiny else 2000):
        with open(os.path.join(small, str(number)), "wb") as file:
            file.write(os.urandom(4096))
    libxds = os.path.join(options.build, "xds/client/libxds.so.0")
    read, read_cpu, iperf3, many, local = [], [], [], [], []
    libnfs, libnfs_cpu = {1: [], STREAMS: []}, {1: [], STREAMS: []}
    try:
        with nfs_url(target.root) as url:
            for _ in range(options.runs):
                result = xdsbench(options, target, "--op", "read", "--block", "4MiB", "--size", options.size)
                read.append(result["ours"])
                read_cpu.append(result["cpu_seconds_per_gb"])
                iperf3.append(iperf(options))
                for connections in libnfs if url else ():
                    speed, cpu = run(program + "/libnfs_read", url, "/xdsbench.0", str(options.seconds), str(connections)).split()
                    libnfs[connections].append(float(speed))
                    libnfs_cpu[connections].append(float(cpu))
                many.append(xdsbench(options, target, "--op", "many", "--block", "4KiB")["ours"])
                local.append(float(run(program + "/local_files", small, str(options.seconds))))
        start = [[float(word) for word in run(program + "/start_up", libxds, target.address).split()]
                 for _ in range(options.runs)]
    finally:
        target.stop()
    rows = [row("xds.tcp.read_4m", "MB/s", read, {"iperf3": iperf3}),
            row("xds.tcp.many_4k", "files/s", many, {"open+read+close": local}),
            row("xds.start_up", "ms", [waited for waited, _ in start], {}, "lower"),
            row("xds.start_up_cpu", "CPU ms", [worked for _, worked in start], {}, "lower")]
    for connections, values in libnfs.items():
        if values:
            peer = f"libnfs, {connections} connection{'s' if connections > 1 else ''}"
            rows.append(row("xds.tcp.read_4m", "MB/s", read, {peer: values}))
            rows.append(row("xds.tcp.read_4m_cpu", "CPU s/GB", read_cpu, {peer: libnfs_cpu[connections]}, "lower"))
    return rows


def over_rdma(options, folder, address):
    target = Target(options.build, folder, address, True)
    try:
        rows = []
        for name, program in ("read", "ib_write_bw"), ("write", "ib_read_bw"):
            ours, peers, cpu = [], [], []
            for _ in range(options.runs):
                result = xdsbench(options, target, "--op", name, "--block", "1MiB", "--size", options.size)
                if result["path"] != "direct":
                    sys.exit(f"bench_xds: the data went by {result['path']}, not by RDMA")
                ours.append(result["ours"])
                cpu.append(result["cpu_seconds_per_gb"])
                peers.append(perftest(options, program, address))
            rows.append(row(f"xds.rdma.{name}_1m", "MB/s", ours, {program: peers}))
            rows.append(row(f"xds.rdma.{name}_1m_cpu", "CPU s/GB", cpu, {}, "lower"))
        return rows
    finally:
        target.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="the build folder")
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--size", default="256MiB", help="bytes of the file that is read")
    parser.add_argument("--folder", help="where the target's files are; default: a temporary folder")
    parser.add_argument("--port", type=int, default=20000 + os.getpid() % 10000, help="of iperf3")
    parser.add_argument("--messages", type=int, default=300, help="that ib_write_bw and ib_read_bw send")
    parser.add_argument("--json")
    parser.add_argument("--tiny", action="store_true", help="only that it works")
    options = parser.parse_args()
    if options.tiny:
        options.seconds, options.runs, options.size, options.messages = 1, 1, "8MiB", 20
    address = os.environ.get("VM_ADDRESS")
    missing = [name for name in (("ib_write_bw", "ib_read_bw") if address else ("iperf3",)) if not shutil.which(name)]
    if missing:
        print(f"SKIP: bench_xds: no {' and no '.join(missing)} here (packaging/deps: test, vm)")
        return 77
    with tempfile.TemporaryDirectory(prefix="bench-xds-", dir=options.folder) as folder:
        rows = over_rdma(options, folder, address) if address else over_tcp(options, folder)
    print(f"{'name':<22}{'ours':>12}{'peer':>12}  {'ratio':>6}  unit, peer")
    for one in rows:
        one["runs"] = options.runs
        peer, value = next(iter(one["peers"].items()), ("no peer", "-"))
        print(f"{one['name']:<22}{one['ours']:>12}{value:>12}  {one['ratios'].get(peer, '-'):>6}  {one['unit']}, {peer}")
    if options.json:
        with open(options.json, "w", encoding="ascii") as file:
            json.dump(rows, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
