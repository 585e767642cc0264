"""What comes over the control socket is not to be trusted: the node answers, or hangs up, and lives."""
import json
import os
import random
import struct
import subprocess
import sys
import time
import unittest

from node import NodeCase, framed, receive


class Control(NodeCase):
    def lives(self):
        self.assertIsNone(self.process.poll(), (self.folder / "log").read_text())
        with self.connect() as client:
            client.sendall(framed('{"order": "status"}'))
            self.assertEqual(len(receive(client)["disks"]), 2)

    def lives_when_they_are_gone(self):
        """The node has so many clients at once; who comes while it still finds out that others left is told so."""
        for _ in range(100):
            try:
                return self.lives()
            except (KeyError, EOFError, ConnectionError):
                time.sleep(0.1)
        return self.lives()

    def refused(self, data):
        with self.connect() as client:
            client.sendall(data)
            answer = receive(client)
            self.assertFalse(answer["ok"])
            self.assertTrue(answer["end"])
            return answer["error"]

    def test_what_is_no_message(self):
        for text in ("", "x", "[]", '"status"', "{", '{"order": ', "nul", "\0" * 100, b"\xff\xfe", "[" * 100000, '{"a":' * 50000):
            self.refused(framed(text))
        self.assertIn("4294967295", self.refused(struct.pack("<I", 0xFFFFFFFF)))
        self.lives()

    def test_orders_that_make_no_sense(self):
        for order in ({}, {"order": 7}, {"order": "dance"}, {"order": "stage"}, {"order": "stage", "paths": 3},
                      {"order": "stage", "paths": [3]}, {"order": "stage", "paths": ["relative"]}, {"order": "ls", "paths": []},
                      {"order": "stage", "paths": ["/x"], "ttl": -1}, {"order": "stage", "paths": ["/x"], "ttl": 1e300},
                      {"order": "stage", "paths": ["/x"], "pin": "yes"}, {"order": "stage", "manifest": "/no/such"},
                      {"order": "pin", "paths": ["/x"], "ttl": "soon"}, {"order": "settle", "file": 7},
                      {"order": "settle", "file": ""}, {"order": "settle", "file": "abc"}, {"order": "settle", "file": "0g"},
                      {"order": "settle", "file": "-1"}, {"order": "settle", "file": "00" * 16}, {"order": "settle", "file": "ff" * 500}):
            self.refused(framed(json.dumps(order)))
        self.lives()

    def test_clients_that_stop_in_the_middle(self):
        for data in (b"", b"\1", struct.pack("<I", 100), struct.pack("<I", 100) + b"{" * 50, framed('{"order": "status"}')):
            with self.connect() as client:
                client.sendall(data)
        self.lives()

    def test_noise(self):
        generator = random.Random(5)
        for _ in range(300):
            with self.connect() as client:
                client.sendall(generator.randbytes(generator.randrange(60)))
        self.lives_when_they_are_gone()

    def test_more_clients_than_are_served(self):
        clients = [self.connect() for _ in range(100)]
        for client in clients:
            client.close()
        self.lives_when_they_are_gone()

    def test_one_client_several_orders(self):
        with self.connect() as client:
            for _ in range(5):
                client.sendall(framed('{"order": "status"}'))
                self.assertTrue(receive(client)["ok"])

    def test_other_users_are_refused(self):
        program = ("import socket, sys\n"
                   "client = socket.socket(socket.AF_UNIX)\n"
                   "client.connect(sys.argv[1])\n"
                   "print(client.recv(4096))\n")
        os.chmod(self.folder, 0o755)
        os.chmod(self.socket.parent, 0o755)

        def as_nobody():
            return subprocess.run(["/usr/bin/python3", "-c", program, str(self.socket)], user=65534, group=65534, extra_groups=[],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60).stdout
        self.assertIn("Permission denied", as_nobody())
        os.chmod(self.socket, 0o666)  # an administrator's mistake
        self.assertIn("not user 65534", as_nobody())
        self.lives()


if __name__ == "__main__":
    unittest.main(argv=["control_test.py", *sys.argv[3:]])
