#!/usr/bin/python3
"""Peers on TCP that stop in mid-record, or lie about a record's length, cost the others nothing (RFC 5531 section 11).

stalled    more connections than the server has workers send one byte of a record mark and no more
proxy      the same with half a HAProxy header
huge       a record mark announces 2 GiB; a record has pieces without end
pieces     a client that writes its calls in pieces is answered without the 40 ms of a delayed acknowledgement
v3small    an NFSv3 READDIR that has no room for an entry is refused
descriptors  the server is out of descriptors: it goes on serving without spinning, and takes who waited
"""
import pathlib
import resource
import socket
import struct
import sys
import time

import rpc
from gateway import Export, Gateway, NFS_PROGRAM, backing_dir

WORKERS = 8


def answers(gateway, timeout=20):
    with rpc.Connection(gateway.nfs_port, timeout=timeout) as connection:
        connection.call(NFS_PROGRAM, 4, 0)


def stall(gateway, what):
    peers = []
    for _ in range(8 * WORKERS):
        peer = rpc.Connection(gateway.nfs_port)
        peer.send_bytes(what)
        peers.append(peer)
    answers(gateway)
    # A peer that goes on where it stopped is served.
    rest = rpc.record(rpc.call_message(7, NFS_PROGRAM, 4, 0))
    if rest.startswith(what):
        peers[0].send_bytes(rest[len(what):])
        assert peers[0].receive_record(20)[:4] == struct.pack(">I", 7)


def stalled(gateway):
    stall(gateway, b"\x80")


def proxy(gateway):
    stall(gateway, bytes.fromhex("0d0a0d0a000d0a51"))


def closed(connection):
    try:
        connection.receive_record(20)
    except rpc.Closed:
        return True
    return False


def huge(gateway):
    with rpc.Connection(gateway.nfs_port) as liar:
        liar.send_bytes(struct.pack(">I", 0x7FFFFFFF) + bytes(64))
        assert closed(liar), "a record of 2 GiB was begun"
    with rpc.Connection(gateway.nfs_port) as liar:
        pieces = struct.pack(">I", 1) + b"x"
        try:
            for _ in range(100):
                liar.send_bytes(pieces * 1000)
        except rpc.Closed:
            pass
        assert closed(liar), "100,000 pieces of one record were taken"
    answers(gateway)


def pieces(gateway):
    calls = 200
    with rpc.Connection(gateway.nfs_port) as connection:
        connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)
        message = rpc.call_message(0, NFS_PROGRAM, 4, 0)
        start = time.monotonic()
        for _ in range(calls):
            head, tail = message[:20], message[20:]
            connection.send_bytes(struct.pack(">I", len(head)) + head)
            connection.send_bytes(struct.pack(">I", rpc.LAST_FRAGMENT | len(tail)) + tail)
            connection.receive_record()
        spent = time.monotonic() - start
    # Linux delays an acknowledgement by 40 ms: half of that for each call is far from both outcomes.
    assert spent < calls * 0.020, f"{calls} calls took {spent:.1f} s: each piece waits for a delayed acknowledgement"


def v3small(gateway):
    with rpc.Connection(gateway.mount_port) as connection:
        reply = connection.call(100005, 3, 1, rpc.Packer().string("/export").bytes())
        assert reply.u32() == 0, "MOUNT refused"
        handle = reply.opaque()
    with rpc.Connection(gateway.nfs_port) as connection:
        for procedure, tail in ((16, [0]), (17, [0, 0])):
            arguments = rpc.Packer().opaque(handle).u64(0).fixed(bytes(8))
            for value in tail:
                arguments.u32(value)
            status = connection.call(NFS_PROGRAM, 3, procedure, arguments.bytes()).u32()
            assert status == 10005, f"procedure {procedure} with a count of 0 answers {status}, not NFS3ERR_TOOSMALL"


def descriptors(gateway):
    used = gateway.fds()
    limit = used + 20
    resource.prlimit(gateway.pid, resource.RLIMIT_NOFILE, (limit, limit))
    first = rpc.Connection(gateway.nfs_port)
    first.call(NFS_PROGRAM, 4, 0)
    crowd = [rpc.Connection(gateway.nfs_port) for _ in range(40)]
    first.call(NFS_PROGRAM, 4, 0, timeout=20)
    before = gateway.cpu_seconds()
    time.sleep(2)
    spent = gateway.cpu_seconds() - before
    assert spent < 0.5, f"{spent:.2f} s of processor time in 2 s with nothing to do but wait for a descriptor"
    waiting = crowd.pop()
    for peer in crowd:
        peer.close()
    waiting.call(NFS_PROGRAM, 4, 0, timeout=20)


def main(name):
    core = {"RPC_Ioq_ThrdMax": WORKERS}
    with Gateway([Export(backing_dir())], fsal="VFS", core=core) as gateway:
        globals()[name](gateway)
        assert gateway.alive()
        print(f"{name}: done")


if __name__ == "__main__":
    main(sys.argv[1])
