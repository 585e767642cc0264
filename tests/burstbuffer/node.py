"""A fabricd with a burst buffer, in a folder of the test's own."""
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

FABRICD, FABRICCTL = sys.argv[1:3]
MIB = 1 << 20


class NodeCase(unittest.TestCase):
    capacity = "256MiB"
    segment = "4MiB"
    disks = 2
    settings = ""                                   # further sections of the burst buffer's configuration

    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/var/tmp", prefix="fabric-bb.")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.data = self.folder / "data"
        self.data.mkdir()
        self.socket = self.folder / "run" / "ctl.sock"
        self.faults = self.folder / "faults"
        self.faults.write_text("")
        self.process = None
        self.write_settings()
        self.start()
        self.addCleanup(self.stop)

    def write_settings(self):
        disks = ""
        for number in range(self.disks):
            (self.folder / f"d{number}").mkdir(exist_ok=True)
            disks += f"  - folder: {self.folder}/d{number}\n    capacity: {self.capacity}\n    reserve: 0\n    segment: {self.segment}\n"
        (self.folder / "bb.yaml").write_text(f"disks:\n{disks}control:\n  socket: {self.socket}\n" + self.settings)
        (self.folder / "fabricd.yaml").write_text(
            f"xds:\n  listen: 127.0.0.1:0\n  root: {self.data}\nburst_buffer:\n  config: {self.folder}/bb.yaml\n")

    def start(self):
        environment = dict(os.environ, FABRIC_FAULT_FILE=str(self.faults))
        self.log = open(self.folder / "log", "a")
        self.process = subprocess.Popen([FABRICD, "--config", self.folder / "fabricd.yaml"], stdout=subprocess.PIPE,
                                        stderr=self.log, text=True, env=environment)
        said = {}
        for line in self.process.stdout:
            key, _, value = line.strip().partition("=")
            said[key] = value
            if key == "control_socket":
                break
        self.assertIn("control_socket", said, (self.folder / "log").read_text())

    def stop(self, how=signal.SIGTERM):
        if self.process is None:
            return
        self.process.send_signal(how)
        status = self.process.wait(60)
        self.process.stdout.close()
        self.log.close()
        self.process = None
        if how == signal.SIGTERM:
            self.assertEqual(status, 0, (self.folder / "log").read_text())

    def ctl(self, order, *arguments):
        """Exit status, standard output, standard error."""
        done = subprocess.run([FABRICCTL, order, "--socket", self.socket, *map(str, arguments)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=120)
        return done.returncode, done.stdout, done.stderr

    def answer(self, order, *arguments, status=0):
        """The last line of --json, and the events before it."""
        returned, out, err = self.ctl(order, "--json", *arguments)
        self.assertEqual(returned, status, out + err)
        lines = [json.loads(line) for line in out.splitlines()]
        return lines[-1], lines[:-1]

    def arm(self, faults):
        """common/fault.h; returns when the node has taken them."""
        armed = self.folder / "faults.armed"
        # Another file in its place: a reader sees the old or the new one.
        new = self.folder / "faults.new"
        new.write_text(faults)
        new.rename(self.faults)
        deadline = time.time() + 30
        while not armed.exists() or armed.read_text() != "armed: " + faults:
            self.assertLess(time.time(), deadline, "the faults were not armed")
            time.sleep(0.02)

    def make_files(self, folder, count, size=4096):
        folder.mkdir(parents=True, exist_ok=True)
        long_ago = time.time() - 100
        for number in range(count):
            path = folder / f"{number:05}"
            path.write_bytes(os.urandom(size if isinstance(size, int) else size(number)))
            os.utime(path, (long_ago, long_ago))
        return count

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(self.socket))
        client.settimeout(30)
        return client


def framed(text):
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<I", len(data)) + data


def receive(client):
    def exactly(size):
        data = b""
        while len(data) < size:
            piece = client.recv(size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return data
    return json.loads(exactly(struct.unpack("<I", exactly(4))[0]))
