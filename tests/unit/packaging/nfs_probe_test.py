#!/usr/bin/env python3
"""Runs nfs-probe against a small server of its own: exit statuses, what is asked, table and JSON.

    nfs_probe_test.py /path/to/nfs-probe
"""
import json
import socket
import struct
import subprocess
import sys
import threading
import unittest

PROBE = None
NFS, MOUNT, RPCBIND = 100003, 100005, 100000


class Server:
    """Answers NULL of the programs it is given, EXPORT, and GETPORT with its own port."""

    def __init__(self, programs):
        self.programs = programs
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            while len(mark := stream.read(4)) == 4:
                body = stream.read(struct.unpack(">I", mark)[0] & 0x7fffffff)
                xid, _, _, program, version, procedure = struct.unpack(">6I", body[:24])
                reply = struct.pack(">6I", xid, 1, 0, 0, 0, 0)
                if program not in self.programs:
                    reply = struct.pack(">6I", xid, 1, 0, 0, 0, 1)
                elif program == RPCBIND and procedure == 3:
                    reply += struct.pack(">I", self.port)
                elif program == MOUNT and procedure == 5:
                    reply += struct.pack(">II4sII", 1, 4, b"/exp", 0, 0)
                elif program == NFS and version == 4 and procedure == 1:
                    minor = struct.unpack(">I", body[44:48])[0]
                    reply += struct.pack(">III", 0 if minor < 2 else 10021, 0, 0)
                connection.sendall(struct.pack(">I", 0x80000000 | len(reply)) + reply)

    def close(self):
        self.listener.close()


def probe(*arguments):
    return subprocess.run([PROBE, *arguments], capture_output=True, text=True, timeout=60)


def ports(server):
    return ["--nfs-port", str(server.port), "--rpcbind-port", str(server.port)]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class NfsProbe(unittest.TestCase):
    def test_all_answered(self):
        done = probe(*ports(Server({NFS, MOUNT, RPCBIND})), "--count", "3")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"(?m)^nfs4 .*minor versions 4\.0 4\.1$")
        self.assertIn("export   /exp  for everybody\n", done.stdout)

    def test_json(self):
        server = Server({NFS, MOUNT, RPCBIND})
        done = probe(*ports(server), "--count", "3", "--json")
        report = json.loads(done.stdout)
        self.assertTrue(report["ok"])
        checks = {check["name"]: check for check in report["checks"]}
        self.assertEqual(list(checks), ["rpcbind", "nfs3", "nfs4", "mount", "exports"])
        self.assertEqual(checks["mount"]["port"], server.port)      # as rpcbind said
        self.assertEqual(checks["exports"]["exports"], [{"path": "/exp", "groups": []}])
        times = checks["nfs3"]["rtt_us"]
        self.assertEqual(times["count"], 3)
        self.assertTrue(0 < times["min"] <= times["median"] <= times["max"])

    def test_some_failed(self):
        done = probe(*ports(Server({NFS, RPCBIND})))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"(?m)^mount .*FAILED.*does not have this program$")

    def test_only(self):
        done = probe(*ports(Server({NFS})), "--only", "nfs3,nfs4")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn("mount", done.stdout)

    def test_nothing_listens(self):
        port = str(free_port())
        done = probe("--nfs-port", port, "--rpcbind-port", port)
        self.assertEqual(done.returncode, 3)
        self.assertIn(f"connection refused: nothing listens on 127.0.0.1 port {port}", done.stdout)
        self.assertIn("--mount-port", done.stdout)
        self.assertIn("is the gateway running?", done.stderr)

    def test_json_when_nothing_listens_is_still_json(self):
        port = str(free_port())
        done = probe("--nfs-port", port, "--rpcbind-port", port, "--json")
        self.assertEqual(done.returncode, 3)
        self.assertFalse(json.loads(done.stdout)["ok"])
        self.assertEqual(done.stderr, "")

    def test_waits_for_a_server_that_comes_later(self):
        port = free_port()
        waiting = subprocess.Popen([PROBE, "--nfs-port", str(port), "--only", "nfs3", "--wait", "60"],
                                   stdout=subprocess.PIPE, text=True)
        server = Server.__new__(Server)
        server.programs = {NFS}
        server.listener = socket.create_server(("127.0.0.1", port))
        server.port = port
        threading.Thread(target=server.accept, daemon=True).start()
        output, _ = waiting.communicate(timeout=60)
        self.assertEqual(waiting.returncode, 0, output)

    def test_usage(self):
        for arguments in (["--nfs-port", "0"], ["--nfs-port", "70000"], ["--only", "nfs9"], ["--count", "0"], ["--what"]):
            self.assertEqual(probe(*arguments).returncode, 2, arguments)
        helped = probe("--help")
        self.assertEqual(helped.returncode, 0)
        for option in ("--nfs-port", "--mount-port", "--rpcbind-port", "--only", "--count", "--timeout", "--wait", "--json"):
            self.assertIn(option, helped.stdout)


if __name__ == "__main__":
    PROBE = sys.argv.pop(1)
    unittest.main()
