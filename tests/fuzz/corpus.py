"""Valid calls to NFSv3, MOUNT, NLM, NFSv4.0 and 4.2 with live handles, state and sessions: what the mutator starts from."""
import os

import gateway as gw
import nfs3
import nfs4
import nfs4_ops as ops
import rpc
from rpc import Packer

NAMES = [b"a", b"dir", b"link", b"new", b"x" * 255, b"..", "ü".encode()]


class Corpus:
    """`messages()` gives (port, name, RPC call without record mark). Made anew for every burst, from the burst's random."""

    def __init__(self, gateway, random):
        self.gateway, self.random = gateway, random
        self.v3 = nfs3.Client.mount(gateway, "/export")
        self.v40 = nfs4.Client40(gateway, connection=rpc.Connection(gateway.nfs_port))
        self.v42 = nfs4.Client41(gateway, 2, connection=rpc.Connection(gateway.nfs_port))
        self.make_files()

    def close(self):
        for client in (self.v3, self.v40, self.v42):
            client.connection.close()

    def make_files(self):
        root = self.v3.root
        for name in (b"a", b"big"):
            self.v3.create(root, name)
        self.file = self.v3.lookup(root, b"a").handle
        self.v3.setattr(self.file, nfs3.sattr(mode=0o666))
        self.v3.write(self.file, 0, os.urandom(9000))
        for make in (lambda: self.v3.mkdir(root, b"dir"), lambda: self.v3.symlink(root, b"link", b"a")):
            try:
                make()
            except nfs3.NfsError:
                pass                                # there from an earlier burst
        self.directory = self.v3.lookup(root, b"dir").handle
        self.link = self.v3.lookup(root, b"link").handle
        self.open40 = self.v40.open(self.v40.handle(), b"a")
        self.open42 = self.v42.open(self.v42.handle(), b"a")
        self.file4, self.root4 = self.open42.handle, self.v42.handle()

    def call(self, program, version, procedure, arguments):
        credential = self.random.choice([rpc.auth_none(), rpc.auth_sys(), rpc.auth_sys(1000, 1000, range(16))])
        return rpc.call_message(self.random.getrandbits(32), program, version, procedure, arguments, credential)

    def messages(self):
        for procedure, arguments in self.calls3():
            yield self.gateway.nfs_port, f"v3.{procedure}", self.call(gw.NFS_PROGRAM, 3, procedure, arguments)
        for procedure, arguments in self.calls_mount():
            yield self.gateway.mount_port, f"mount.{procedure}", self.call(gw.MOUNT_PROGRAM, 3, procedure, arguments)
        for procedure, arguments in self.calls_nlm():
            yield self.gateway.nlm_port, f"nlm.{procedure}", self.call(gw.NLM_PROGRAM, 4, procedure, arguments)
        for minor, name, operations in self.compounds():
            arguments = nfs4.compound_arguments(operations, minor, b"tag")
            yield self.gateway.nfs_port, f"v4.{minor}.{name}", self.call(gw.NFS_PROGRAM, 4, 1, arguments)

    def calls3(self):
        root, file, directory = self.v3.root, self.file, self.directory
        name = self.random.choice(NAMES)
        attributes = nfs3.sattr(mode=0o640, uid=1, gid=1, size=77, atime="now", mtime=(1, 2))
        yield nfs3.NULL, b""
        for handle in (root, file, self.link):
            yield nfs3.GETATTR, nfs3.args_handle(handle)
        yield nfs3.SETATTR, nfs3.args_setattr(file, attributes)
        yield nfs3.SETATTR, nfs3.args_setattr(file, nfs3.sattr(mode=0o666), guard=(1, 1))
        yield nfs3.LOOKUP, nfs3.args_name(root, name)
        yield nfs3.ACCESS, nfs3.args_access(file)
        yield nfs3.READLINK, nfs3.args_handle(self.link)
        for offset, count in ((0, 4096), (5000, 1 << 20), (2**63 - 1, 1), (2**64 - 1, 2**32 - 1)):
            yield nfs3.READ, nfs3.args_read(file, offset, count)
        yield nfs3.WRITE, nfs3.args_write(file, 3, b"data of the file", nfs3.FILE_SYNC)
        yield nfs3.WRITE, nfs3.args_write(file, 2**63 - 8, b"behind the end", nfs3.UNSTABLE)
        yield nfs3.CREATE, nfs3.args_create(directory, name, nfs3.UNCHECKED, attributes)
        yield nfs3.CREATE, nfs3.args_create(directory, name, nfs3.EXCLUSIVE, verifier=b"verifier")
        yield nfs3.MKDIR, nfs3.args_mkdir(directory, name, attributes)
        yield nfs3.SYMLINK, nfs3.args_symlink(directory, name, b"target/" * 20, attributes)
        yield nfs3.MKNOD, nfs3.args_mknod(directory, name, self.random.choice([3, 4, 6, 7]), attributes, (1, 3))
        yield nfs3.REMOVE, nfs3.args_name(directory, name)
        yield nfs3.RMDIR, nfs3.args_name(directory, name)
        yield nfs3.RENAME, nfs3.args_rename(directory, name, directory, self.random.choice(NAMES))
        yield nfs3.LINK, nfs3.args_link(file, directory, name)
        yield nfs3.READDIR, nfs3.args_readdir(root, self.random.choice([0, 1, 2**63]))
        yield nfs3.READDIRPLUS, nfs3.args_readdirplus(root, 0, bytes(8), 4096, self.random.choice([0, 512, 1 << 20, 2**32 - 1]))
        for procedure in (nfs3.FSSTAT, nfs3.FSINFO, nfs3.PATHCONF):
            yield procedure, nfs3.args_handle(root)
        yield nfs3.COMMIT, nfs3.args_commit(file, 0, 0)
        yield nfs3.COMMIT, nfs3.args_commit(file, 2**64 - 1, 2**32 - 1)

    def calls_mount(self):
        yield 0, b""
        for path in (b"/export", b"/nowhere", b"/" * 1000, b"/export/dir"):
            yield 1, Packer().string(path).bytes()
            yield 3, Packer().string(path).bytes()
        for procedure in (2, 4, 5):
            yield procedure, b""

    def lock_arguments(self, extra=b""):
        lock = (Packer().string(b"caller").opaque(self.file).opaque(b"owner-1").u32(77).u64(0).u64(100).bytes())
        return Packer().opaque(b"cookie").raw(extra).raw(lock)

    def calls_nlm(self):
        exclusive = Packer().boolean(True).bytes()
        block_and_exclusive = Packer().boolean(False).boolean(True).bytes()
        yield 0, b""
        yield 1, self.lock_arguments(exclusive).bytes()
        yield 2, self.lock_arguments(block_and_exclusive).boolean(False).u32(1).bytes()
        yield 3, self.lock_arguments(block_and_exclusive).bytes()
        yield 4, self.lock_arguments().bytes()
        for procedure in (6, 7, 8, 9):
            yield procedure, self.lock_arguments(exclusive).bytes()
        share = Packer().string(b"caller").opaque(self.file).opaque(b"owner").u32(2).u32(1)
        for procedure in (20, 21):
            yield procedure, Packer().opaque(b"cookie").raw(share.bytes()).boolean(False).bytes()
        yield 22, self.lock_arguments(block_and_exclusive).boolean(False).u32(1).bytes()
        yield 23, Packer().string(b"caller").u32(1).bytes()

    def compounds(self):
        for name, operations in self.bodies(self.open40, self.v40.clientid):
            yield 0, name, operations
        for name, operations in self.bodies(self.open42, self.v42.clientid):
            yield 2, name, [self.sequence(), *operations]
        for name, operations in self.session_calls():
            yield 2, name, operations
        for name, operations in self.bodies42():
            yield 2, name, [self.sequence(), *operations]

    def sequence(self):
        slot = self.random.randrange(16)
        self.v42.sequences[slot] = self.v42.sequences.get(slot, 0) + 1
        return ops.sequence(self.v42.session, self.v42.sequences[slot], slot, 15, self.random.random() < 0.5)

    def bodies(self, opened, clientid):
        file, root, directory = ops.putfh(self.file4), ops.putfh(self.root4), [*ops.path("/export/dir")]
        name = self.random.choice(NAMES)
        state = self.random.choice([opened.stateid, ops.ANONYMOUS, ops.BYPASS])
        values = {**ops.encode_mode(0o640), **ops.encode_owner("1"), **ops.encode_mtime(5, 6)}
        yield "walk", [*ops.path("/export/dir"), ops.lookupp(), ops.getfh(), ops.access(),
                       ops.getattr_(*[n for n in ops.ATTRIBUTES])]
        yield "read", [file, ops.read(state, 0, 4096), ops.read(state, 2**63 - 1, 2**32 - 1)]
        yield "write", [file, ops.write(state, 10, b"some bytes", 2), ops.commit(0, 0), ops.getattr_(ops.SIZE)]
        yield "setattr", [file, ops.setattr_(values, state), ops.setattr_(ops.encode_size(900), state)]
        yield "readdir", [root, ops.readdir(0, bytes(8), 1 << 20, 1 << 20, tuple(ops.ATTRIBUTES)), ops.readdir(7, b"badcooki")]
        yield "create", [*directory, ops.create_dir(name), ops.create_symlink(name, b"t" * 100), ops.remove(name)]
        yield "rename", [*directory, ops.savefh(), ops.rename(name, b"other"), ops.restorefh(), ops.link(name)]
        yield "open", [*directory, ops.open_(name, b"owner", clientid, self.random.getrandbits(4), 3, 0, ops.UNCHECKED), ops.getfh()]
        yield "open-exclusive", [*directory, ops.open_(name, b"owner2", clientid, 0, 3, 0, ops.EXCLUSIVE, verifier=b"verifier")]
        yield "lock", [file, ops.lock_new(ops.WRITE_LT, 0, 2**64 - 1, opened.stateid, b"locker", clientid, 1, 0),
                       ops.lockt(ops.READ_LT, 0, 1, b"other", clientid)]
        yield "lock-more", [file, ops.lock_more(ops.READ_LT, 5, 10, opened.stateid, 1), ops.locku(ops.READ_LT, 0, 9, opened.stateid, 1)]
        yield "close", [file, ops.close(self.random.randbytes(16), 1), ops.open_confirm(opened.stateid, 1)]
        yield "secinfo", [root, ops.op(ops.SECINFO, Packer().string(name))]
        yield "verify", [file, ops.op(ops.VERIFY, Packer().raw(ops.fattr(ops.encode_size(9)))),
                         ops.op(ops.NVERIFY, Packer().raw(ops.fattr(values)))]
        acl = Packer().u32(2).u32(0).u32(0).u32(0x1601FF).string(b"OWNER@").u32(1).u32(0x40).u32(2).string(b"GROUP@").bytes()
        yield "acl", [file, ops.setattr_({12: acl}), ops.getattr_(12)]
        yield "clientid", [ops.setclientid(b"fuzz-%d" % self.random.randrange(3), b"12345678"),
                           ops.setclientid_confirm(clientid, b"87654321"), ops.renew(clientid)]
        yield "many", [ops.putrootfh()] + [ops.getattr_(ops.TYPE)] * self.random.choice([8, 100, 1000])
        yield "illegal", [ops.putrootfh(), ops.op(self.random.choice([0, 2, 76, 10044, 2**32 - 1]))]

    def bodies42(self):
        file, state = ops.putfh(self.file4), self.random.choice([self.open42.stateid, ops.CURRENT])
        for name, operation in {
                "allocate": ops.allocate(state, 100, self.random.choice([100, 2**62, 2**64 - 1])),
                "deallocate": ops.deallocate(state, 0, self.random.choice([100, 2**63])),
                "seek": ops.seek(state, self.random.choice([0, 2**63]), True), "getxattr": ops.getxattr(b"one"),
                "setxattr": ops.setxattr(b"one", b"value"), "listxattrs": ops.listxattrs(0, 4096),
                "removexattr": ops.removexattr(b"one"),
                "read_plus": ops.op(ops.READ_PLUS, Packer().raw(state).u64(0).u32(4096)),
                "io_advise": ops.op(ops.IO_ADVISE, Packer().raw(state).u64(0).u64(100).raw(ops.bitmap([2, 3]))),
                "clone": ops.op(ops.CLONE, Packer().raw(state).raw(state).u64(0).u64(0).u64(10)),
                "copy": ops.op(ops.COPY, Packer().raw(state).raw(state).u64(0).u64(0).u64(9).boolean(True).boolean(True).u32(0)),
                "layoutget": ops.op(ops.LAYOUTGET, Packer().boolean(False).u32(1).u32(1).u64(0).u64(100).u64(1).raw(state).u32(4096)),
                "layoutreturn": ops.op(ops.LAYOUTRETURN, Packer().boolean(False).u32(1).u32(1).u32(3)),
                "getdeviceinfo": ops.op(ops.GETDEVICEINFO, Packer().fixed(bytes(16)).u32(1).u32(4096).u32(0)),
                "test_stateid": ops.op(ops.TEST_STATEID, Packer().u32(2).raw(state).raw(state)),
                "free_stateid": ops.op(ops.FREE_STATEID, Packer().raw(bytes(16))),
                "secinfo_no_name": ops.op(ops.SECINFO_NO_NAME, Packer().u32(0)),
                "write_same": ops.op(ops.WRITE_SAME, Packer().raw(state).u32(0).u64(0).u64(4096).u64(4).u64(0).u32(0).u64(0).opaque(b"p")),
        }.items():
            yield name, [file, operation]

    def session_calls(self):
        session, clientid = self.v42.session, self.random.choice([self.v42.clientid, 0, self.random.getrandbits(64)])
        name = b"fuzz41-%d" % self.random.randrange(3)
        yield "exchange_id", [ops.exchange_id(name, b"boot%04d" % self.random.randrange(3))]
        yield "exchange_id_sp4", [ops.op(ops.EXCHANGE_ID, Packer().fixed(b"12345678").string(name).u32(0).u32(1)
                                         .raw(ops.bitmap([1, 5, 40])).raw(ops.bitmap([9, 70])).u32(0))]
        yield "create_session", [ops.create_session(clientid, self.random.randrange(4), ops.channel(self.random.choice([0, 1, 2**32 - 1]),
                                                    self.random.choice([0, 100, 2**32 - 1])))]
        yield "bind", [ops.op(ops.BIND_CONN_TO_SESSION, Packer().fixed(session).u32(self.random.randrange(8)).boolean(False))]
        yield "backchannel_ctl", [self.sequence(), ops.op(ops.BACKCHANNEL_CTL, Packer().u32(0x40000000).u32(1).u32(1).raw(
            Packer().u32(0).string(b"machine").u32(0).u32(0).u32(0).bytes()))]
        yield "destroy", [ops.destroy_session(self.random.randbytes(16)), ops.destroy_clientid(clientid)]
        yield "sequence-odd", [ops.sequence(session, self.random.getrandbits(32), self.random.getrandbits(5), 2**32 - 1), ops.putrootfh()]
        yield "set_ssv", [self.sequence(), ops.op(ops.SET_SSV, Packer().opaque(b"s").opaque(b"d"))]
        yield "reclaim", [self.sequence(), ops.reclaim_complete()]
