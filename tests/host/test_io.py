"""READ, WRITE and COMMIT at the edges: ends of files, huge counts and offsets, short and failing backing calls, replays."""
import os
import threading

import case
import nfs3
import nfs4
import nfs4_ops as ops
import rpc

EDGES = [2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 4096, 2**63 - 2, 2**63 - 1, 2**63, 2**64 - 4096, 2**64 - 2, 2**64 - 1]


class Edges(case.GatewayCase):
    @classmethod
    def prepare(cls):
        cls.content = os.urandom((3 << 20) + 12345)
        (cls.backing / "file").write_bytes(cls.content)
        os.chmod(cls.backing / "file", 0o666)

    def readers(self):
        """(version, read(offset, count) -> (data, eof)) for each version."""
        v3, v40, v42 = self.v3(), self.v40(), self.v41(2)
        file, file40, file42 = v3.walk("file"), v40.handle("file"), v42.handle("file")

        def read3(offset, count):
            part = v3.read(file, offset, count)
            return part.data, part.eof

        def read40(offset, count):
            part = v40.run(ops.putfh(file40), ops.read(ops.ANONYMOUS, offset, count))[-1]
            return part.data, part.eof

        def read42(offset, count):
            part = v42.run(ops.putfh(file42), ops.read(ops.ANONYMOUS, offset, count))[-1]
            return part.data, part.eof
        return [("v3", read3), ("v4.0", read40), ("v4.2", read42)]

    def test_offsets_and_lengths_around_pages(self):
        size = len(self.content)
        for version, read in self.readers():
            for base in (0, 4096, 1 << 20, size - 4096, size):
                for shift in (-1, 0, 1):
                    for length in (1, 4095, 4096, 4097, (1 << 20) - 1, 1 << 20):
                        offset = base + shift
                        if offset < 0:
                            continue
                        data, eof = read(offset, length)
                        expected = self.content[offset:offset + length]
                        self.assertEqual(data, expected[:len(data)], (version, offset, length))
                        self.assertTrue(len(data) == len(expected) or data, (version, offset, length))
                        self.assertEqual(eof, offset + len(data) >= size, (version, offset, length))

    def test_reads_of_no_bytes(self):
        for version, read in self.readers():
            for offset in (0, 1, len(self.content), len(self.content) + 1):
                self.assertEqual(read(offset, 0)[0], b"", version)

    def test_reads_behind_the_end(self):
        for version, read in self.readers():
            for offset in (len(self.content), len(self.content) + 1, 1 << 40):
                self.assertEqual(read(offset, 4096), (b"", True), version)
            for offset in EDGES:
                if offset < len(self.content):
                    continue
                try:
                    self.assertEqual(read(offset, 4096), (b"", True), (version, offset))
                except nfs3.NfsError as error:
                    self.assertIn(error.name, ("FBIG", "INVAL"), (version, offset))

    def test_a_read_longer_than_any_buffer_is_clamped(self):
        for version, read in self.readers():
            for count in (1 << 21, 1 << 26, (1 << 26) + 1, 2**31 - 1, 2**31, 2**32 - 1):
                try:
                    data, eof = read(0, count)
                except nfs3.NfsError as error:
                    self.assertIn(error.name, ("REP_TOO_BIG", "INVAL", "RESOURCE"), (version, count))
                    continue
                self.assertEqual(data, self.content[:len(data)], (version, count))
                self.assertEqual(eof, len(data) == len(self.content), (version, count))
                self.assertGreaterEqual(len(data), 1 << 20, (version, count))

    def test_writes_at_the_ends_of_the_offset_range(self):
        v3, v4 = self.v3(), self.v41()
        file, file4 = v3.create(v3.root, "sparse").handle, None
        file4 = v4.handle("sparse")
        for offset in EDGES:
            for data in (b"x", b"y" * 4096):
                for call in (lambda: v3.write(file, offset, data), lambda: v4.run(ops.putfh(file4), ops.write(ops.ANONYMOUS, offset, data))):
                    try:
                        call()
                    except nfs3.NfsError as error:
                        self.assertIn(error.name, ("FBIG", "INVAL", "NOSPC"), offset)
                    else:
                        self.assertLess(offset + len(data), 2**63)
                        self.assertEqual(v3.read(file, offset, len(data)).data, data)

    def test_a_write_whose_count_is_not_its_data(self):
        v3 = self.v3()
        file = v3.put(v3.root, "count", b"0123456789")
        for count in (0, 3, 2**31, 2**32 - 1):
            status, data = v3.raw(nfs3.WRITE, nfs3.args_write(file, 0, b"abcdef", nfs3.FILE_SYNC, count))
            if status == 0:
                self.assertLessEqual(count, 6)
        self.assertIn(v3.read_all(file), (b"0123456789", b"abc3456789", b"abcdef6789"))

    def test_the_largest_file_is_named(self):
        """FSINFO and the attribute maxfilesize (RFC 7530 §5.8.2.25): a client refuses what reaches over it at once, when
        the application writes."""
        self.only_fabric("names the largest offset, not the largest file")
        v3, v4 = self.v3(), self.v41()
        largest = v3.fsinfo().maxfilesize
        values = v4.run(ops.putfh(v4.handle()), ops.getattr_(ops.MAXFILESIZE))[-1]
        self.assertEqual(values[ops.MAXFILESIZE], largest)
        file = v3.create(v3.root, "largest").handle
        self.addCleanup(v3.remove, v3.root, "largest")
        v3.write(file, largest - 1, b"x")
        self.assertEqual(v3.getattr(file).size, largest)
        self.assert_status(("FBIG", "INVAL"), v3.write, file, largest, b"x")
        self.assert_status(("FBIG", "INVAL"), v3.setattr, file, nfs3.sattr(size=largest + 1))
        # What locks reach over is offsets, which do not end there.
        opened = v4.open(v4.handle(), "largest")
        other = self.v41()
        theirs = other.open(other.handle(), "largest")
        kept = min(largest, 2**62)
        v4.run(ops.putfh(opened.handle), ops.lock_new(ops.WRITE_LT, kept - 10, 20, opened.stateid, b"one", v4.clientid))
        other.run(ops.putfh(theirs.handle), ops.lock_new(ops.WRITE_LT, kept + 10, 20, theirs.stateid, b"two", other.clientid))

    def test_setattr_sizes(self):
        v3 = self.v3()
        file = v3.create(v3.root, "sized").handle
        for size in (0, 1, 4095, 4097, 1 << 40):
            v3.setattr(file, nfs3.sattr(size=size))
            self.assertEqual(v3.getattr(file).size, size)
        for size in (2**63 - 1, 2**63, 2**64 - 1):
            self.assert_status(("FBIG", "INVAL"), v3.setattr, file, nfs3.sattr(size=size))
        v3.remove(v3.root, "sized")

    def test_commit_of_any_range(self):
        v3 = self.v3()
        file = v3.put(v3.root, "commit", b"x" * 10000)
        for offset in (0, 5000, 20000, *EDGES):
            for count in (0, 1, 4096, 2**32 - 1):
                try:
                    v3.commit(file, offset, count)
                except nfs3.NfsError as error:
                    self.assertIn(error.name, ("INVAL", "FBIG"), (offset, count))
        v4 = self.v41()
        for offset in (0, 2**63 - 1, 2**64 - 1):
            try:
                v4.run(ops.putfh(v4.handle("commit")), ops.commit(offset, 2**32 - 1))
            except nfs3.NfsError as error:
                self.assertIn(error.name, ("INVAL", "FBIG"), offset)


