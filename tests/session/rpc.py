"""ONC RPC over TCP (RFC 5531) and XDR (RFC 4506), as little as the tests of this folder need."""
import os
import socket
import struct
import time

CALL, REPLY = 0, 1
AUTH_NONE, AUTH_SYS = 0, 1


class RpcError(Exception):
    """The server refused a call, or closed the connection."""


class Pack:
    """Builds XDR; every method returns the object, so calls chain."""

    def __init__(self):
        self.parts = []

    def u32(self, *values):
        self.parts += [struct.pack(">I", v & 0xFFFFFFFF) for v in values]
        return self

    def u64(self, *values):
        self.parts += [struct.pack(">Q", v & 0xFFFFFFFFFFFFFFFF) for v in values]
        return self

    def raw(self, data):
        """Bytes of a length both sides know, padded to four."""
        self.parts.append(bytes(data) + bytes(-len(data) % 4))
        return self

    def opaque(self, data):
        return self.u32(len(data)).raw(data)

    def string(self, text):
        return self.opaque(text if isinstance(text, bytes) else text.encode())

    def bytes(self):
        return b"".join(self.parts)


class Unpack:
    """Reads XDR; running out of data raises."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise RpcError(f"reply ends after {len(self.data)} bytes, {count} wanted at {self.at}")
        self.at += count
        return self.data[self.at - count:self.at]

    def u32(self):
        return struct.unpack(">I", self.take(4))[0]

    def u64(self):
        return struct.unpack(">Q", self.take(8))[0]

    def raw(self, count):
        data = self.take(count)
        self.take(-count % 4)
        return data

    def opaque(self):
        return self.raw(self.u32())

    def left(self):
        return len(self.data) - self.at


class RpcConnection:
    """One TCP connection. Calls of the server (a back channel) go to `callback(proc, Unpack) -> bytes or None`."""

    def __init__(self, port, host="127.0.0.1", uid=0, gid=0, timeout=30.0):
        self.sock = socket.create_connection((host, port), timeout=timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.xid = int.from_bytes(os.urandom(4), "big")
        self.uid, self.gid = uid, gid
        self.callback = None
        self.replies = {}

    def close(self):
        self.sock.close()

    def send_record(self, data):
        self.sock.sendall(struct.pack(">I", 0x80000000 | len(data)) + data)

    def read_exactly(self, count):
        data = bytearray()
        while len(data) < count:
            got = self.sock.recv(count - len(data))
            if not got:
                raise RpcError("the server closed the connection")
            data += got
        return bytes(data)

    def read_record(self):
        record = b""
        while True:
            mark = struct.unpack(">I", self.read_exactly(4))[0]
            record += self.read_exactly(mark & 0x7FFFFFFF)
            if mark & 0x80000000:
                return record

    def send_call(self, program, version, procedure, body):
        self.xid = (self.xid + 1) & 0xFFFFFFFF
        cred = Pack().u32(0).string("test").u32(self.uid, self.gid).u32(0).bytes()
        head = Pack().u32(self.xid, CALL, 2, program, version, procedure)
        head.u32(AUTH_SYS).opaque(cred).u32(AUTH_NONE, 0)
        self.send_record(head.bytes() + body)
        return self.xid

    def serve_one(self):
        """Reads one record: keeps a reply, answers a call of the server."""
        record = Unpack(self.read_record())
        xid, direction = record.u32(), record.u32()
        if direction == REPLY:
            self.replies[xid] = record
            return
        record.u32(), record.u32(), record.u32()
        procedure = record.u32()
        for _ in range(2):
            record.u32(), record.opaque()
        answer = self.callback(procedure, record) if self.callback else None
        if answer is not None:
            self.send_record(Pack().u32(xid, REPLY, 0, AUTH_NONE, 0, 0).bytes() + answer)

    def serve_until(self, done, seconds=30.0):
        """Answers calls of the server until done() holds; raises when it does not in time."""
        end = time.monotonic() + seconds
        try:
            while not done():
                self.sock.settimeout(max(0.01, end - time.monotonic()))
                self.serve_one()
        finally:
            self.sock.settimeout(seconds)

    def wait_reply(self, xid):
        while xid not in self.replies:
            self.serve_one()
        reply = self.replies.pop(xid)
        if reply.u32() != 0:
            raise RpcError("call denied")
        reply.u32(), reply.opaque()
        accept = reply.u32()
        if accept != 0:
            raise RpcError(f"call not accepted: {accept}")
        return reply

    def call(self, program, version, procedure, body=b""):
        return self.wait_reply(self.send_call(program, version, procedure, body))
