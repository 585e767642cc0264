"""READDIR and READDIRPLUS: many entries in linear time beside other calls, resumed cookies, folders that change."""
import os
import threading

import case
import gateway as gw
import nfs3
import nfs4_ops as ops
import rpc

MANY = 1_000_000 if case.SOAK else 100_000


def fill(directory, count):
    directory.mkdir()
    folder = os.open(directory, os.O_RDONLY)
    for number in range(count):
        os.close(os.open(f"entry-{number:07}", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=folder))
    os.close(folder)
    os.chmod(directory, 0o777)


class Listing(case.GatewayCase):
    @classmethod
    def prepare(cls):
        fill(cls.backing / "many", MANY)
        fill(cls.backing / "quarter", MANY // 4)

    def setUp(self):
        self.expected = {f"entry-{number:07}".encode() for number in range(MANY)}

    def list_cold(self, plus, name="many"):
        """(names, server CPU seconds) of one listing by a server that has nothing cached."""
        self.gateway.restart()
        client = self.v3(timeout=300)
        directory = client.lookup(client.root, name).handle
        before = self.gateway.cpu_seconds()
        entries = client.list(directory, plus, **({"maxcount": 1 << 20, "dircount": 1 << 20} if plus else {"count": 1 << 20}))
        return [entry.name for entry in entries], self.gateway.cpu_seconds() - before

    def test_every_name_once_in_linear_time(self):
        for plus in (False, True):
            with self.subTest(plus=plus):
                quarter, quarter_cpu = self.list_cold(plus, "quarter")
                names, cpu = self.list_cold(plus)
                self.assertEqual(len(quarter), MANY // 4)
                self.assertEqual(len(names), MANY)
                self.assertEqual(set(names), self.expected)
                # Linear is 4, quadratic 16; CPU time of the server does not depend on what else the machine does.
                self.assertLess(cpu, 10 * max(quarter_cpu, 0.1), f"{cpu} s for {MANY}, {quarter_cpu} s for a quarter")
                print(f"plus={plus}: {cpu / MANY * 1e6:.1f} us of server CPU an entry")

    def test_v4_lists_every_name_once(self):
        self.gateway.restart()
        client = self.v41(timeout=300)
        entries = client.list(client.handle("many"), (ops.RDATTR_ERROR, ops.FILEID, ops.SIZE, ops.TYPE), dircount=1 << 20,
                              maxcount=1 << 20)
        self.assertEqual(len(entries), MANY)
        self.assertEqual({entry.name for entry in entries}, self.expected)

    def test_other_calls_go_on_meanwhile(self):
        self.gateway.restart()
        lister, other = self.v3(timeout=300), self.v3()
        directory = lister.lookup(lister.root, "many").handle
        done = threading.Event()
        failures = []

        def listing():
            try:
                self.assertEqual(len(lister.list(directory, True, maxcount=1 << 20, dircount=1 << 20)), MANY)
            except Exception as error:              # reported below, in the test's own thread
                failures.append(error)
            finally:
                done.set()

        thread = threading.Thread(target=listing)
        thread.start()
        answered = 0
        while not done.is_set():
            other.getattr(other.root)
            other.lookup(directory, "entry-0000001")
            answered += 1
        thread.join()
        self.assertEqual(failures, [])
        pages = MANY * 200 // (1 << 20)
        self.assertGreater(answered, pages, "other calls waited for the whole listing")

    def test_a_cookie_is_resumed_after_a_restart(self):
        for plus in (False, True):
            with self.subTest(plus=plus):
                client = self.v3()
                directory = client.lookup(client.root, "quarter").handle
                read = client.readdirplus if plus else client.readdir
                page = read(directory)
                seen = [entry.name for entry in page.entries]
                self.assertFalse(page.eof)
                self.gateway.kill9()
                self.gateway.restart()
                client = self.v3()
                read = client.readdirplus if plus else client.readdir
                while not page.eof:
                    page = read(directory, page.entries[-1].cookie, page.verifier, **({"maxcount": 1 << 20} if plus else {"count": 1 << 20}))
                    self.assertTrue(page.entries or page.eof, "no progress")
                    seen += [entry.name for entry in page.entries]
                seen = [name for name in seen if name not in (b".", b"..")]
                self.assertEqual(len(seen), len(set(seen)))
                self.assertEqual(set(seen), {f"entry-{number:07}".encode() for number in range(MANY // 4)})

    def test_any_cookie_is_answered(self):
        client = self.v3()
        directory = client.lookup(client.root, "quarter").handle
        for cookie in (0, 1, 2, 3, 2**31, 2**32, 2**63 - 2, 2**63 - 1, 2**63, 2**64 - 1):
            for read in (client.readdir, client.readdirplus):
                try:
                    page = read(directory, cookie)
                    self.assertTrue(page.entries or page.eof)
                except nfs3.NfsError as error:
                    self.assertIn(error.name, ("BAD_COOKIE", "INVAL"))

    def test_small_counts(self):
        client = self.v3()
        directory = client.lookup(client.root, "quarter").handle
        for count in (0, 1, 64, 128, 200):
            for read, arguments in ((client.readdir, {"count": count}), (client.readdirplus, {"dircount": count, "maxcount": count})):
                try:
                    page = read(directory, **arguments)
                    self.assertTrue(page.entries)
                except nfs3.NfsError as error:
                    self.assertIn(error.name, ("TOOSMALL", "SERVERFAULT"))


class Changing(case.GatewayCase):
    def test_stable_names_come_once_while_others_come_and_go(self):
        directory = self.backing / "changing"
        fill(directory, 3000)
        for version, client in self.clients():
            with self.subTest(version=version):
                v3 = hasattr(client, "root")
                handle = client.lookup(client.root, "changing").handle if v3 else client.handle("changing")
                writer = self.v3()
                target = writer.lookup(writer.root, "changing").handle
                seen, cookie, verifier, round_number = [], 0, bytes(8), 0
                while True:
                    if v3:
                        page = client.readdirplus(handle, cookie, verifier, maxcount=8192)
                    else:
                        page = client.run(ops.putfh(handle), ops.readdir(cookie, verifier, 8192, 8192))[-1]
                    seen += [entry.name for entry in page.entries]
                    if page.eof:
                        break
                    self.assertTrue(page.entries)
                    cookie, verifier = page.entries[-1].cookie, page.verifier
                    # Through the gateway and behind its back, every page.
                    writer.create(target, f"new-{version}-{round_number}")
                    if round_number:
                        writer.remove(target, f"new-{version}-{round_number - 1}")
                    (directory / f"behind-{version}-{round_number}").touch()
                    round_number += 1
                    self.assertLess(round_number, 3000, "the listing does not end")
                stable = [name for name in seen if name.startswith(b"entry-")]
                self.assertEqual(len(stable), len(set(stable)), "a name came twice")
                self.assertEqual(set(stable), {f"entry-{number:07}".encode() for number in range(3000)})


class Unsearchable(case.GatewayCase):
    def test_names_of_a_folder_that_may_be_read_and_not_searched(self):
        """Each entry has its own error (RFC 7530 §5.8.1.12), the listing has none."""
        folder = self.backing / "folder"
        folder.mkdir()
        (folder / "in").write_bytes(b"")
        os.chown(folder, 2000, 2000)
        os.chmod(folder, 0o400)
        for client in (self.v40(), self.v41(2)):
            client.connection.credential = rpc.auth_sys(2000, 2000)
            entries = client.list(client.handle("folder"), (ops.RDATTR_ERROR, ops.SIZE, ops.FILEID))
            self.assertEqual([(entry.name, entry.attributes) for entry in entries], [(b"in", {ops.RDATTR_ERROR: 13})])
            self.assert_status("ACCES", client.list, client.handle("folder"), (ops.SIZE,))


class Unreadable(case.GatewayCase):
    def test_one_name_that_cannot_be_looked_at_does_not_end_the_listing(self):
        self.only_fabric("aborts the listing")
        fill(self.backing / "dir", 50)
        client, v4 = self.v3(), self.v41()
        directory, directory4 = client.lookup(client.root, "dir").handle, v4.handle("dir")
        self.gateway.restart_with_faults("backing.readdir_entry=EIO@10*1")
        client, v4 = self.v3(), self.v41()
        names = {entry.name for entry in client.list(directory, True)}
        self.assertGreaterEqual(len(names), 49)
        self.gateway.restart_with_faults("backing.readdir_entry=EIO@10*1")
        v4 = self.v41()
        self.assertGreaterEqual(len(v4.list(directory4, (ops.RDATTR_ERROR, ops.FILEID, ops.SIZE))), 49)


if __name__ == "__main__":
    case.main()
