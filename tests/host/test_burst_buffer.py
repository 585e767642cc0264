"""A gateway with a burst buffer: the bytes are right wherever they come from, and they come from where they should."""
import os
import random
import subprocess
import time

import case
import gateway as gw
import nfs4_ops as ops

MIB = 1 << 20
PIECE = 1 << 17


def drop_from_page_cache(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class BurstBuffer(case.GatewayCase):
    options = {"burst_buffer": True}

    def setUp(self):
        self.only_fabric("has no burst buffer")
        self.files = {}

    def file(self, name, size):
        """A file on the backing store that is not in the page cache, and may be cached."""
        path = self.backing / name
        path.write_bytes(os.urandom(size))
        os.chmod(path, 0o666)
        drop_from_page_cache(path)
        time.sleep(0.05)  # settle_ms of tests/lib/gateway.py
        return path, path.read_bytes()

    def metric(self, name):
        return self.gateway.metrics().get(name, 0)

    def from_buffer(self):
        return self.metric('fabric_bytes_total{direction="read",path="burst_buffer"}')

    def test_what_is_read_again_comes_from_the_disk(self):
        for version, client in [("v3", self.v3()), ("v4.2", self.v41(2))]:
            path, content = self.file(f"again-{version}", 3 * MIB + 777)
            disk = self.metric('fabric_cache_chunks_total{from="disk"}')
            deadline = time.monotonic() + 60        # what was read is on the disk a while later
            while self.metric('fabric_cache_chunks_total{from="disk"}') == disk:
                self.assertLess(time.monotonic(), deadline, f"{version}: nothing comes from the disk")
                drop_from_page_cache(path)
                before = self.from_buffer()
                self.assertEqual(self.read_all(client, path.name), content, version)
                self.assertGreater(self.from_buffer() - before, 0, version)

    def read_all(self, client, name):
        if hasattr(client, "lookup"):
            return client.read_all(client.lookup(client.root, name).handle)
        handle, content = client.handle(name), b""
        while True:
            part = client.run(ops.putfh(handle), ops.read(ops.ANONYMOUS, len(content), PIECE))[-1]
            content += part.data
            if part.eof:
                return content

    def test_what_was_staged_is_not_read_from_the_backing_store(self):
        (self.backing / "set").mkdir()
        contents = {f"set/{number:03}": os.urandom(1 + number * 997 % 60000) for number in range(60)}
        for name, content in contents.items():
            (self.backing / name).write_bytes(content)
        ctl = subprocess.run([gw.ROOT / "build/burstbuffer/fabricctl/fabricctl" if "FABRIC_BUILD_DIR" not in os.environ else
                              os.environ["FABRIC_BUILD_DIR"] + "/burstbuffer/fabricctl/fabricctl", "stage", "--socket",
                              self.gateway.control_socket, self.backing / "set"], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
        self.assertEqual(ctl.returncode, 0, ctl.stdout)
        for name in contents:
            drop_from_page_cache(self.backing / name)
        client, fetched = self.v3(), self.metric("fabric_cache_fetched_bytes_total")
        before = self.from_buffer()
        for epoch in range(3):
            for name, content in contents.items():
                self.assertEqual(client.read_all(client.walk(name)), content, (epoch, name))
        self.assertEqual(self.metric("fabric_cache_fetched_bytes_total"), fetched)
        self.assertEqual(self.from_buffer() - before, 3 * sum(map(len, contents.values())))

    def test_a_file_overwritten_behind_the_gateway(self):
        client = self.v3()
        path, content = self.file("behind", 300000)
        for _ in range(10):
            self.assertEqual(self.read_all(client, "behind"), content)
            content = os.urandom(300000)
            with open(path, "r+b") as file:
                file.write(content)
            drop_from_page_cache(path)
            self.assertEqual(self.read_all(client, "behind"), content)
            time.sleep(0.03)

    def test_random_reads_and_writes_through_the_gateway_are_a_files(self):
        client, generator = self.v3(), random.Random(11)
        path, content = self.file("model", 2 * MIB + 12345)
        model = bytearray(content)
        handle = client.lookup(client.root, "model").handle
        for step in range(400):
            offset = generator.randrange(len(model))
            if generator.random() < 0.2:
                data = generator.randbytes(1 + generator.randrange(70000))
                client.write(handle, offset, data)
                model[offset:offset + len(data)] = data
            else:
                if generator.random() < 0.3:
                    drop_from_page_cache(path)
                    time.sleep(0.025)
                length = 1 + generator.randrange(500000)
                data = client.read(handle, offset, length).data
                self.assertEqual(data, bytes(model[offset:offset + len(data)]), (step, offset, length))
                self.assertTrue(data)
        self.assertGreater(self.from_buffer(), 0)

    def test_more_than_the_cache_holds(self):
        client = self.v3()
        files = [self.file(f"large-{number}", 5 * MIB) for number in range(20)]
        for _ in range(2):
            for path, content in files:
                drop_from_page_cache(path)
                self.assertEqual(self.read_all(client, path.name), content)

    def test_a_failing_disk_costs_nothing_but_time(self):
        client = self.v3()
        path, content = self.file("failing", MIB)
        self.read_all(client, "failing")
        self.gateway.set_faults("store.read=EIO store.write=EIO disk.probe=EIO")
        rests, returns = self.metric("fabric_disk_rests_total"), self.metric("fabric_disk_returns_total")
        deadline = time.time() + 60
        while self.metric("fabric_disk_rests_total") == rests:
            self.assertLess(time.time(), deadline, "the disk is not set aside")
            drop_from_page_cache(path)
            self.assertEqual(self.read_all(client, "failing"), content)
        drop_from_page_cache(path)
        self.assertEqual(self.read_all(client, "failing"), content, "without the disk")
        self.gateway.set_faults("")
        deadline = time.time() + 60
        while self.metric("fabric_disk_returns_total") == returns:
            self.assertLess(time.time(), deadline, f"the disk is not taken back: {self.gateway.log_tail()}")
            time.sleep(0.1)

    def test_it_is_there_after_a_kill(self):
        path, content = self.file("kept", 2 * MIB)
        client, admitted = self.v3(), self.metric("fabric_cache_admitted_total")
        deadline = time.time() + 60
        # The disk may still be set aside by another test.
        while self.metric("fabric_cache_admitted_total") < admitted + 2:
            self.assertLess(time.time(), deadline)
            drop_from_page_cache(path)
            self.read_all(client, "kept")
            time.sleep(0.1)
        self.gateway.kill9()
        self.gateway.start()
        drop_from_page_cache(path)
        client = self.v3()
        self.assertEqual(self.read_all(client, "kept"), content)
        self.assertGreater(self.metric('fabric_cache_chunks_total{from="disk"}'), 0)


if __name__ == "__main__":
    case.main()
