#!/usr/bin/env python3
"""A target in front of which the node's burst buffer stands: what was staged is read from there, and the bytes are right
whatever happens to file or cache.

usage: burst_buffer_test.py FABRICD FABRICCTL
The package xds is found by PYTHONPATH.
"""
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import xds

FABRICD, FABRICCTL = sys.argv[1:3]
SIZE = 5_000_001


def has_handles(folder):
    """Overlay roots (containers) have none."""
    return subprocess.run(["findmnt", "-no", "FSTYPE", "-T", folder], capture_output=True, text=True,
                          check=False).stdout.strip() not in ("overlay", "tmpfs")


class BurstBuffer(unittest.TestCase):
    def setUp(self):
        base = next((folder for folder in ("/tmp", "/var/tmp", os.getcwd()) if has_handles(folder)), None)
        if base is None:
            self.skipTest("no file system with file handles here")
        holder = tempfile.TemporaryDirectory(prefix="xds-buffer-", dir=base)
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.root, self.disk = self.folder / "root", self.folder / "disk"
        self.root.mkdir()
        self.disk.mkdir()
        self.data = random.Random(1).randbytes(SIZE)
        (self.root / "f").write_bytes(self.data)
        self.socket = self.folder / "ctl.sock"
        (self.folder / "bb.yaml").write_text(
            f"disks:\n  - folder: {self.disk}\n    capacity: 256MiB\n    reserve: 0\n    segment: 4MiB\n"
            f"control:\n  socket: {self.socket}\n")
        (self.folder / "fabricd.yaml").write_text(
            f"xds:\n  listen: 127.0.0.1:0\n  rdma: off\n  root: {self.root}\n  lanes: 1\n"
            f"security:\n  anonymous_uid: {os.geteuid()}\n  anonymous_gid: {os.getegid()}\n"
            f"burst_buffer:\n  config: {self.folder}/bb.yaml\nmetrics:\n  listen: 127.0.0.1:0\n")
        daemon = subprocess.Popen([FABRICD, "--config", str(self.folder / "fabricd.yaml")], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.stdout.close)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        said = dict(daemon.stdout.readline().strip().split("=") for _ in range(5))
        self.metrics = f"http://127.0.0.1:{said['metrics_port']}/metrics"
        self.context = xds.Context("127.0.0.1:" + said["xds_port"], verify=True)
        self.addCleanup(self.context.close)

    def stage(self):
        time.sleep(2.1)         # what has just been written is not taken yet
        done = subprocess.run([FABRICCTL, "stage", "--socket", str(self.socket), str(self.root)], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def from_buffer(self):
        """Bytes that reads got from it so far."""
        text = urllib.request.urlopen(self.metrics, timeout=20).read().decode()
        found = re.search(r'^fabric_bytes_total\{(?=[^}]*direction="read")(?=[^}]*path="burst_buffer")[^}]*\} (\S+)$', text,
                          re.MULTILINE)
        return int(float(found.group(1))) if found else 0

    def check(self, file, data):
        for offset, length in ((0, SIZE), (1, 4097), (4096, 1 << 20), ((1 << 20) - 1, 2), (SIZE - 5, 100), (SIZE, 10), (777, SIZE)):
            memory = bytearray(length)
            expected = data[offset:offset + length]
            self.assertEqual(file.read_into(memory, offset), len(expected), (offset, length))
            self.assertEqual(memory[:len(expected)], expected, (offset, length))

    def test_what_was_staged_is_read_from_there(self):
        self.stage()
        with self.context.open("f", "r+") as file:
            self.check(file, self.data)
            served = self.from_buffer()
            self.assertGreaterEqual(served, 2 * SIZE)
            # Another version of the file: the old bytes are of no use any more.
            data = b"new" + self.data[3:]
            file.write(b"new")
            self.check(file, data)
            self.assertEqual(self.from_buffer(), served)

    def test_a_damaged_cache_is_not_believed(self):
        self.stage()
        segments = [path for path in self.disk.rglob("*") if path.is_file() and path.stat().st_size >= 4 << 20]
        self.assertTrue(segments)
        for path in segments:
            with open(path, "r+b") as file:
                for at in range(10_000, path.stat().st_size, 50_000):
                    file.seek(at)
                    file.write(b"damaged")
        with self.context.open("f") as file:
            self.check(file, self.data)


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], verbosity=2, exit=False).result
    print(f"{result.testsRun - len(result.skipped)} run, {len(result.skipped)} skipped")
    sys.exit(77 if result.wasSuccessful() and len(result.skipped) == result.testsRun else not result.wasSuccessful())
