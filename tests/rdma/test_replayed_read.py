#!/usr/bin/env python3
"""A v4.0 compound with a READ that is sent again, over TCP (patch 0018): its answer has no bytes of other files.

What makes the compound one that the server may keep for retries is the CREATE in front.
"""
import pathlib
import struct
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import gateway  # noqa: E402
import rpc  # noqa: E402

SIZE = 60000
OP_CREATE, OP_LOOKUP, OP_PUTROOTFH, OP_READ = 6, 15, 24, 25
NF4DIR = 2


def status_of(reply):
    """The first word behind the header of a successful reply."""
    return struct.unpack(">I", reply[24:28])[0]


class Server3:
    """The few v3 calls that set the stage."""

    def __init__(self, running):
        self.connection = rpc.Connection(running.nfs_port)
        mount = rpc.Connection(running.mount_port)
        self.root = self._handle(mount.call(gateway.MOUNT_PROGRAM, 3, 1, rpc.Packer().string("/export").bytes()), words=1)

    @staticmethod
    def _handle(results, words):
        """Behind so many words: the status, which must be 0, and that a handle follows."""
        assert results.u32() == 0, "a call that sets the stage failed"
        for _ in range(words - 1):
            results.u32()
        return results.opaque()

    def make(self, name, data):
        arguments = rpc.Packer().opaque(self.root).string(name).u32(0).u32(1).u32(0o644)
        for _ in range(5):
            arguments.u32(0)
        handle = self._handle(self.connection.call(gateway.NFS_PROGRAM, 3, 8, arguments.bytes()), words=2)
        arguments = rpc.Packer().opaque(handle).u64(0).u32(len(data)).u32(2).opaque(data)
        self.connection.call(gateway.NFS_PROGRAM, 3, 7, arguments.bytes())
        return handle

    def read(self, handle):
        self.connection.call(gateway.NFS_PROGRAM, 3, 6, rpc.Packer().opaque(handle).u64(0).u32(SIZE).bytes())


def compound(connection, xid):
    body = rpc.Packer().u32(0).u32(0).u32(7)            # no tag, minor version 0
    body.u32(OP_PUTROOTFH).u32(OP_LOOKUP).string("export").u32(OP_CREATE).u32(NF4DIR).string("folder").u32(0).u32(0)
    body.u32(OP_PUTROOTFH).u32(OP_LOOKUP).string("export").u32(OP_LOOKUP).string("ours")
    body.u32(OP_READ).u64(0).u64(0).u64(0).u32(SIZE)    # anonymous state, offset, count
    connection.send_record(rpc.call_message(xid, gateway.NFS_PROGRAM, 4, 1, body.bytes(), connection.credential))
    return connection.receive_record()


def main():
    ours, others = b"A" * SIZE, b"B" * SIZE
    export = gateway.Export(tempfile.mkdtemp(prefix="replay-"))
    with gateway.Gateway([export], fsal="MEM", versions=("3", "4.0"), strict=False, metrics=False,
                         blocks={"MEM": {"Inode_Size": 0x200000}}) as running:
        server = Server3(running)
        server.make("ours", ours)
        other = server.make("others", others)
        connection = rpc.Connection(running.nfs_port)
        first = compound(connection, 77)
        assert status_of(first) == 0 and ours in first, "the compound failed"
        for _ in range(4):
            for _ in range(20):
                server.read(other)
            again = compound(connection, 77)
            assert others[:1000] not in again, "a READ that was sent again has bytes of another file"
            assert status_of(again) != 0 or ours in again, "a READ that was sent again has neither its bytes nor an error"
    print("ok   replayed-read over TCP")
    return 0


if __name__ == "__main__":
    sys.exit(main())
