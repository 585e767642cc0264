"""Measures this gateway beside knfsd in the VM, with the Linux client of NFSv4.2: bench_nfs.py --vm starts it.

    bench_vm.py [--json FILE] [--runs 5] [--icount] [--protocols rdma,tcp] [--entries 20000] [--only KIND[,KIND]] [--mtu 4200]

Both servers run in one guest at the same time and export the same folder (ext4 in memory) on ports of their own; each run
mounts one, measures, unmounts, mounts the other. Under emulation only the ratio means something; --icount counts time in
instructions, so that figures repeat on a busy machine (one processor; slow).
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
MEBIBYTE = 1 << 20
SMALL_FILES = 3000
KINDS = ("read_1m", "write_1m", "randread_4k", "create_4k", "open_read_close_4k", "ls", "ls_cold")
UNITS = {"read_1m": "MB/s", "write_1m": "MB/s", "randread_4k": "op/s", "create_4k": "op/s", "open_read_close_4k": "op/s", "ls": "s",
         "ls_cold": "s"}


class Guest:
    """What runs inside the VM."""

    def __init__(self, arguments):
        sys.path[:0] = [str(ROOT / "tests/vm"), str(ROOT / "tests/lib")]
        from guest.backing import Backing
        from guest.knfsd import Knfsd
        from guest.mounts import Mount
        from guest.servers import Ganesha

        class Gateway(Ganesha):
            """Beside knfsd: ports of its own, and rpcbind is left to the kernel's server."""

            def _choose_ports(self):
                super()._choose_ports()
                self.ports["nfs"] = 2050

        self.arguments, self.mount_class = arguments, Mount
        self.backing = Backing("ext4", size_mb=1400, make_options=("-N", str(arguments.entries + 10000)))
        self.fill()
        ours = Gateway(arguments.ours.lower(), self.backing.path, rdma_port=20050, core={"Enable_RPCBIND": "false"}, log_level="CRIT")
        self.servers = {"knfsd": Knfsd(self.backing.path).start(), arguments.ours: ours.start()}
        self.turn = 0

    def fill(self):
        folder = pathlib.Path(self.backing.path)
        os.chmod(folder, 0o777)
        block = os.urandom(MEBIBYTE)
        with open(folder / "big", "wb") as big:
            for _ in range(self.arguments.megabytes):
                big.write(block)
        for name, count, content in (("small", SMALL_FILES, block[:4096]), ("many", self.arguments.entries, b"")):
            (folder / name).mkdir()
            for number in range(count):
                with open(folder / name / f"entry-{number:06}", "wb") as file:
                    file.write(content)

    def run(self, kind, name, protocol):
        if kind == "ls_cold":
            self.cool(name)
        with self.mount_class(self.servers[name], "4.2", protocol) as mount:
            return getattr(self, kind)(pathlib.Path(mount.path))

    def cool(self, name):
        """The server has seen nothing of the folder: no names, no attributes, in the gateway or in the kernel."""
        if name != "knfsd":
            self.servers[name].stop()
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
        if name != "knfsd":
            self.servers[name].start()

    def read_1m(self, path):
        buffer, done, start = bytearray(MEBIBYTE), 0, time.monotonic()
        with open(path / "big", "rb", buffering=0) as big:
            while count := big.readinto(buffer):
                done += count
        return done / 1e6 / (time.monotonic() - start)

    def write_1m(self, path):
        block, start = os.urandom(MEBIBYTE), time.monotonic()
        with open(path / "written", "wb", buffering=0) as file:
            for _ in range(self.arguments.megabytes // 2):
                file.write(block)
            os.fsync(file.fileno())
        seconds = time.monotonic() - start
        os.unlink(path / "written")
        return self.arguments.megabytes // 2 * MEBIBYTE / 1e6 / seconds

    def randread_4k(self, path):
        done = subprocess.run(["fio", "--name=r", f"--filename={path}/big", "--rw=randread", "--bs=4k", "--direct=1", "--readonly",
                               "--ioengine=libaio", "--iodepth=16", f"--size={self.arguments.megabytes}m", "--io_size=32m",
                               "--output-format=json"], stdout=subprocess.PIPE, check=True, timeout=600)
        return json.loads(done.stdout)["jobs"][0]["read"]["iops"]

    def create_4k(self, path):
        self.turn += 1
        folder = path / f"created-{self.turn}"
        folder.mkdir()
        content, count, start = b"c" * 4096, 200, time.monotonic()
        for number in range(count):
            file = os.open(folder / f"f{number}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            os.write(file, content)
            os.close(file)
        return count / (time.monotonic() - start)

    def open_read_close_4k(self, path):
        start = time.monotonic()
        for number in range(SMALL_FILES):
            with open(path / "small" / f"entry-{number:06}", "rb", buffering=0) as file:
                if len(file.read()) != 4096:
                    raise SystemExit("a short file")
        return SMALL_FILES / (time.monotonic() - start)

    def ls(self, path):
        start = time.monotonic()
        done = subprocess.run(["ls", "-ln", str(path / "many")], stdout=subprocess.PIPE, check=True, timeout=1200)
        if done.stdout.count(b"\n") != self.arguments.entries + 1:
            raise SystemExit(f"ls shows {done.stdout.count(bytes([10])) - 1} entries of {self.arguments.entries}")
        return time.monotonic() - start

    ls_cold = ls

    def measure(self):
        rows = []
        for protocol in self.arguments.protocols.split(","):
            for kind in self.arguments.only.split(","):
                results = {name: [] for name in self.servers}
                for _ in range(self.arguments.runs):
                    for name in self.servers:
                        results[name].append(self.run(kind, name, protocol))
                ours, peer = (statistics.median(results[name]) for name in (self.arguments.ours, "knfsd"))
                better = "lower" if UNITS[kind] == "s" else "higher"
                label = f"{kind}_{self.arguments.entries}" if UNITS[kind] == "s" else kind
                print(f"{protocol:5}{label:22}{self.arguments.ours}{ours:10.4g}  knfsd{peer:10.4g}  ratio {ours / peer:.2f}   "
                      f"{UNITS[kind]}, {better} is better", flush=True)
                rows.append({"name": f"nfs_vm_{protocol}_{label}", "unit": UNITS[kind], "better": better, "ours": ours,
                             "peers": {"knfsd": peer}, "ratios": {"knfsd": ours / peer}, "runs": self.arguments.runs})
        pathlib.Path(os.environ["OUT"], "rows.json").write_text(json.dumps(rows, indent=1) + "\n")


def start_guest(arguments):
    sys.path.insert(0, str(ROOT / "tests/lib"))
    import gateway as gw
    with tempfile.TemporaryDirectory() as out:
        command = [str(ROOT / "tests/vm/vm"), "--out", out, "--mtu", str(arguments.mtu), "--timeout", str(arguments.timeout)]
        command += ["--icount", "--smp", "1", "--env", "FABRIC_PATIENCE=30"] if arguments.icount else []
        for name, value in (("FABRIC_GANESHA_PREFIX", gw.ganesha_prefix()), ("FABRIC_PLUGIN_DIR", gw.plugin_dir())):
            command += ["--env", f"{name}={value}"]
        command += ["--", "/usr/bin/python3", str(HERE / "bench_vm.py"), "--guest", "--runs", str(arguments.runs)]
        for name in ("protocols", "entries", "only", "megabytes", "ours"):
            command += [f"--{name}", str(getattr(arguments, name))]
        status = subprocess.run(command, check=False).returncode
        rows = pathlib.Path(out, "rows.json")
        if arguments.json and rows.exists():
            pathlib.Path(arguments.json).write_text(rows.read_text())
        return status


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--icount", action="store_true")
    parser.add_argument("--protocols", default="rdma,tcp")
    parser.add_argument("--entries", type=int, default=20000)
    parser.add_argument("--megabytes", type=int, default=128)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--mtu", type=int, default=4200)
    parser.add_argument("--timeout", type=int, default=3000)
    parser.add_argument("--ours", default="FABRIC")
    parser.add_argument("--guest", action="store_true")
    arguments = parser.parse_args()
    if arguments.guest:
        return Guest(arguments).measure()
    return start_guest(arguments)


if __name__ == "__main__":
    sys.exit(main())
