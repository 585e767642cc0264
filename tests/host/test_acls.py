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


class FileCase(case.GatewayCase):
    def setUp(self):
        self.only_fabric("is built without POSIX ACLs")
        self.file = self.backing / self.id().rsplit(".", 1)[-1]
        self.file.write_bytes(b"content")
        os.chown(self.file, OWNER, STAFF)
        os.chmod(self.file, 0o600)


class Acls(FileCase):

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


class NfsAcl(FileCase):
    """The side protocol of NFSv3 (program 100227, no RFC; the kernel's fs/nfsd/nfs3acl.c): lists go both ways unchanged."""
    PROGRAM, GETACL, SETACL = 100227, 1, 2
    ACCESS, ACCESS_COUNT = 1, 2

    def get(self, client, handle):
        """[(tag, permissions, id)] of the access list."""
        data = rpc.Unpacker(client.connection.call(self.PROGRAM, 3, self.GETACL, Packer().opaque(handle).u32(3).bytes())
                            .rest())
        self.assertEqual(data.u32(), 0)
        if data.boolean():
            nfs3.fattr(data)
        data.u32()
        count = data.u32()
        entries = data.array(lambda d: (d.u32(), d.u32(), d.u32()))
        self.assertEqual(len(entries), count)
        return sorted((tag, permissions, who if tag in (USER, GROUP) else -1) for tag, who, permissions in entries)

    def set(self, client, handle, entries):
        packer = Packer().opaque(handle).u32(self.ACCESS | self.ACCESS_COUNT)
        packer.u32(len(entries)).u32(len(entries))
        for tag, permissions, who in entries:
            packer.u32(tag).u32(0 if who < 0 else who).u32(permissions)
        packer.u32(0).u32(0)
        data = rpc.Unpacker(client.connection.call(self.PROGRAM, 3, self.SETACL, packer.bytes()).rest())
        return data.u32()

    def both_ways(self, *entries):
        os.setxattr(self.file, NAME, posix(*entries))
        client = self.v3()
        handle = client.lookup(client.root, self.file.name).handle
        listed = self.get(client, handle)
        self.assertEqual(listed, sorted(entries))
        os.setxattr(self.file, NAME, FULL)
        self.assertEqual(self.set(client, handle, listed), 0)
        self.assertEqual(os.getxattr(self.file, NAME), posix(*sorted(entries, key=lambda entry: (entry[0], entry[2]))))
        self.assertEqual(self.get(client, handle), sorted(entries))

    def test_what_a_mask_withholds_stays_in_the_list(self):
        self.both_ways((USER_OBJ, 7, -1), (USER, 7, ALICE), (GROUP_OBJ, 5, -1), (GROUP, 6, TEAM), (MASK, 4, -1), (OTHER, 0, -1))
        self.assertEqual(os.stat(self.file).st_mode & 0o777, 0o740)

    def test_a_group_that_may_less_than_everyone(self):
        self.both_ways((USER_OBJ, 6, -1), (GROUP_OBJ, 0, -1), (GROUP, 2, TEAM), (GROUP, 1, STAFF), (MASK, 7, -1), (OTHER, 4, -1))

    def test_users_with_the_numbers_of_the_special_ones(self):
        self.both_ways((USER_OBJ, 6, -1), *((USER, number, number) for number in (1, 2, 3, 4)), (GROUP_OBJ, 0, -1),
                       (MASK, 7, -1), (OTHER, 0, -1))

    def test_a_removed_list_is_gone(self):
        os.setxattr(self.file, NAME, FULL)
        client = self.v3()
        handle = client.lookup(client.root, self.file.name).handle
        self.assertEqual(len(self.get(client, handle)), 7)
        self.assertEqual(self.set(client, handle, [(USER_OBJ, 6, -1), (GROUP_OBJ, 4, -1), (MASK, 4, -1), (OTHER, 0, -1)]), 0)
        self.assertNotIn(NAME, os.listxattr(self.file))
        self.assertEqual(os.stat(self.file).st_mode & 0o777, 0o640)
        self.assertEqual(self.get(client, handle), [])


class NfsAclCached(NfsAcl):
    """The same where attributes are cached."""
    export_options = {"Attr_Expiration_Time": 600}

    def both_ways(self, *entries):
        self.skipTest("sets lists beside the server")


if __name__ == "__main__":
    case.main()