class LargestOffsets(case.GatewayCase):
    export_options = {"MaxOffsetRead": 1 << 20, "MaxOffsetWrite": 1 << 20}

    def test_no_offset_wraps_around_the_exports_limits(self):
        v3, v4 = self.v3(), self.v41()
        file = v3.put(v3.root, "file", b"content")
        v3.read(file, (1 << 20) - 2, 2)
        v3.write(file, (1 << 20) - 2, b"ab")
        for offset in ((1 << 20) - 1, 1 << 20, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1):
            self.assert_status("FBIG", v3.read, file, offset, 2)
            self.assert_status("FBIG", v3.write, file, offset, b"ab")
            for operation in (ops.read(ops.ANONYMOUS, offset, 2), ops.write(ops.ANONYMOUS, offset, b"ab")):
                self.assert_status(("FBIG", "INVAL"), v4.run, ops.putfh(v4.handle("file")), operation)


class Exclusive(case.GatewayCase):
    def create_again(self, client, xid):
        """Retransmits until it is answered, as clients do: a call whose reply is still being finished is dropped."""
        for _ in range(20):
            try:
                return client.create(client.root, "once", nfs3.EXCLUSIVE, verifier=b"verifier", xid=xid, timeout=5)
            except rpc.Timeout:
                pass
        self.fail("a retransmitted call is never answered")

    def test_v3_exclusive_create_retransmitted(self):
        client = self.v3()
        xid = 77
        first = client.create(client.root, "once", nfs3.EXCLUSIVE, verifier=b"verifier", xid=xid)
        # The same call again (its reply was lost): over the same connection, a new one, and after a restart.
        self.assertEqual(self.create_again(client, xid).handle, first.handle)
        self.assertEqual(self.v3().create(client.root, "once", nfs3.EXCLUSIVE, verifier=b"verifier").handle, first.handle)
        self.gateway.kill9()
        self.gateway.restart()
        client = self.v3()
        self.assertEqual(client.create(client.root, "once", nfs3.EXCLUSIVE, verifier=b"verifier").handle, first.handle)
        self.assert_status("EXIST", client.create, client.root, "once", nfs3.EXCLUSIVE, verifier=b"another!")
        # What a client does next: it sets the times, since the verifier was kept in them (RFC 1813 §3.3.8).
        client.setattr(first.handle, nfs3.sattr(mode=0o644, atime="now", mtime="now"))
        now = os.stat(self.backing / "once")
        self.assertAlmostEqual(now.st_mtime, os.stat(self.backing).st_mtime, delta=3600)
        self.assertEqual(now.st_mode & 0o7777, 0o644)

    def test_v4_exclusive_create_retransmitted(self):
        v40, v41 = self.v40(), self.v41()
        for name, client, how in (("v40", v40, ops.EXCLUSIVE), ("v41", v41, ops.EXCLUSIVE4_1)):
            with self.subTest(version=name):
                root = client.handle()
                first = client.open(root, name, how=how, verifier=b"verifier")
                again = client.open(root, name, how=how, verifier=b"verifier")
                self.assertEqual(first.handle, again.handle)
                self.assert_status("EXIST", client.open, root, name, how=how, verifier=b"another!")

    def test_guarded_create_of_what_is_there(self):
        client = self.v3()
        client.create(client.root, "there", nfs3.GUARDED)
        self.assert_status("EXIST", client.create, client.root, "there", nfs3.GUARDED)
        client.create(client.root, "there", nfs3.UNCHECKED, nfs3.sattr(size=0))

    def test_hundred_clients_create_one_name_exclusively(self):
        winners, losers = [], []

        def create(number):
            with nfs3.Client.mount(self.gateway) as client:
                try:
                    winners.append(client.create(client.root, "race", nfs3.EXCLUSIVE, verifier=b"%08d" % number).handle)
                except nfs3.NfsError as error:
                    losers.append(error.name)
        threads = [threading.Thread(target=create, args=(number,)) for number in range(100)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(winners), 1, losers)
        self.assertEqual(set(losers), {"EXIST"})


