"""Single hostile calls: each once ended a server, or let it read and write memory that is not the call's."""
import os
import resource

import case
import gateway as gw
import nfs3
import nfs4
import nfs4_ops as ops
import rpc
from rpc import Packer


class Hostile(case.GatewayCase):
    @classmethod
    def prepare(cls):
        cls.content = os.urandom(200000)
        (cls.backing / "file").write_bytes(cls.content)
        os.chmod(cls.backing / "file", 0o666)

    def tearDown(self):
        """A fresh client is served whatever happened."""
        super().tearDown()
        with nfs3.Client.mount(self.gateway, timeout=30) as client:
            self.assertEqual(client.read_all(client.walk("file")), self.content)

    # -- NLM (the SHARE call of X/Open XNFS)

    def nlm(self, connection, procedure, arguments):
        return connection.call(gw.NLM_PROGRAM, 4, procedure, arguments)

    def share(self, connection, procedure, file, deny, access, owner=b"owner"):
        arguments = Packer().opaque(b"cookie").string(b"caller").opaque(file).opaque(owner).u32(deny).u32(access)
        data = self.nlm(connection, procedure, arguments.boolean(False).bytes())
        data.opaque()
        return data.u32()

    def test_nlm_share_modes_out_of_range(self):
        file = self.v3().walk("file")
        with rpc.Connection(self.gateway.nlm_port) as connection:
            for value in (4, 5, 100, 0x10000, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1):
                for procedure in (20, 21):
                    self.assertNotEqual(self.share(connection, procedure, file, value, 1), 0, value)
                    self.assertNotEqual(self.share(connection, procedure, file, 1, value), 0, value)

    def test_nlm_shares_that_only_deny(self):
        file = self.v3().walk("file")
        with rpc.Connection(self.gateway.nlm_port) as connection:
            for _ in range(3):
                for deny, access in ((2, 0), (2, 0), (3, 1), (1, 3)):
                    self.share(connection, 20, file, deny, access)
                for deny, access in ((2, 0), (3, 1), (2, 0), (1, 3), (2, 0)):
                    self.share(connection, 21, file, deny, access)
            self.share(connection, 20, file, 1, 1, b"another")
            self.share(connection, 20, file, 2, 2, b"third")
            self.nlm(connection, 23, Packer().string(b"caller").u32(1).bytes())        # FREE_ALL
            self.assertIn(self.share(connection, 20, file, 3, 3, b"fourth"), (0, 1, 5))
            self.nlm(connection, 23, Packer().string(b"caller").u32(2).bytes())

    def test_nlm_free_all_lets_go_of_all_that_the_locks_held(self):
        """NM_LOCK, then FREE_ALL: the state of each lock, with a descriptor, once stayed for good."""
        file = self.v3().walk("file")
        with rpc.Connection(self.gateway.nlm_port) as connection:
            before = self.gateway.fds()
            for process in range(40):
                lock = (Packer().string(b"caller").opaque(file).opaque(b"owner").u32(process).u64(100 * process).u64(100)
                        .bytes())
                data = self.nlm(connection, 22, Packer().opaque(b"cookie").boolean(False).boolean(True).raw(lock)
                                .boolean(False).u32(1).bytes())
                data.opaque()
                self.assertEqual(data.u32(), 0)     # GRANTED
            self.assertGreaterEqual(self.gateway.fds(), before + 40)
            self.nlm(connection, 23, Packer().string(b"caller").u32(1).bytes())
            self.assertLess(self.gateway.fds(), before + 10)

    # -- NFSv4 state

    def test_lock_with_the_stateid_of_an_open(self):
        client = self.v40()
        opened = client.open(client.handle(), "file")
        for seqid in (0, 1, 2, 3, opened.owner[1] - 1, opened.owner[1], 2**32 - 1):
            status, _ = client.compound([ops.putfh(opened.handle),
                                         ops.lock_more(ops.WRITE_LT, 0, 10, opened.stateid, seqid)])
            self.assertNotEqual(status, 0)
            for operation in (ops.locku(ops.WRITE_LT, 0, 10, opened.stateid, seqid),
                              ops.open_confirm(opened.stateid, seqid)):
                client.compound([ops.putfh(opened.handle), operation])

    def test_open_operations_with_the_stateid_of_a_lock(self):
        for make in (self.v40, self.v41):
            client = make()
            opened = client.open(client.handle(), "file")
            seqid = opened.owner[1] if client.minor == 0 else 0
            lock = client.run(ops.putfh(opened.handle), ops.lock_new(ops.READ_LT, 0, 10, opened.stateid, b"locker",
                                                                     client.clientid, seqid, 0))[-1]
            operations = [ops.close(lock, 1), ops.close(lock, 2), ops.open_confirm(lock, 1),
                          ops.op(ops.OPEN_DOWNGRADE, Packer().raw(lock).u32(1).u32(1).u32(0)),
                          ops.op(ops.DELEGRETURN, Packer().raw(lock)), ops.op(ops.FREE_STATEID, Packer().raw(lock)),
                          ops.lock_new(ops.READ_LT, 0, 10, lock, b"locker2", client.clientid, 1, 0)]
            for operation in operations:
                try:
                    client.run(ops.putfh(opened.handle), operation)
                except nfs3.NfsError:
                    pass

    OPERATIONS_OF_42 = (ops.allocate(ops.ANONYMOUS, 0, 4096), ops.deallocate(ops.ANONYMOUS, 0, 4096),
                        ops.seek(ops.ANONYMOUS, 0, True), ops.getxattr("one"), ops.setxattr("one", b"x"),
                        ops.listxattrs(), ops.removexattr("one"))

    def test_operations_of_42_without_a_filehandle(self):
        client = self.v41(minor=2)
        for operation in self.OPERATIONS_OF_42:
            with self.assertRaises(nfs3.NfsError) as refused:
                client.run(operation)
            self.assertEqual(refused.exception.name, "NOFILEHANDLE")

    def test_verify_with_lengths_beyond_the_attributes(self):
        client = self.v40()
        handle = client.handle("file")
        for number, value in ((ops.OWNER, Packer().u32(0x7FFFFFF0).bytes()), (ops.OWNER, Packer().u32(2**32 - 1).bytes()),
                              (ops.OWNER_GROUP, Packer().u32(64).raw(b"0000").bytes()), (ops.FILEHANDLE, Packer().u32(9999).bytes()),
                              (ops.SIZE, b"\0\0\0\0"), (ops.TIME_MODIFY, b"\0\0\0\0"), (0, Packer().u32(2**30).bytes())):
            for kind in (ops.VERIFY, ops.NVERIFY):
                body = Packer().raw(ops.bitmap([number])).opaque(value)
                client.compound([ops.putfh(handle), ops.op(kind, body)])
        values = {ops.SIZE: Packer().u64(len(self.content)).bytes(), ops.MODE: Packer().u32(0o666).bytes()}
        client.run(ops.putfh(handle), ops.op(ops.VERIFY, Packer().raw(ops.fattr(values))))
        self.assert_status("SAME", client.run, ops.putfh(handle), ops.op(ops.NVERIFY, Packer().raw(ops.fattr(values))))
        longer = Packer().raw(ops.bitmap([ops.SIZE])).opaque(values[ops.SIZE] + b"tail")
        self.assert_status(("NOT_SAME", "BADXDR", "INVAL"), client.run, ops.putfh(handle), ops.op(ops.VERIFY, longer))
        values[ops.SIZE] = Packer().u64(5).bytes()
        self.assert_status("NOT_SAME", client.run, ops.putfh(handle), ops.op(ops.VERIFY, Packer().raw(ops.fattr(values))))

    def test_a_replayed_reply_holds_the_same_data(self):
        """RFC 8881 §2.10.6.1.3: the cached reply, or RETRY_UNCACHED_REP; never other bytes."""
        client = self.v41()
        handle = client.handle("file")
        for operations in ([ops.read(ops.ANONYMOUS, 0, 4000)], [ops.read(ops.ANONYMOUS, 0, 65536)],
                           [ops.getattr_(ops.SIZE)], [ops.putrootfh(), ops.readdir()]):
            client.sequences[0] += 1
            sent = [ops.sequence(client.session, client.sequences[0], 0, 0, True), ops.putfh(handle), *operations]
            status, first = client.compound(sent)
            if status:
                self.assertEqual(status, nfs3.STATUS["REP_TOO_BIG_TO_CACHE"])
                continue
            for _ in range(5):
                again_status, again = client.compound(sent)
                if again_status == 0:
                    self.assertEqual([str(value) for _, _, value in again], [str(value) for _, _, value in first])
                else:
                    self.assertEqual(again_status, nfs3.STATUS["RETRY_UNCACHED_REP"], again)

    # -- lengths

    def test_counts_of_operations_and_arrays(self):
        client = self.v40()
        for count in (0, 1, 1000, 1025, 2**16, 2**31 - 1, 2**32 - 1):
            arguments = Packer().opaque(b"").u32(0).u32(count).raw(ops.putrootfh()).bytes()
            try:
                client.connection.call(nfs4.NFS_PROGRAM, 4, 1, arguments, timeout=20)
            except (rpc.RpcError, rpc.Closed):
                client = self.v40()
        for length in (1025, 8193, 2**20 + 1, 2**31, 2**32 - 4, 2**32 - 1):
            for operation in (Packer().u32(ops.LOOKUP).u32(length), Packer().u32(ops.PUTFH).u32(length),
                              Packer().u32(ops.GETATTR).u32(length), Packer().u32(ops.SETATTR).raw(bytes(16)).u32(length)):
                arguments = Packer().opaque(b"").u32(0).u32(2).raw(ops.putrootfh()).raw(operation.bytes()).bytes()
                try:
                    client.connection.call(nfs4.NFS_PROGRAM, 4, 1, arguments, timeout=20)
                except (rpc.RpcError, rpc.Closed):
                    client = self.v40()

    def test_writes_longer_than_their_message(self):
        """The length that such a WRITE claims is not allocated: a server that may not have as much memory goes on."""
        handle = self.v3().walk("file")
        room = self.gateway.virtual_size() + (1 << 30)
        before = resource.prlimit(self.gateway.pid, resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))
        try:
            for claimed in (2**31 - 16, 2**31, 2**32 - 16, 2**32 - 4):
                arguments = Packer().opaque(handle).u64(0).u32(claimed).u32(nfs3.UNSTABLE).u32(claimed).raw(b"b" * 400).bytes()
                with rpc.Connection(self.gateway.nfs_port) as connection:
                    with self.assertRaises((rpc.RpcError, rpc.Closed)):
                        connection.call(nfs3.NFS_PROGRAM, 3, nfs3.WRITE, arguments, timeout=20)
        finally:
            self.assertTrue(self.gateway.alive())
            resource.prlimit(self.gateway.pid, resource.RLIMIT_AS, before)

    def test_record_marks(self):
        before = self.gateway.rss()
        for mark in (0, 0x80000000, 0x7FFFFFFF, 0xFFFFFFFF, 0x80000001, 0x84000000, 0x00000001):
            for _ in range(20):
                with rpc.Connection(self.gateway.nfs_port, timeout=10) as connection:
                    try:
                        connection.send_bytes(mark.to_bytes(4, "big") + b"x" * 100)
                    except rpc.Closed:
                        pass
        self.assertLess(self.gateway.rss() - before, 1 << 30)


