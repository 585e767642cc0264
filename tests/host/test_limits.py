"""Full disks and quotas, no descriptors left, many connections, slow readers, floods: a named error or slower service,
service to the others, bounded memory."""
import os
import resource
import select
import subprocess
import time
import unittest

import case
import image
import nfs3
import nfs4_ops as ops
import rpc

MEBIBYTE = 1 << 20


def image_or_skip(cls, *arguments, **options):
    try:
        made = image.Image(*arguments, **options)
    except image.NoImage as error:
        raise unittest.SkipTest(str(error)) from error
    cls.addClassCleanup(made.close)
    return made


class FullDisk(case.GatewayCase):
    @classmethod
    def make_backing(cls):
        cls.image = image_or_skip(cls, 24, mkfs=("-O", "^has_journal", "-m", "0"))
        return cls.image.path

    def fill(self, client):
        """Writes until the file system is full; the handle of the file."""
        file = client.create(client.root, "filler").handle
        offset = 0
        with self.assertRaises(nfs3.NfsError) as raised:
            while offset < 64 * MEBIBYTE:
                offset += client.write(file, offset, b"f" * MEBIBYTE, nfs3.FILE_SYNC).count
        self.assertEqual(raised.exception.name, "NOSPC")
        return file

    def test_enospc_reaches_every_caller_and_passes(self):
        self.not_written_back("the burst buffer has room for what the file system has none for")
        client, v4 = self.v3(), self.v41(2)
        small = client.put(client.root, "small", b"small")
        self.fill(client)
        fresh = client.create(client.root, "more").handle
        self.assert_status("NOSPC", client.write, fresh, 0, b"m" * MEBIBYTE, nfs3.FILE_SYNC)
        opened = v4.open(v4.handle(), "more4", how=ops.UNCHECKED)
        self.assert_status("NOSPC", v4.run, ops.putfh(opened.handle), ops.write(opened.stateid, 0, b"m" * MEBIBYTE, 2))
        self.assert_status(("NOSPC", "NOTSUPP"), v4.run, ops.putfh(opened.handle), ops.allocate(opened.stateid, 0, 16 * MEBIBYTE))
        self.assertEqual(client.read_all(small), b"small")
        v4.close(opened)
        client.remove(client.root, "filler")
        content = os.urandom(MEBIBYTE)
        self.assertEqual(client.read_all(client.put(client.root, "after", content)), content)

    def test_a_full_disk_found_out_by_commit(self):
        """Unstable writes beyond the space: an error at WRITE or COMMIT, never both successful."""
        self.not_written_back("what the backing store has no room for waits in the burst buffer, and is shown")
        client = self.v3()
        file = client.create(client.root, "unstable").handle
        try:
            for offset in range(0, 40 * MEBIBYTE, MEBIBYTE):
                client.write(file, offset, b"u" * MEBIBYTE)
            client.commit(file)
        except nfs3.NfsError as error:
            self.assertEqual(error.name, "NOSPC")
        else:
            self.fail("40 MiB were acknowledged on a file system of 24 MiB")
        client.remove(client.root, "unstable")


class NoInodes(case.GatewayCase):
    @classmethod
    def make_backing(cls):
        cls.image = image_or_skip(cls, 16, mkfs=("-N", "64"))
        return cls.image.path

    def test_no_inodes_left_is_enospc(self):
        client = self.v3()
        with self.assertRaises(nfs3.NfsError) as raised:
            for number in range(200):
                client.create(client.root, f"file-{number}")
        self.assertEqual(raised.exception.name, "NOSPC")
        self.assert_status("NOSPC", client.mkdir, client.root, "dir")
        self.assert_status("NOSPC", client.symlink, client.root, "link", "x" * 100)
        client.remove(client.root, "file-0")
        client.create(client.root, "fits-now")