class Renames(case.GatewayCase):
    def test_rename_over_an_open_file_in_another_directory(self):
        """The replaced file stays readable by who has it open (v4), its v3 handle is stale, the name is the new file's."""
        v3 = self.v3()
        one, two = v3.mkdir(v3.root, "one").handle, v3.mkdir(v3.root, "two").handle
        for name, client in (("v4.0", self.v40()), ("v4.1", self.v41())):
            with self.subTest(version=name):
                v3.put(one, "new", b"new content")
                v3.put(two, "name", b"old content")
                opened = client.open(client.handle("two"), "name", share=ops.READ_ACCESS)
                v3.rename(one, "new", two, "name")
                part = client.run(ops.putfh(opened.handle), ops.read(opened.stateid, 0, 100))[-1]
                self.assertEqual(part.data, b"old content")
                self.assertEqual(v3.read_all(v3.lookup(two, "name").handle), b"new content")
                client.close(opened)
                v3.remove(two, "name")

    def test_rename_of_a_hard_link_to_itself(self):
        for version, client in self.clients():
            with self.subTest(version=version):
                v3 = self.v3()
                file = v3.put(v3.root, "link-a", b"content")
                v3.link(file, v3.root, "link-b")
                if hasattr(client, "root"):
                    client.rename(client.root, "link-a", client.root, "link-b")
                    client.rename(client.root, "link-a", client.root, "link-a")
                else:
                    root = client.handle()
                    client.run(ops.putfh(root), ops.savefh(), ops.rename("link-a", "link-b"))
                    client.run(ops.putfh(root), ops.savefh(), ops.rename("link-a", "link-a"))
                self.assertEqual(sorted(p.name for p in self.backing.glob("link-*")), ["link-a", "link-b"])
                self.assertEqual(v3.getattr(file).nlink, 2)
                v3.remove(v3.root, "link-a")
                v3.remove(v3.root, "link-b")

    def test_impossible_renames(self):
        v3 = self.v3()
        parent = v3.mkdir(v3.root, "parent").handle
        child = v3.mkdir(parent, "child").handle
        v3.put(v3.root, "plain", b"x")
        v3.put(child, "inside", b"x")
        self.assert_status("INVAL", v3.rename, v3.root, "parent", child, "below")
        self.assert_status(("NOTDIR", "EXIST"), v3.rename, v3.root, "parent", v3.root, "plain")
        self.assert_status(("ISDIR", "EXIST"), v3.rename, v3.root, "plain", v3.root, "parent")
        self.assert_status("NOENT", v3.rename, v3.root, "absent", v3.root, "other")
        self.assert_status(("NOTEMPTY", "EXIST"), v3.rmdir, v3.root, "parent")