class ReadOnly(case.GatewayCase):
    """Nothing that a client of an export for reading says changes a byte or an attribute of it."""
    export_options = {"Access_Type": "RO"}

    @classmethod
    def prepare(cls):
        cls.content = os.urandom(200000)
        (cls.backing / "file").write_bytes(cls.content)
        os.chmod(cls.backing / "file", 0o666)
        os.setxattr(cls.backing / "file", "user.one", b"kept")

    def test_operations_of_42_that_change_a_file(self):
        client = self.v41(minor=2)
        file = client.handle("file")
        for operation in (ops.allocate(ops.ANONYMOUS, 0, 1 << 20), ops.deallocate(ops.ANONYMOUS, 0, 8192),
                          ops.setxattr("one", b"changed"), ops.removexattr("one"),
                          ops.write(ops.ANONYMOUS, 0, b"changed")):
            with self.assertRaises(nfs3.NfsError) as refused:
                client.run(ops.putfh(file), operation)
            self.assertEqual(refused.exception.name, "ROFS")
        self.assertEqual((self.backing / "file").read_bytes(), self.content)
        self.assertEqual(os.getxattr(self.backing / "file", "user.one"), b"kept")
        self.assertEqual(client.run(ops.putfh(file), ops.getxattr("one"))[-1], b"kept")


if __name__ == "__main__":
    case.main()
