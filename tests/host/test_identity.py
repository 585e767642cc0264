"""Who a caller is, as knfsd sees it: squashing, unknown users, supplementary groups, setgid and sticky folders."""
import os
import stat

import case
import gateway as gw
import nfs3
import nfs4_ops as ops
import rpc

ANONYMOUS = 65534


class Identity(case.GatewayCase):
    @classmethod
    def exports(cls):
        exports = []
        for name, squash in (("export", "No_Root_Squash"), ("rootsquash", "Root_Squash"), ("allsquash", "All_Squash")):
            (cls.backing / name).mkdir(exist_ok=True)
            os.chmod(cls.backing / name, 0o777)
            exports.append(gw.Export(str(cls.backing / name), pseudo=f"/{name}",
                                     options={"Squash": squash, "Anonymous_uid": ANONYMOUS, "Anonymous_gid": ANONYMOUS}))
        return exports

    def as_user(self, uid, gid, gids=(), path="/export"):
        client = nfs3.Client.mount(self.gateway, path)
        self.addCleanup(client.connection.close)
        client.connection.credential = rpc.auth_sys(uid, gid, gids)
        return client

    def owner(self, path):
        status = os.stat(self.backing / path)
        return status.st_uid, status.st_gid

    def test_root_is_root_without_squashing(self):
        root = self.as_user(0, 0)
        file = root.put(root.root, "by-root", b"x")
        self.assertEqual(self.owner("export/by-root"), (0, 0))
        root.setattr(file, nfs3.sattr(uid=123, gid=456))
        self.assertEqual(self.owner("export/by-root"), (123, 456))
        os.chmod(self.backing / "export/by-root", 0)
        self.assertEqual(root.read_all(file), b"x")

    def test_root_is_nobody_with_root_squash(self):
        root = self.as_user(0, 0, path="/rootsquash")
        file = root.put(root.root, "by-root", b"x")
        self.assertEqual(self.owner("rootsquash/by-root"), (ANONYMOUS, ANONYMOUS))
        for values in (nfs3.sattr(uid=0), nfs3.sattr(gid=0), nfs3.sattr(uid=2000)):
            self.assert_status("PERM", root.setattr, file, values)
            self.assertEqual(self.owner("rootsquash/by-root"), (ANONYMOUS, ANONYMOUS))
        secret = self.backing / "rootsquash/secret"
        secret.write_bytes(b"secret")
        os.chmod(secret, 0o600)
        handle = root.lookup(root.root, "secret").handle
        self.assert_status("ACCES", root.read, handle, 0, 10)
        self.assert_status("ACCES", root.write, handle, 0, b"changed")
        self.assertEqual(secret.read_bytes(), b"secret")
        user = self.as_user(2000, 2001, path="/rootsquash")
        user.put(user.root, "by-user", b"x")
        self.assertEqual(self.owner("rootsquash/by-user"), (2000, 2001))

    def test_groups_of_a_squashed_root_do_not_help(self):
        folder = self.backing / "rootsquash/group"
        folder.mkdir()
        os.chown(folder, 1, 3000)
        os.chmod(folder, 0o770)
        root = self.as_user(0, 0, [3000], path="/rootsquash")
        self.assert_status("ACCES", root.create, root.lookup(root.root, "group").handle, "x")

    def test_everybody_is_nobody_with_all_squash(self):
        for uid in (0, 1, 2000):
            client = self.as_user(uid, uid, [3000], path="/allsquash")
            file = client.put(client.root, f"by-{uid}", b"x")
            self.assertEqual(self.owner(f"allsquash/by-{uid}"), (ANONYMOUS, ANONYMOUS))
            self.assert_status("PERM", client.setattr, file, nfs3.sattr(uid=2000))
            self.assert_status("PERM", client.setattr, file, nfs3.sattr(gid=3000))

    def test_a_user_that_no_database_knows(self):
        for uid, gid in ((54321, 54322), (2**31, 2**31), (2**32 - 3, 2**32 - 3)):
            client = self.as_user(uid, gid)
            name = f"unknown-{uid}"
            file = client.put(client.root, name, b"x")
            self.assertEqual(self.owner("export/" + name), (uid, gid))
            self.assertEqual(client.getattr(file).uid, uid)

    def test_sixteen_groups(self):
        folder = self.backing / "export/groups"
        folder.mkdir()
        os.chown(folder, 0, 3015)
        os.chmod(folder, 0o770)
        member = self.as_user(2000, 2000, range(3000, 3016))
        handle = member.lookup(member.root, "groups").handle
        member.put(handle, "x", b"x")
        self.assertEqual(self.owner("export/groups/x"), (2000, 2000))
        stranger = self.as_user(2000, 2000, range(3000, 3015))
        self.assert_status("ACCES", stranger.create, handle, "y")
        self.assert_status("ACCES", stranger.lookup, handle, "x")

    def test_more_than_sixteen_groups_are_refused(self):
        """RFC 5531 appendix A: gids<16>. knfsd answers AUTH_BADCRED; a server that cut the list would guess."""
        client = self.v3()
        for count in (17, 32, 64):
            client.connection.credential = rpc.auth_sys(2000, 2000, range(3000, 3000 + count))
            try:
                client.getattr(client.root)
            except rpc.RpcError as error:
                self.assertEqual(error.stat, "DENIED")
            else:
                self.fail(f"{count} groups in AUTH_SYS were accepted")

    def test_damaged_credentials(self):
        client = self.v3()
        good = rpc.auth_sys(2000, 2000, [1, 2, 3], "machine")
        credentials = [good[:4] + (400).to_bytes(4, "big") + bytes(400), good[:4] + (401).to_bytes(4, "big") + bytes(404),
                       good[:4] + b"\xff\xff\xff\xff", rpc.Packer().u32(1).opaque(b"\xff" * 40).bytes(),
                       rpc.auth_sys(1, 1, machine="m" * 255), rpc.auth_sys(1, 1, machine="m" * 300), rpc.Packer().u32(99).opaque(b"").bytes(),
                       rpc.Packer().u32(6).opaque(bytes(40)).bytes()]
        for credential in credentials:
            with rpc.Connection(self.gateway.nfs_port, timeout=20) as connection:
                try:
                    connection.call(nfs3.NFS_PROGRAM, 3, nfs3.GETATTR, nfs3.args_handle(client.root), credential)
                except (rpc.RpcError, rpc.Closed, rpc.Timeout) as error:
                    self.assertNotIsInstance(error, rpc.Timeout, credential.hex())
        client.getattr(client.root)

    def test_permissions_of_owner_group_and_others(self):
        owner, member, other = self.as_user(2000, 2000), self.as_user(2001, 2001, [2000]), self.as_user(2002, 2002)
        file = owner.put(owner.root, "mode", b"x")
        cases = {0o600: (True, False, False), 0o640: (True, True, False), 0o604: (True, False, True), 0o044: (True, True, True),
                 0o000: (True, False, False)}           # the owner may read what is open elsewhere (RFC 1813 §4.4)
        for mode, expected in cases.items():
            os.chmod(self.backing / "export/mode", mode)
            os.utime(self.backing / "export/mode")
            owner.setattr(file, nfs3.sattr(mode=mode))
            for client, allowed in zip((owner, member, other), expected):
                if allowed:
                    self.assertEqual(client.read(file, 0, 10).data, b"x", oct(mode))
                else:
                    self.assert_status("ACCES", client.read, file, 0, 10)

    def test_setgid_folder_and_sticky_folder(self):
        folder = self.backing / "export/setgid"
        folder.mkdir()
        os.chown(folder, 0, 5000)
        os.chmod(folder, 0o2777)
        client = self.as_user(2000, 2000)
        handle = client.lookup(client.root, "setgid").handle
        client.put(handle, "file", b"x")
        client.mkdir(handle, "dir")
        self.assertEqual(self.owner("export/setgid/file"), (2000, 5000))
        self.assertEqual(self.owner("export/setgid/dir"), (2000, 5000))
        self.assertTrue(os.stat(folder / "dir").st_mode & stat.S_ISGID)
        sticky = self.backing / "export/sticky"
        sticky.mkdir()
        os.chmod(sticky, 0o1777)
        handle = client.lookup(client.root, "sticky").handle
        client.put(handle, "mine", b"x")
        stranger = self.as_user(2001, 2001)
        self.assert_status(("ACCES", "PERM"), stranger.remove, handle, "mine")
        self.assert_status(("ACCES", "PERM"), stranger.rename, handle, "mine", handle, "yours")
        client.remove(handle, "mine")

    def test_only_the_owner_changes_mode_and_only_root_the_owner(self):
        owner, other = self.as_user(2000, 2000, [2005]), self.as_user(2001, 2001)
        file = owner.put(owner.root, "chmod", b"x")
        self.assert_status("PERM", other.setattr, file, nfs3.sattr(mode=0o777))
        self.assert_status("PERM", owner.setattr, file, nfs3.sattr(uid=2001))
        self.assert_status("PERM", owner.setattr, file, nfs3.sattr(gid=2006))
        owner.setattr(file, nfs3.sattr(gid=2005))
        self.assertEqual(self.owner("export/chmod"), (2000, 2005))

    def test_setuid_goes_when_another_writes(self):
        owner, other = self.as_user(2000, 2000), self.as_user(2001, 2001)
        file = owner.put(owner.root, "setuid", b"x")
        owner.setattr(file, nfs3.sattr(mode=0o6777))
        other.write(file, 0, b"y", nfs3.FILE_SYNC)
        self.assertEqual(os.stat(self.backing / "export/setuid").st_mode & 0o6000, 0)

    def test_set_id_bits_stay_when_root_writes_or_truncates(self):
        path = self.backing / "export/setid"
        root, user = self.v41(2), self.v41(2)
        user.connection.credential = rpc.auth_sys(2000, 2000)
        root.put(root.handle(), "setid", b"x" * 10000)
        opened = {client: client.open(client.handle(), "setid") for client in (root, )}
        os.chmod(path, 0o6777)
        opened[user] = user.open(user.handle(), "setid")
        file = opened[root].handle

        def empty(client):
            client.close(client.open(client.handle(), "setid", how=ops.UNCHECKED, values=ops.encode_size(0)))
        changes = {
            "write": lambda c, s: c.run(ops.putfh(file), ops.write(s, 0, b"y")),
            "stable write": lambda c, s: c.run(ops.putfh(file), ops.write(s, 0, b"y", 2)),
            "truncate": lambda c, s: c.run(ops.putfh(file), ops.setattr_(ops.encode_size(5), s)),
            "allocate": lambda c, s: c.run(ops.putfh(file), ops.allocate(s, 0, 20000)),
            "punch": lambda c, s: c.run(ops.putfh(file), ops.deallocate(s, 0, 8192)),
            "open with size 0": lambda c, s: empty(c)}
        for name, change in changes.items():
            for client, bits in ((root, 0o6777), (user, 0o777)):
                with self.subTest(name, bits=oct(bits)):
                    os.chmod(path, 0o6777)
                    change(client, opened[client].stateid)
                    self.assertEqual(os.stat(path).st_mode & 0o7777, bits)

    def test_v4_sees_the_same_users(self):
        client = self.v41()
        client.connection.credential = rpc.auth_sys(2000, 2007)
        opened = client.open(client.handle(), "v4-file", how=ops.UNCHECKED)
        client.close(opened)
        self.assertEqual(self.owner("export/v4-file"), (2000, 2007))
        found = client.run(ops.putfh(opened.handle), ops.getattr_(ops.OWNER, ops.OWNER_GROUP))[-1]
        self.assertEqual((found[ops.OWNER], found[ops.OWNER_GROUP]), (b"2000", b"2007"))


if __name__ == "__main__":
    case.main()
