"""Extended attributes over NFSv4.2 (RFC 8276) against what the backing file system has."""
import os
import pathlib
import re

import case
import nfs3
import nfs4_ops as ops
import rpc

NOXATTR, XATTR2BIG, EXIST = 10095, 10096, 17
EITHER, CREATE, REPLACE = range(3)


class Xattrs(case.GatewayCase):
    def setUp(self):
        self.only_fabric("has no extended attributes")
        self.path = self.backing / self.id().rsplit(".", 1)[-1]
        self.path.write_bytes(b"content")
        os.chmod(self.path, 0o644)
        self.client = self.v41(2)
        self.file = self.client.handle(self.path.name)

    def call(self, *operations):
        return self.client.run(ops.putfh(self.file), *operations)[-1]

    def status(self, *operations):
        with self.assertRaises(nfs3.NfsError) as caught:
            self.call(*operations)
        return caught.exception.status

    def test_set_get_list_remove(self):
        self.call(ops.setxattr("one", b"first"))
        self.call(ops.setxattr("two", bytes(range(256))))
        self.assertEqual(os.getxattr(self.path, "user.one"), b"first")
        self.assertEqual(os.getxattr(self.path, "user.two"), bytes(range(256)))
        self.assertEqual(self.call(ops.getxattr("two")), bytes(range(256)))
        listed = self.call(ops.listxattrs())
        self.assertEqual(sorted(listed.names), [b"one", b"two"])
        self.assertTrue(listed.eof)
        self.call(ops.removexattr("one"))
        self.assertEqual(os.listxattr(self.path), ["user.two"])
        self.assertEqual(self.status(ops.getxattr("one")), NOXATTR)
        self.assertEqual(self.status(ops.removexattr("one")), NOXATTR)

    def test_create_and_replace(self):
        self.assertEqual(self.status(ops.setxattr("name", b"x", REPLACE)), NOXATTR)
        self.call(ops.setxattr("name", b"x", CREATE))
        self.assertEqual(self.status(ops.setxattr("name", b"y", CREATE)), EXIST)
        self.call(ops.setxattr("name", b"z", REPLACE))
        self.assertEqual(os.getxattr(self.path, "user.name"), b"z")
        self.call(ops.setxattr("name", b"", EITHER))
        self.assertEqual(self.call(ops.getxattr("name")), b"")

    def test_sizes_around_the_servers_first_buffer(self):
        for size in (1, 1023, 1024, 1025, 3000):
            value = os.urandom(size)
            self.call(ops.setxattr("sized", value))
            self.assertEqual(self.call(ops.getxattr("sized")), value)

    def test_a_list_in_pieces(self):
        names = [f"name-{number:02}".encode() for number in range(40)]
        for name in names:
            os.setxattr(self.path, b"user." + name, b"v")
        os.setxattr(self.path, "trusted.hidden", b"not for clients")
        found, cookie, pieces = [], 0, 0
        while True:
            page = self.call(ops.listxattrs(cookie, 100))
            found += page.names
            pieces += 1
            if page.eof:
                break
            cookie = page.cookie
        self.assertEqual(sorted(found), names)
        self.assertGreater(pieces, 5)

    def test_names_that_cannot_be(self):
        self.call(ops.setxattr("n" * 250, b"longest"))
        for name in ("n" * 251, "n" * 5000):
            self.assertEqual(self.status(ops.setxattr(name, b"v")), nfs3.STATUS["NAMETOOLONG"])
        self.assertIn(self.status(ops.setxattr("a\0b", b"v")), (nfs3.STATUS["INVAL"], 10036))
        self.assertEqual(os.listxattr(self.path), ["user." + "n" * 250])

    def test_only_who_may_write_sets_and_who_may_read_sees(self):
        os.setxattr(self.path, "user.name", b"v")
        root = self.client.connection.credential
        self.client.connection.credential = rpc.auth_sys(1234, 1234)
        self.assertEqual(self.call(ops.getxattr("name")), b"v")
        self.assertEqual(self.status(ops.setxattr("name", b"w")), nfs3.STATUS["ACCES"])
        self.assertEqual(self.status(ops.removexattr("name")), nfs3.STATUS["ACCES"])
        os.chmod(self.path, 0o600)
        self.assertEqual(self.status(ops.getxattr("name")), nfs3.STATUS["ACCES"])
        self.assertEqual(self.status(ops.listxattrs()), nfs3.STATUS["ACCES"])
        self.client.connection.credential = root
        self.assertEqual(os.getxattr(self.path, "user.name"), b"v")

    def test_asking_for_what_is_not_there_costs_no_memory(self):
        def mapped():                               # a lost buffer that nobody wrote to is not resident
            status = pathlib.Path(f"/proc/{self.gateway.pid}/status").read_text()
            return int(re.search(r"VmData:\s+(\d+) kB", status).group(1)) << 10

        grown = []
        for _ in range(4):                          # a leak shows in each round, the stacks of new threads in one
            before = mapped()
            for _ in range(20_000):
                self.status(ops.getxattr("none"))
            grown.append(mapped() - before)
        self.assertLess(min(grown), 10 << 20)       # a buffer of 1 KiB lost with each were 20 MiB


if __name__ == "__main__":
    case.main()