class Quota(case.GatewayCase):
    USER = 12345

    @classmethod
    def make_backing(cls):
        cls.image = image_or_skip(cls, 64, mkfs=("-O", "quota"), options="usrquota")
        done = subprocess.run(["setquota", "-u", str(cls.USER), "0", "2048", "0", "20", str(cls.image.path)], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise unittest.SkipTest(f"setquota does not work here (package quota): {done.stdout.strip()[-200:]}")
        return cls.image.path

    def test_the_callers_quota_holds(self):
        client = self.v3()
        client.connection.credential = rpc.auth_sys(self.USER, self.USER)
        file = client.create(client.root, "quota").handle
        with self.assertRaises(nfs3.NfsError) as raised:
            for offset in range(0, 8 * MEBIBYTE, 1 << 18):
                client.write(file, offset, b"q" * (1 << 18), nfs3.FILE_SYNC)
        self.assertEqual(raised.exception.name, "DQUOT")
        with self.assertRaises(nfs3.NfsError) as raised:
            for number in range(40):
                client.create(client.root, f"q{number}")
        self.assertEqual(raised.exception.name, "DQUOT")
        other = self.v3()
        content = os.urandom(3 * MEBIBYTE)
        self.assertEqual(other.read_all(other.put(other.root, "others", content)), content)


class Descriptors(case.GatewayCase):
    options = {"limits": {resource.RLIMIT_NOFILE: (400, 400)}}

    @classmethod
    def prepare(cls):
        for number in range(2000):
            (cls.backing / f"file-{number:04}").write_bytes(b"%04d" % number)

    def test_more_files_than_descriptors(self):
        """Every call ends in success or a retryable error, and after a while everything works by itself."""
        client = self.v3()
        handles = [client.lookup(client.root, f"file-{number:04}").handle for number in range(2000)]
        pending = list(range(2000))
        deadline = time.monotonic() + 240
        while pending:
            self.assertLess(time.monotonic(), deadline, f"{len(pending)} files could not be read")
            retry = []
            for number in pending:
                try:
                    self.assertEqual(client.read(handles[number], 0, 10).data, b"%04d" % number)
                except nfs3.NfsError as error:
                    self.assertEqual(error.name, "JUKEBOX")
                    retry.append(number)
            pending = retry
        self.assertLessEqual(self.gateway.fds(), 400)

    def test_open_state_of_v4_beyond_the_limit(self):
        client = self.v41()
        root = client.handle()
        opened, refused = [], 0
        for number in range(600):
            try:
                opened.append(client.open(root, f"file-{number:04}", share=ops.READ_ACCESS))
            except nfs3.NfsError as error:
                self.assertIn(error.name, ("DELAY", "RESOURCE", "SERVERFAULT") if self.gateway.fsal != "FABRIC" else
                              ("DELAY", "RESOURCE"))
                refused += 1
        for one in opened:
            client.close(one)
        self.assertTrue(opened)
        other = self.v3()
        self.assertEqual(other.read_all(other.walk("file-1999")), b"1999")

    def test_more_connections_than_descriptors(self):
        held = []
        self.addCleanup(lambda: [one.close() for one in held])
        try:
            for _ in range(600):
                held.append(rpc.Connection(self.gateway.nfs_port, timeout=2))
        except OSError:
            pass                                    # refused is as good as accepted and closed
        for one in held:
            one.close()
        held.clear()
        client = retry(self, lambda: self.v3(timeout=5))
        self.assertEqual(client.read_all(client.walk("file-0007")), b"0007")


def retry(test, attempt, seconds=60):
    """The result of the attempt that is not an error; service must come back within the time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except (OSError, rpc.Timeout, rpc.Closed):
            if time.monotonic() > deadline:
                test.fail(f"no service after {seconds} s:\n{test.gateway.log_tail()}")
            time.sleep(0.2)


class Connections(case.GatewayCase):
    COUNT = 10000
    options = {"limits": {resource.RLIMIT_NOFILE: (20000, 20000)}}

    @classmethod
    def setUpClass(cls):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < cls.COUNT + 200:
            try:
                resource.setrlimit(resource.RLIMIT_NOFILE, (cls.COUNT + 500, cls.COUNT + 500))
            except (ValueError, OSError) as error:
                raise unittest.SkipTest(f"{cls.COUNT} connections need that many descriptors: {error}") from error
        else:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            cls.addClassCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        super().setUpClass()

    def test_ten_thousand_connections(self):
        """Each is accepted or closed; one that was there before is served; a new client is, when they are gone."""
        first = self.v3()
        content = os.urandom(100000)
        file = first.put(first.root, "file", content)
        before = self.gateway.rss()
        held = []
        self.addCleanup(lambda: [one.close() for one in held])
        for number in range(self.COUNT):
            source = f"127.0.{number >> 8 & 0x7F}.{(number & 0x7F) + 2}"
            try:
                held.append(rpc.Connection(self.gateway.nfs_port, source=source, timeout=10))
                if number % 3 == 0:
                    held[-1].socket.send(b"\x80\x00")         # half a record mark
                elif number % 3 == 1:
                    held[-1].socket.send(b"\x80\x00\x10\x00" + b"half a record")
            except OSError:
                continue
            if number % 1000 == 0:
                self.assertEqual(first.read_all(file), content)
        self.assertEqual(first.read_all(file), content)
        growth = self.gateway.rss() - before
        self.assertLess(growth, 1 << 30, f"{growth >> 20} MiB for {len(held)} idle connections")
        print(f"{len(held)} connections: RSS grew by {growth >> 20} MiB, the server has {self.gateway.fds()} descriptors")
        for one in held:
            one.close()
        held.clear()
        fresh = retry(self, lambda: self.v3(timeout=5))
        self.assertEqual(fresh.read_all(file), content)


class Unread(case.GatewayCase):
    """Clients that do not read the replies to their calls."""

    @classmethod
    def prepare(cls):
        cls.content = os.urandom(8 * MEBIBYTE)
        (cls.backing / "file").write_bytes(cls.content)

    def flood(self, connections, messages):
        """Connections that send all the calls and never read an answer."""
        held = [rpc.Connection(self.gateway.nfs_port, receive_buffer=4096) for _ in range(connections)]
        self.addCleanup(lambda: [one.close() for one in held])
        for one in held:
            one.socket.setblocking(False)
        message = b"".join(rpc.record(rpc.call_message(xid, nfs3.NFS_PROGRAM, 3, procedure, arguments, rpc.auth_sys()))
                           for xid, (procedure, arguments) in enumerate(messages))
        left = {one: memoryview(message) for one in held}
        quiet = time.monotonic()
        while left and time.monotonic() - quiet < 3:
            _, writable, _ = select.select([], list(map(lambda c: c.socket, left)), [], 0.1)
            for one in [one for one in left if one.socket in writable]:
                try:
                    sent = one.socket.send(left[one])
                except BlockingIOError:
                    continue
                except OSError:
                    del left[one]
                    continue
                quiet = time.monotonic()
                left[one] = left[one][sent:]
                if not left[one]:
                    del left[one]
        return held


class SlowListers(Unread):
    @classmethod
    def prepare(cls):
        super().prepare()
        (cls.backing / "folder").mkdir()
        for number in range(2500):                  # more than one reply of 1 MiB lists
            (cls.backing / "folder" / f"{number:04}-{'x' * 200}").touch()

    def test_listings_that_nobody_reads(self):
        """Replies that come from no FSAL's buffers: 1.8 GiB of them if all were answered."""
        client = self.v3()
        folder = client.walk("folder")
        before = self.gateway.rss()
        held = self.flood(6, [(nfs3.READDIRPLUS, nfs3.args_readdirplus(folder, dircount=MEBIBYTE, maxcount=MEBIBYTE))] * 300)
        self.assertEqual(client.read(client.walk("file"), 5, 1000).data, self.content[5:1005])
        growth = self.settled_rss() - before
        print(f"6 clients that list and never read: RSS grew by {growth >> 20} MiB")
        self.assertLess(growth, 900 * MEBIBYTE)
        for one in held:
            one.reset()

    def settled_rss(self):
        """Memory of the server, once it has not grown for two seconds."""
        most, since = self.gateway.rss(), time.monotonic()
        while time.monotonic() - since < 2:
            time.sleep(0.1)
            now = self.gateway.rss()
            if now > most + MEBIBYTE:
                most, since = now, time.monotonic()
        return most


class SlowReaders(Unread):
    def test_clients_that_never_read_their_replies(self):
        client = self.v3()
        file = client.walk("file")
        before = self.gateway.rss()
        held = self.flood(64, [(nfs3.READ, nfs3.args_read(file, turn % 8 * MEBIBYTE, MEBIBYTE)) for turn in range(400)])
        peak = self.gateway.rss()
        for _ in range(20):
            self.assertEqual(client.read(file, 0, MEBIBYTE).data, self.content[:MEBIBYTE])
            fresh = self.v3()
            self.assertEqual(fresh.read(file, MEBIBYTE, 5000).data, self.content[MEBIBYTE:MEBIBYTE + 5000])
            fresh.connection.close()
            peak = max(peak, self.gateway.rss())
        print(f"64 readers that never read: RSS {before >> 20} to {peak >> 20} MiB")
        self.assertLess(peak - before, 4 << 30)
        for one in held:
            one.reset()
        fresh = retry(self, lambda: self.v3(timeout=10))
        self.assertEqual(fresh.read_all(file), self.content)

    def test_half_records_hold_nobody_up(self):
        client = self.v3()
        file = client.walk("file")
        whole = rpc.record(rpc.call_message(1, nfs3.NFS_PROGRAM, 3, nfs3.READ, nfs3.args_read(file, 0, 100), rpc.auth_sys()))
        held = []
        self.addCleanup(lambda: [one.close() for one in held])
        for cut in range(1, len(whole)):
            for _ in range(4):
                held.append(rpc.Connection(self.gateway.nfs_port, timeout=10))
                held[-1].send_bytes(whole[:cut])
        for _ in range(10):
            self.assertEqual(client.read(file, 0, 100).data, self.content[:100])
            with nfs3.Client.mount(self.gateway, timeout=10) as fresh:
                self.assertEqual(fresh.read(file, 0, 100).data, self.content[:100])
        # The rest comes late and is answered.
        late = held[3]
        late.send_bytes(whole[1:])
        self.assertEqual(nfs3.read_result(self.after_status(late.wait(1))).data, self.content[:100])

    def after_status(self, data):
        self.assertEqual(data.u32(), 0)
        return data


class Flood(case.GatewayCase):
    @classmethod
    def prepare(cls):
        cls.content = os.urandom(64 * MEBIBYTE)
        (cls.backing / "file").write_bytes(cls.content)

    def test_a_flood_of_reads_and_writes_is_bounded(self):
        """Thousands of calls in flight on several connections: right bytes, bounded memory that does not grow."""
        rounds = 40 if case.SOAK else 4
        clients = [self.v3(timeout=120) for _ in range(8)]
        file = clients[0].walk("file")
        target = [client.create(client.root, f"target-{number}").handle for number, client in enumerate(clients)]
        after = []
        for turn in range(rounds):
            for number, client in enumerate(clients):
                self.one_round(client, file, target[number], turn)
            after.append(self.gateway.rss())
        print("RSS after each round, MiB:", [value >> 20 for value in after])
        self.assertLess(after[-1], 2 << 30)
        self.assertLess(after[-1], after[len(after) // 2] * 1.5 + (64 << 20), "RSS keeps growing")
        if self.gateway.fsal == "FABRIC":
            in_flight = [value for name, value in self.gateway.metrics().items() if "in_flight" in name]
            self.assertTrue(in_flight, "no metric tells the bytes in flight")
            self.assertEqual(sum(in_flight), 0)

    def one_round(self, client, file, target, turn):
        piece = 256 << 10
        reads = {client.connection.send_call(nfs3.NFS_PROGRAM, 3, nfs3.READ, nfs3.args_read(file, offset, piece)): offset
                 for offset in range(0, 16 * MEBIBYTE, piece)}
        content = self.content[turn * piece:turn * piece + 4 * piece]
        writes = [client.connection.send_call(nfs3.NFS_PROGRAM, 3, nfs3.WRITE,
                                              nfs3.args_write(target, number * piece, content[number * piece:(number + 1) * piece]))
                  for number in range(4)]
        for xid, offset in reads.items():
            data = client.connection.wait(xid)
            self.assertEqual(data.u32(), 0)
            part = nfs3.read_result(data)
            self.assertEqual(part.data, self.content[offset:offset + len(part.data)])
            self.assertTrue(part.data)
        for xid in writes:
            self.assertEqual(client.connection.wait(xid).u32(), 0)
        self.assertEqual(client.read_all(target), content)


if __name__ == "__main__":
    case.main()
