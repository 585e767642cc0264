#!/usr/bin/env python3
"""XDS against its peers in the same run, over loopback TCP or, in tests/vm/vm, over soft-RoCE.

    bench_xds.py --build DIR [--seconds S] [--runs N] [--json FILE] [--tiny]

TCP: 4 MiB reads against iperf3 with as many streams; 4 KiB files in batches against open+read+close by one thread.
RDMA, when VM_ADDRESS is set (tests/vm/vm sets it): 1 MiB reads and writes against ib_write_bw and ib_read_bw.
Prints a table; with --json the list of objects of DESIGN's form. Exit status 77: a peer's program is missing.
"""
import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

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


def row(name, unit, ours, peer, peers, cpu=None):
    ours, peers = statistics.median(ours), statistics.median(peers)
    result = {"name": name, "unit": unit, "better": "higher", "ours": round(ours, 1), "peers": {peer: round(peers, 1)},
              "ratios": {peer: round(ours / peers, 3)}, "runs": 0}
    if cpu is not None:
        result["cpu_seconds_per_gb"] = round(statistics.median(cpu), 4)
    return result


def over_tcp(options, folder):
    target = Target(options.build, folder, "127.0.0.1", False)
    try:
        ours, peers, cpu, many, local = [], [], [], [], []
        small = os.path.join(folder, "small")
        os.mkdir(small)
        for number in range(64 if options.tiny else 2000):
            with open(os.path.join(small, str(number)), "wb") as file:
                file.write(os.urandom(4096))
        for _ in range(options.runs):
            read = xdsbench(options, target, "--op", "read", "--block", "4MiB", "--size", options.size)
            ours.append(read["ours"])
            cpu.append(read["cpu_seconds_per_gb"])
            peers.append(iperf(options))
            many.append(xdsbench(options, target, "--op", "many", "--block", "4KiB")["ours"])
            local.append(float(run(os.path.join(options.build, "tests/bench/xds/local_files"), small, str(options.seconds))))
        return [row("xds.tcp.read_4m", "MB/s", ours, "iperf3", peers, cpu),
                row("xds.tcp.many_4k", "files/s", many, "open+read+close", local)]
    finally:
        target.stop()


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
            rows.append(row(f"xds.rdma.{name}_1m", "MB/s", ours, program, peers, cpu))
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
    print(f"{'name':<20}{'ours':>12}{'peer':>12}  {'ratio':>6}  unit, peer, our client's CPU")
    for one in rows:
        one["runs"] = options.runs
        (peer, value), ratio = next(iter(one["peers"].items())), next(iter(one["ratios"].values()))
        cpu = f", {one['cpu_seconds_per_gb']} s/GB" if "cpu_seconds_per_gb" in one else ""
        print(f"{one['name']:<20}{one['ours']:>12}{value:>12}  {ratio:>6}  {one['unit']}, {peer}{cpu}")
    if options.json:
        with open(options.json, "w", encoding="ascii") as file:
            json.dump(rows, file, indent=1)
            file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
