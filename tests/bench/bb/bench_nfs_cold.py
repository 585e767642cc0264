"""Cold small files through NFS: a gateway with a burst buffer that holds them against stock FSAL_VFS on the same Ganesha and
the same disk.

    bench_nfs_cold.py [--files 10000] [--runs 3] [--sizes 4096,16384,131072] [--json FILE]

NFSv3 over TCP on loopback, one connection, 16 calls at once; each does what a client does for open, read and close of a file
chosen at random: LOOKUP, ACCESS, READ. Before each run both servers are started anew and the page cache is dropped, which needs
root; runs are interleaved.
"""
import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "lib"), str(HERE.parent / "nfs")]
import gateway as gw                                # noqa: E402  (the path is set above)
import nfs3                                         # noqa: E402
from bench_nfs import load_program                  # noqa: E402


def drop_page_cache():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as drop:
        drop.write("3")


class Server:
    def __init__(self, fsal, path, megabytes):
        self.gateway = gw.Gateway([gw.Export(str(path))], fsal=fsal, log_level="CRIT", burst_buffer=fsal == "FABRIC")
        self.runs = []
        if fsal == "FABRIC":
            settings = self.gateway._burst_buffer_settings

            def larger():
                text = settings().read_text().replace("capacity: 64MiB", f"capacity: {megabytes}MiB")
                settings().write_text(text.replace("segment: 2MiB", "segment: 64MiB"))
                return self.gateway.work / "burstbuffer.yaml"
            self.gateway._burst_buffer_settings = larger
        self.gateway.start()

    def stage(self, path):
        fabricctl = gw.plugin_dir().parent / "burstbuffer/fabricctl/fabricctl"
        subprocess.run([fabricctl, "stage", "--socket", self.gateway.control_socket, path], check=True, stdout=subprocess.DEVNULL)

    def run(self, files, size):
        """Files a second."""
        self.gateway.stop()
        self.gateway.restart()
        with nfs3.Client.mount(self.gateway) as client:
            handle = client.walk("small")
        drop_page_cache()
        command = [load_program(), "127.0.0.1", self.gateway.nfs_port, handle.hex(), "open", files, "--depth", 16, "--size", size,
                   "--files", files]
        done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, check=True, timeout=600)
        result = json.loads(done.stdout)
        if result["bytes"] != files * size:
            raise SystemExit(f"{result['bytes']} bytes were read, not {files * size}")
        self.runs.append(result["operations"] / result["seconds"])


def measure(size, options):
    base = pathlib.Path(gw.backing_dir("fabric-bench-"))
    servers = []
    try:
        (base / "small").mkdir()
        for number in range(options.files):
            (base / "small" / f"file-1-{number}").write_bytes(os.urandom(size))
        servers = [Server(fsal, base, 512 + 2 * options.files * size // (1 << 20)) for fsal in ("FABRIC", "VFS")]
        servers[0].stage(base / "small")
        for _ in range(options.runs):
            for server in servers:
                server.run(options.files, size)
        ours, theirs = (statistics.median(server.runs) for server in servers)
        name = f"nfs_cold_small_files_{size // 1024}k"
        print(f"{name:<30} {ours:>9.0f} {theirs:>9.0f} FSAL_VFS  ratio {ours / theirs:.2f}", flush=True)
        return {"name": name, "unit": "files/s", "better": "higher", "ours": ours, "peers": {"FSAL_VFS": theirs},
                "ratios": {"FSAL_VFS": ours / theirs}, "runs": options.runs}
    finally:
        for server in servers:
            server.gateway.close()
        shutil.rmtree(base, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--sizes", default="4096,16384,131072")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    rows = [measure(int(size), options) for size in options.sizes.split(",")]
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(rows, indent=2) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
