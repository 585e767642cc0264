"""A file used through NFS and through XDS on one node: what one has written, the other sees when it looks next, data and
attributes alike, whatever either has read before. The target of XDS is a process beside the gateway."""
import errno
import os
import pathlib
import subprocess
import sys
import time

import case
import nfs3
import nfs4_ops as ops

BUILD = os.environ["FABRIC_BUILD_DIR"]
sys.path.insert(0, f"{BUILD}/xds/python")
try:
    import xds
except ImportError:
    xds = None


class BesideFabricd(case.GatewayCase):
    @classmethod
    def setUpClass(cls):
        if xds is None:
            raise case.unittest.SkipTest("the Python package of XDS was not built")
        super().setUpClass()
        cls.folder = pathlib.Path(cls.gateway.work)
        config = cls.folder / "fabricd.yaml"
        config.write_text(f"xds:\n  listen: 127.0.0.1:0\n  rdma: off\n  root: {cls.backing}\n  lanes: 1\n"
                          f"security:\n  anonymous_uid: {os.geteuid()}\n  anonymous_gid: {os.getegid()}\n" +
                          (f"gateway:\n  control: {cls.gateway.control_socket}\n" if cls.gateway.writes_back else ""))
        daemon = subprocess.Popen([f"{BUILD}/burstbuffer/fabricd/fabricd", "--config", str(config)], text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        cls.addClassCleanup(daemon.stdout.close)
        cls.addClassCleanup(daemon.wait)
        cls.addClassCleanup(daemon.kill)
        cls.context = xds.Context("127.0.0.1:" + daemon.stdout.readline().strip().split("=")[1], verify=True)
        cls.addClassCleanup(cls.context.close)


class XdsCoherence(BesideFabricd):
    def setUp(self):
        self.only_fabric("trusts attributes for a minute")

    def look(self, client, handle):
        """(size, something that differs after each change) as a GETATTR tells it."""
        if isinstance(client, nfs3.Client):
            found = client.getattr(handle)
            return found.size, (found.mtime, found.ctime)
        found = client.run(ops.putfh(handle), ops.getattr_(ops.SIZE, ops.CHANGE))[-1]
        return found[ops.SIZE], found[ops.CHANGE]

    def test_each_sees_what_the_other_wrote(self):
        for name, client in self.clients():
            with self.subTest(name):
                root = client.root if isinstance(client, nfs3.Client) else client.handle()
                handle = client.put(root, name, b"0" * 5000)
                changes = {self.look(client, handle)[1]}
                with self.context.open(name, "r+") as file:
                    for number in range(1, 15):
                        content = bytes([48 + number]) * (5000 + 3000 * number)
                        # A clock tick of the kernel: two changes within one have the same time on any file system.
                        time.sleep(0.01)
                        if number % 2 == 1:
                            file.write(content)
                            size, change = self.look(client, handle)
                            self.assertEqual(client.read_all(handle), content)
                        else:
                            client.put(root, name, content)
                            self.gateway.drain()
                            size, change = self.look(client, handle)
                            memory = bytearray(len(content) + 10)
                            self.assertEqual(file.read_into(memory), len(content))
                            self.assertEqual(memory[:len(content)], content)
                            self.assertEqual(file.size, len(content))
                        self.assertEqual(size, len(content))
                        self.assertNotIn(change, changes)
                        changes.add(change)

    def test_new_files_and_truncation(self):
        for name, client in self.clients():
            with self.subTest(name):
                root = client.root if isinstance(client, nfs3.Client) else client.handle()
                fresh = "new-" + name
                names = [entry.name.decode() for entry in client.list(root)]
                self.assertNotIn(fresh, names)
                with self.context.open(fresh, "w") as file:
                    file.write(b"x" * 10_000)
                self.assertIn(fresh, [entry.name.decode() for entry in client.list(root)])
                if isinstance(client, nfs3.Client):
                    handle = client.lookup(root, fresh).handle
                else:
                    handle = client.run(ops.putfh(root), ops.lookup(fresh), ops.getfh())[-1]
                self.assertEqual(client.read_all(handle), b"x" * 10_000)
                time.sleep(0.01)
                with self.context.open(fresh, "w"):
                    pass
                self.assertEqual(self.look(client, handle)[0], 0)
                self.assertEqual(client.read_all(handle), b"")


class WrittenBack(BesideFabricd):
    """Files that the gateway has not drained are drained when they are opened through XDS. Where they cannot be, the error
    says so: never other bytes."""

    @classmethod
    def exports(cls):
        cls.options = {"burst_buffer": True, "write_back": "  paths:\n    - /**\n  shutdown: keep"}
        return super().exports()

    def setUp(self):
        self.only_fabric("has no burst buffer")
        self.client = self.v3()

    def tearDown(self):
        self.gateway.set_faults("")
        super().tearDown()

    def test_an_open_drains(self):
        self.gateway.set_faults("drain.open=delay:100")  # who does not wait for it is too early
        for number in range(5):
            content = os.urandom(300_000 + number)
            self.client.put(self.client.root, f"open{number}", content)
            with self.context.open(f"open{number}") as file:
                memory = bytearray(len(content))
                self.assertEqual(file.read_into(memory), len(content))
                self.assertTrue(memory == content, "other bytes")

    def test_what_cannot_be_drained_is_not_served(self):
        self.gateway.set_faults("drain.open=ENOSPC")
        content = os.urandom(70_000)
        self.client.put(self.client.root, "held", content)
        self.assertEqual((self.backing / "held").read_bytes(), bytes(len(content)), "it is drained: the test shows nothing")
        with self.assertRaises(OSError) as raised:
            self.context.open("held")
        self.assertEqual(raised.exception.errno, errno.EIO)
        self.assertIn("No space left", str(raised.exception))
        with self.assertRaises(OSError):
            self.context.open("held", "w")
        self.gateway.set_faults("")
        with self.context.open("held") as file:
            memory = bytearray(len(content))
            file.read_into(memory)
            self.assertTrue(memory == content, "other bytes")

    def test_a_batch_drains(self):
        self.gateway.set_faults("drain.open=delay:20")
        contents = [os.urandom(4000 + number) for number in range(50)]
        for number, content in enumerate(contents):
            self.client.put(self.client.root, f"small{number}", content)
        memories = [bytearray(len(content)) for content in contents]
        self.assertTrue([(self.backing / f"small{number}").read_bytes() for number in range(50)] != contents, "drained already")
        self.context.read_many([(f"small{number}", memory) for number, memory in enumerate(memories)])
        wrong = [number for number, memory in enumerate(memories) if memory != contents[number]]
        self.assertEqual(wrong, [])

    def test_truncation_cuts_what_was_not_drained(self):
        for number in range(10):
            handle = self.client.put(self.client.root, "cut", os.urandom(500_000))
            with self.context.open("cut", "w") as file:
                file.write(b"short")
            self.gateway.drain()
            self.assertEqual((self.backing / "cut").read_bytes(), b"short")
            self.assertEqual(self.client.read_all(handle), b"short")

    def test_without_the_gateway_nothing_is_served(self):
        self.client.put(self.client.root, "alone", b"x" * 5000)
        self.gateway.kill9()
        try:
            with self.assertRaises(OSError) as raised:
                self.context.open("alone")
            self.assertEqual(raised.exception.errno, errno.EIO)
            self.assertIn("gateway.control", str(raised.exception))
        finally:
            self.gateway.restart()
        with self.context.open("alone") as file:
            memory = bytearray(5000)
            file.read_into(memory)
            self.assertEqual(memory, b"x" * 5000)


if __name__ == "__main__":
    case.main()
