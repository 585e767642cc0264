"""POSIX ACLs of the backing file system: what they allow holds for every version, lists that a client sets arrive."""
import os
import struct

import case
import nfs3
import nfs4_ops as ops
import rpc
from rpc import Packer

USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER = 1, 2, 4, 8, 16, 32
NAME = "system.posix_acl_access"
OWNER, ALICE, BOB, TEAM, STAFF = 500, 1234, 1235, 4321, 501
READ, READ_WRITE = 0x01, 0x0D                       # ACCESS3_READ; and MODIFY, EXTEND
ACL = 12                                            # fattr4_acl, RFC 7530 section 6.2.1
ALLOW, DENY = 0, 1
GROUP_FLAG = 0x40
R, W, A = 1, 2, 4


def posix(*entries):
    """The bytes of the attribute (acl(5)): version 2, then (tag, permissions, id)."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, permissions, number & 0xFFFFFFFF)
                                           for tag, permissions, number in entries)


def nfsacl(*entries):
    packer = Packer().u32(len(entries))
    for kind, flag, mask, who in entries:
        packer.u32(kind).u32(flag).u32(mask).string(who)
    return packer.bytes()


FULL = posix((USER_OBJ, 6, -1), (USER, 4, ALICE), (USER, 6, BOB), (GROUP_OBJ, 0, -1), (GROUP, 6, TEAM), (MASK, 6, -1),
             (OTHER, 0, -1))


class Acls(case.GatewayCase):
    def setUp(self):
        self.only_fabric("is built without POSIX ACLs")
        self.file = self.backing / self.id().rsplit(".", 1)[-1]
        self.file.write_bytes(b"content")
        os.chown(self.file, OWNER, STAFF)
        os.chmod(self.file, 0o600)

    def access(self, name, client, path):
        if name == "v3":
            return client.access(client.lookup(client.root, path).handle)
        return client.run(ops.putfh(client.handle(path)), ops.access())[-1].access

    def test_each_user_has_what_the_list_gives(self):
        os.setxattr(self.file, NAME, FULL)
        for uid, gid, groups, expected in ((ALICE, 1, (), READ), (BOB, 1, (), READ_WRITE), (77, TEAM, (), READ_WRITE),
                                           (77, 77, (5, TEAM), READ_WRITE), (77, 77, (), 0), (77, STAFF, (), 0),
                                           (ALICE, TEAM, (), READ), (OWNER, 77, (), READ_WRITE),
                                           (0, 0, (), READ_WRITE)):
            for name, client in self.clients():
                client.connection.credential = rpc.auth_sys(uid, gid, groups)
                got = self.access(name, client, self.file.name) & READ_WRITE
                self.assertEqual(got, expected, f"{name} {uid} {gid} {groups}")

    def test_the_mask_bounds_named_entries(self):
        os.setxattr(self.file, NAME, FULL.replace(struct.pack("<HH", MASK, 6), struct.pack("<HH", MASK, 4)))
        client = self.v3()
        for uid, expected in ((BOB, READ), (OWNER, READ_WRITE)):
            client.connection.credential = rpc.auth_sys(uid, 77)
            self.assertEqual(self.access("v3", client, self.file.name) & READ_WRITE, expected)

    def test_reading_and_writing_follow_it(self):
        os.setxattr(self.file, NAME, FULL)
        client = self.v41()
        handle = client.handle(self.file.name)
        for uid, share, allowed in ((ALICE, 1, True), (ALICE, 2, False), (BOB, 2, True), (77, 1, False)):
            client.connection.credential = rpc.auth_sys(uid, 77)
            if allowed:
                client.close(client.open(client.handle(), self.file.name, share))
            else:
                self.assert_status("ACCES", client.open, client.handle(), self.file.name, share)
        client.connection.credential = rpc.auth_sys(ALICE, 77)
        self.assertEqual(client.run(ops.putfh(handle), ops.read(ops.ANONYMOUS, 0, 100))[-1].data, b"content")

    def test_a_list_that_a_client_sets(self):
        client = self.v41()
        handle = client.handle(self.file.name)
        entries = nfsacl((ALLOW, 0, R | W | A, "OWNER@"), (ALLOW, 0, R, str(ALICE)), (ALLOW, 0, 0, "GROUP@"),
                         (ALLOW, GROUP_FLAG, R | W | A, str(TEAM)), (ALLOW, 0, 0, "EVERYONE@"))
        client.connection.credential = rpc.auth_sys(ALICE, 77)
        self.assert_status(("PERM", "ACCES"), client.run, ops.putfh(handle), ops.setattr_({ACL: entries}))
        client.connection.credential = rpc.auth_sys(OWNER, 77)
        client.run(ops.putfh(handle), ops.setattr_({ACL: entries}))
        self.assertEqual(os.getxattr(self.file, NAME),
                         posix((USER_OBJ, 6, -1), (USER, 4, ALICE), (GROUP_OBJ, 0, -1), (GROUP, 6, TEAM), (MASK, 6, -1),
                               (OTHER, 0, -1)))
        self.assertEqual(os.stat(self.file).st_mode & 0o777, 0o660)      # the group's bits are the mask
        client.run(ops.putfh(handle), ops.setattr_({ACL: nfsacl((ALLOW, 0, R, "OWNER@"), (ALLOW, 0, R, "EVERYONE@"))}))
        self.assertNotIn(NAME, os.listxattr(self.file))
        self.assertEqual(os.stat(self.file).st_mode & 0o777, 0o444)

    def test_new_files_inherit_the_folders_default(self):
        folder = self.backing / "folder"
        folder.mkdir()
        os.chmod(folder, 0o777)
        os.setxattr(folder, "system.posix_acl_default", posix((USER_OBJ, 7, -1), (USER, 7, ALICE), (GROUP_OBJ, 5, -1),
                                                              (MASK, 7, -1), (OTHER, 0, -1)))
        client = self.v3()
        client.connection.credential = rpc.auth_sys(BOB, BOB)
        client.create(client.lookup(client.root, "folder").handle, "new", nfs3.UNCHECKED, nfs3.sattr(mode=0o666))
        self.assertEqual(os.getxattr(folder / "new", NAME),
                         posix((USER_OBJ, 6, -1), (USER, 7, ALICE), (GROUP_OBJ, 5, -1), (MASK, 6, -1), (OTHER, 0, -1)))
        client.connection.credential = rpc.auth_sys(ALICE, ALICE)
        new = client.lookup(client.lookup(client.root, "folder").handle, "new").handle
        self.assertEqual(client.access(new) & READ_WRITE, READ_WRITE)


if __name__ == "__main__":
    case.main()
