#!/usr/bin/env python3
"""xdscp, xds-info, xdsbench and fabricd as a user runs them.

usage: tools_test.py FABRICD XDSCP XDS_INFO XDSBENCH [TEST...]
XDS_TEST_RDMA names the address of an RDMA device, to be used instead of TCP.
"""
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

FABRICD, XDSCP, XDS_INFO, XDSBENCH = sys.argv[1:5]
HOST = os.environ.get("XDS_TEST_RDMA", "127.0.0.1")


class Tools(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="xds-tools-", dir=os.environ.get("TEST_TMPDIR"))
        self.root = os.path.join(self.folder.name, "root")
        os.mkdir(self.root)
        self.config = os.path.join(self.folder.name, "fabricd.yaml")
        with open(self.config, "w", encoding="ascii") as file:
            file.write(f"xds:\n  listen: {HOST}:0\n  root: {self.root}\n  lanes: 1\n  drain_seconds: 5\n"
                       f"security:\n  anonymous_uid: {os.geteuid()}\n  anonymous_gid: {os.getegid()}\n"
                       "metrics:\n  listen: 127.0.0.1:0\n")
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(os.path.join(self.folder.name, "notify"))
        self.notify.settimeout(20)
        self.daemon = subprocess.Popen([FABRICD, "--config", self.config], stdout=subprocess.PIPE, text=True,
                                       stderr=subprocess.DEVNULL,
                                       env=os.environ | {"NOTIFY_SOCKET": self.notify.getsockname()})
        self.status = dict(self.daemon.stdout.readline().strip().split("=") for _ in range(3))
        self.address = f"{HOST}:{self.status['xds_port']}"
        self.environment = os.environ | {"XDS_ADDRESS": self.address}

    def tearDown(self):
        self.daemon.kill()
        self.daemon.wait()
        self.daemon.stdout.close()
        self.notify.close()
        self.folder.cleanup()

    def run_tool(self, *words, expect=0):
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=self.environment, check=False)
        self.assertEqual(done.returncode, expect, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def write(self, path, length):
        data = random.Random(length).randbytes(length)
        with open(path, "wb") as file:
            file.write(data)
        return data

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()

    def test_copies_both_ways(self):
        for length in (0, 1, 4097, 23_000_001):
            data = self.write(os.path.join(self.root, "there"), length)
            here = os.path.join(self.folder.name, "here")
            self.run_tool(XDSCP, "--verify", "xds:there", here)
            self.assertEqual(self.read(here), data)
            self.run_tool(XDSCP, "--verify", "--depth", "3", "--block", "1MiB", here, f"xds://{self.address}/back")
            self.assertEqual(self.read(os.path.join(self.root, "back")), data)
        self.assertIn("100.0%", self.run_tool(XDSCP, "--progress", "xds:there", here))

    def test_failures_leave_nothing_and_name_the_cause(self):
        here = os.path.join(self.folder.name, "here")
        self.assertIn("No such file", self.run_tool(XDSCP, "xds:missing", here, expect=1))
        self.assertFalse(os.path.exists(here))
        self.assertFalse(os.path.exists(here + ".xdscp-partial"))
        self.run_tool(XDSCP, "a", "b", expect=1)
        self.run_tool(XDSCP, "a", expect=2)
        self.run_tool(XDSCP, "--block", "7", "xds:a", here, expect=2)
        self.assertIn("Connection refused", self.run_tool(XDSCP, "xds://127.0.0.1:1/a", here, expect=1))

    def test_info_explains(self):
        self.write(os.path.join(self.root, "f"), 10)
        text = self.run_tool(XDS_INFO, "--file", "f")
        self.assertIn("host memory: tcp: ", text)
        self.assertIn("sim memory: staged: ", text)
        self.assertIn("rdma", text)
        self.run_tool(XDS_INFO, "--file", "missing", expect=1)

    def test_bench_reports(self):
        report = os.path.join(self.folder.name, "report.json")
        text = self.run_tool(XDSBENCH, "--size", "8MiB", "--block", "256KiB", "--depth", "4", "--threads", "2", "--seconds", "0.2",
                             "--op", "write,read,randread,many", "--kind", "host,sim", "--verify", "--json", report)
        self.assertIn("staged", text)
        with open(report, encoding="ascii") as file:
            results = json.load(file)
        self.assertEqual(len(results), 8)
        for result in results:
            self.assertGreater(result["ours"], 0)
            self.assertLessEqual({"name", "unit", "better", "ours", "peers", "ratios", "runs"}, set(result))
        paths = {result["name"]: result["path"] for result in results}
        rdma = HOST != "127.0.0.1"
        self.assertEqual(paths["xds.read.host"], "direct" if rdma else "tcp")
        self.assertEqual(paths["xds.many.host"], "direct" if rdma else "tcp")     # 64 KiB: not small any more
        self.assertEqual({paths["xds.read.sim"], paths["xds.many.sim"]}, {"staged"})

    def test_help_and_man_pages(self):
        for tool in (FABRICD, XDSCP, XDS_INFO, XDSBENCH):
            self.assertIn("--help", self.run_tool(tool, "--help"))
            self.run_tool(tool, "--no-such-option", expect=109 if tool == FABRICD else 2)

    def test_fabricd_tells_the_service_manager_and_drains(self):
        self.assertIn(b"READY=1", self.notify.recv(1000))
        self.daemon.send_signal(signal.SIGHUP)
        self.assertEqual(self.notify.recv(1000), b"RELOADING=1")
        self.assertEqual(self.notify.recv(1000), b"READY=1")
        self.daemon.send_signal(signal.SIGTERM)
        self.assertIn(b"STOPPING=1", self.notify.recv(1000))
        self.assertEqual(self.daemon.wait(timeout=20), 0)

    def test_fabricd_checks_its_configuration(self):
        self.assertIn("right", self.run_tool(FABRICD, "--check", "--config", self.config))
        wrong = os.path.join(self.folder.name, "wrong.yaml")
        with open(wrong, "w", encoding="ascii") as file:
            file.write("xds:\n  root: /\n  colour: red\n")
        self.assertIn("wrong.yaml:3: xds.colour", self.run_tool(FABRICD, "--check", "--config", wrong, expect=2))
        self.run_tool(FABRICD, "--config", os.path.join(self.folder.name, "missing"), expect=2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:], verbosity=2)