class Faults(case.GatewayCase):
    """Failing and short calls to the backing file system, by our fault points."""

    def setUp(self):
        self.only_fabric("has no fault points")

    def test_a_short_pread_is_not_the_end_of_the_file(self):
        content = os.urandom(600000)
        (self.backing / "short").write_bytes(content)
        self.gateway.restart_with_faults("backing.read=short:512")
        v3, v4 = self.v3(), self.v41()
        file = v3.walk("short")
        for offset in (0, 1, 4096, 599000):
            part = v3.read(file, offset, 100000)
            self.assertEqual(part.data, content[offset:offset + len(part.data)])
            self.assertTrue(part.data)
            self.assertEqual(part.eof, offset + len(part.data) == len(content))
        self.assertEqual(v3.read_all(file, 65536), content)
        self.assertEqual(v4.read_all(v4.handle("short"), 65536), content)
        self.gateway.restart_with_faults("")

    def test_a_failing_read_is_an_error_and_the_next_one_is_right(self):
        content = os.urandom(100000)
        (self.backing / "eio").write_bytes(content)
        self.gateway.restart_with_faults("backing.read=EIO*1")
        v3 = self.v3()
        file = v3.walk("eio")
        self.assert_status("IO", v3.read, file, 0, 65536)
        self.assertEqual(v3.read_all(file), content)
        self.gateway.restart_with_faults("")

    def assert_lost(self, first, commit):
        """COMMIT fails with EIO. Of what was to be written back it may succeed instead, with another verifier: the client
        sends again what it wrote under the first one."""
        try:
            verifier = commit()
        except nfs3.NfsError as error:
            self.assertEqual(error.name, "IO")
        else:
            self.assertTrue(self.gateway.writes_back, "COMMIT succeeded")
            self.assertNotEqual(verifier, first)

    def test_eio_on_fsync_reaches_every_kind_of_caller(self):
        self.gateway.restart_with_faults("backing.fsync=EIO*1")
        v3 = self.v3()
        file = v3.create(v3.root, "fsync3").handle
        written = v3.write(file, 0, b"x" * 10000)
        self.assert_lost(written.verifier, lambda: v3.commit(file).verifier)
        after = v3.commit(file)
        self.assertNotEqual(after.verifier, written.verifier, "a lost write, and the verifier stayed")
        self.gateway.restart_with_faults("backing.fsync=EIO*1")
        v3 = self.v3()
        try:
            reply = v3.write(file, 0, b"y" * 10000, nfs3.FILE_SYNC)
        except nfs3.NfsError as error:
            self.assertEqual(error.name, "IO")
        else:
            self.fail(f"a stable WRITE whose fsync failed was answered with committed={reply.committed}")
        for make in (self.v40, self.v41):
            self.gateway.restart_with_faults("backing.fsync=EIO*1")
            client = make()
            opened = client.open(client.handle(), "fsync4", how=ops.UNCHECKED)
            first = client.run(ops.putfh(opened.handle), ops.write(opened.stateid, 0, b"z" * 10000))[-1]
            self.assert_lost(first.verifier, lambda: client.run(ops.putfh(opened.handle), ops.commit())[-1])
            again = client.run(ops.putfh(opened.handle), ops.write(opened.stateid, 0, b"z" * 10000))[-1]
            self.assertNotEqual(first.verifier, again.verifier)
        self.gateway.restart_with_faults("")

    def test_errors_of_a_write_keep_their_names(self):
        for fault, expected in (("EIO", "IO"), ("ENOSPC", "NOSPC"), ("EDQUOT", "DQUOT"), ("EFBIG", "FBIG")):
            self.gateway.restart_with_faults(f"backing.write={fault}")
            v3, v4 = self.v3(), self.v41()
            file = v3.create(v3.root, "failing").handle
            self.assert_status(expected, v3.write, file, 0, b"x" * 5000)
            self.assert_status(expected, v4.run, ops.putfh(v4.handle("failing")), ops.write(ops.ANONYMOUS, 0, b"x" * 5000))
        self.gateway.restart_with_faults("")

    def test_a_short_write_says_how_much_it_wrote(self):
        self.gateway.restart_with_faults("backing.write=short:1000")
        v3 = self.v3()
        content = os.urandom(20000)
        file = v3.put(v3.root, "shortwrite", content)
        self.gateway.drain()
        self.assertEqual((self.backing / "shortwrite").read_bytes(), content)
        self.assertEqual(v3.read_all(file), content)
        self.gateway.restart_with_faults("")


if __name__ == "__main__":
    case.main()
