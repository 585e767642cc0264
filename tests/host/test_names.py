"""Names: the same policy in v3 and v4 (RFC 1813 §3.2, RFC 7530 §12.7). A Linux file system takes any bytes but NUL and /."""
import os

import case
import nfs4_ops as ops


def make(client, name):
    if hasattr(client, "root"):
        client.create(client.root, name)
    else:
        root = client.handle()
        client.close(client.open(root, name, how=ops.UNCHECKED))


def lookup(client, name):
    if hasattr(client, "root"):
        return client.lookup(client.root, name).handle
    return client.run(*client.path(""), ops.lookup(name), ops.getfh())[-1]


def remove(client, name):
    if hasattr(client, "root"):
        client.remove(client.root, name)
    else:
        client.run(*client.path(""), ops.remove(name))


def names(client):
    if hasattr(client, "root"):
        return {entry.name for entry in client.list(client.root)}
    return {entry.name for entry in client.list(client.handle())}


class Names(case.GatewayCase):
    GOOD = [b"x" * 255, b" leading and trailing blank ", b"new\nline", b"-rf", b"--", b"*", b"a\\b", b"\x01\x7f", b"...",
            "über".encode(), "über".encode("latin-1"), b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\xaf"]

    def test_any_byte_is_kept(self):
        for version, client in self.clients():
            for name in self.GOOD:
                with self.subTest(version=version, name=name):
                    make(client, name)
                    self.assertTrue(os.path.exists(os.path.join(os.fsencode(self.backing), name)))
                    self.assertTrue(lookup(client, name))
                    self.assertIn(name, names(client))
                    remove(client, name)
                    self.assertEqual(os.listdir(os.fsencode(self.backing)), [])

    def test_256_bytes_are_too_long(self):
        for version, client in self.clients():
            for length in (256, 1023):
                with self.subTest(version=version, length=length):
                    self.assert_status("NAMETOOLONG", make, client, b"x" * length)
                    self.assert_status("NAMETOOLONG", lookup, client, b"x" * length)
                    self.assert_status("NAMETOOLONG", remove, client, b"x" * length)

    def test_the_advertised_maximum_is_true(self):
        self.only_fabric("advertises 1024")
        v3, v4 = self.v3(), self.v41()
        self.assertEqual(v3.pathconf(v3.root).name_max, 255)
        self.assertEqual(v4.run(*v4.path(""), ops.getattr_(ops.MAXNAME))[-1], {ops.MAXNAME: 255})

    def test_names_with_a_slash_or_nul_do_not_reach_the_file_system(self):
        (self.backing / "dir").mkdir()
        self.addCleanup((self.backing / "dir").rmdir)
        for version, client in self.clients():
            for name in (b"a/b", b"/", b"../x", b"dir/x", b"nul\0byte"):
                with self.subTest(version=version, name=name):
                    for call in (make, lookup, remove):
                        self.assert_status(("BADNAME", "BADCHAR", "GARBAGE_ARGS"), call, client, name)
                    self.assertEqual(os.listdir(self.backing), ["dir"])
                    self.assertEqual(os.listdir(self.backing / "dir"), [])

    def test_an_empty_name(self):
        for version, client in self.clients():
            with self.subTest(version=version):
                self.assert_status(("INVAL", "NOENT", "ACCES"), make, client, b"")
                self.assertEqual(os.listdir(self.backing), [])

    def test_dot_and_dot_dot_cannot_be_made_or_removed(self):
        for version, client in self.clients():
            for name in (b".", b".."):
                with self.subTest(version=version, name=name):
                    self.assert_status(("EXIST", "INVAL", "BADNAME", "ISDIR", "ACCES"), make, client, name)
                    self.assert_status(("INVAL", "BADNAME", "ISDIR", "ACCES", "NOTEMPTY", "EXIST"), remove, client, name)


if __name__ == "__main__":
    case.main()
