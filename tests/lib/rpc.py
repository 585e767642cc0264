"""ONC RPC (RFC 5531) over TCP with XDR (RFC 4506), by hand: a test can send exactly the bytes it means to.

`Connection.call` is the polite way; `send_bytes`, `send_record` and `receive_record` leave every byte to the caller.
"""
import collections
import itertools
import os
import select
import socket
import struct
import time

CALL, REPLY = 0, 1
MSG_ACCEPTED, MSG_DENIED = 0, 1
ACCEPT_STATS = ["SUCCESS", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR"]
AUTH_NONE, AUTH_SYS = 0, 1
LAST_FRAGMENT = 0x80000000


class XdrError(Exception):
    """A reply that does not decode: the server's fault."""


class RpcError(Exception):
    """The server answered, but not with success. `stat` is the accept_stat's name, or DENIED."""

    def __init__(self, stat, detail=""):
        super().__init__(f"RPC {stat} {detail}".strip())
        self.stat = stat


class Closed(Exception):
    """The server closed or reset the connection."""


class Timeout(Exception):
    """Nothing came in the time given."""


class Packer:
    """Builds XDR; each method returns self, so that calls chain."""

    def __init__(self):
        self.parts = []

    def u32(self, value):
        self.parts.append(struct.pack(">I", value & 0xFFFFFFFF))
        return self

    def u64(self, value):
        self.parts.append(struct.pack(">Q", value & 0xFFFFFFFFFFFFFFFF))
        return self

    def boolean(self, value):
        return self.u32(1 if value else 0)

    def fixed(self, data):
        self.parts.append(bytes(data) + b"\0" * (-len(data) % 4))
        return self

    def opaque(self, data):
        return self.u32(len(data)).fixed(data)

    def string(self, text):
        return self.opaque(text.encode() if isinstance(text, str) else text)

    def array(self, items, pack_one):
        self.u32(len(items))
        for item in items:
            pack_one(self, item)
        return self

    def raw(self, data):
        self.parts.append(data)
        return self

    def bytes(self):
        return b"".join(self.parts)


class Unpacker:
    def __init__(self, data, position=0):
        self.data = memoryview(data)
        self.position = position

    def _take(self, length):
        end = self.position + length
        if end > len(self.data):
            raise XdrError(f"{length} bytes wanted at {self.position}, the message has {len(self.data)}")
        part = self.data[self.position:end]
        self.position = end
        return part

    def u32(self):
        return struct.unpack(">I", self._take(4))[0]

    def i32(self):
        return struct.unpack(">i", self._take(4))[0]

    def u64(self):
        return struct.unpack(">Q", self._take(8))[0]

    def boolean(self):
        value = self.u32()
        if value > 1:
            raise XdrError(f"a boolean of {value}")
        return bool(value)

    def fixed(self, length):
        data = bytes(self._take(length))
        if any(self._take(-length % 4)):
            raise XdrError("padding is not zero")
        return data

    def opaque(self, limit=1 << 31):
        length = self.u32()
        if length > limit:
            raise XdrError(f"opaque of {length} bytes, at most {limit} allowed")
        return self.fixed(length)

    def array(self, unpack_one):
        return [unpack_one(self) for _ in range(self.u32())]

    def done(self):
        return self.position == len(self.data)

    def rest(self):
        return bytes(self.data[self.position:])


def auth_none():
    return Packer().u32(AUTH_NONE).opaque(b"").bytes()


def auth_sys(uid=0, gid=0, gids=(), machine="tester", stamp=0):
    """RFC 5531 appendix A allows 16 groups; more are sent as given, for tests of what the server does."""
    body = Packer().u32(stamp).string(machine).u32(uid).u32(gid).array(list(gids), Packer.u32).bytes()
    return Packer().u32(AUTH_SYS).opaque(body).bytes()


def call_message(xid, program, version, procedure, arguments=b"", credential=None, verifier=None):
    head = Packer().u32(xid).u32(CALL).u32(2).u32(program).u32(version).u32(procedure)
    head.raw(credential if credential is not None else auth_none())
    head.raw(verifier if verifier is not None else auth_none())
    return head.raw(arguments).bytes()


def reply_results(message):
    """An Unpacker at the results of an accepted, successful reply; RpcError otherwise."""
    data = Unpacker(message)
    data.u32()
    if data.u32() != REPLY:
        raise XdrError("not a reply")
    if data.u32() == MSG_DENIED:
        raise RpcError("DENIED", f"reject_stat {data.u32()}, {data.u32()}")
    data.u32()
    data.opaque(400)
    stat = data.u32()
    if stat:
        raise RpcError(ACCEPT_STATS[stat] if stat < len(ACCEPT_STATS) else str(stat))
    return data


def record(message, fragment=None):
    """The bytes of one record (RFC 5531 §11), cut into fragments of at most `fragment` bytes."""
    step = fragment or max(len(message), 1)
    pieces = [message[at:at + step] for at in range(0, max(len(message), 1), step)]
    return b"".join(struct.pack(">I", len(piece) | (LAST_FRAGMENT if piece is pieces[-1] else 0)) + piece
                    for piece in pieces)


class Connection:
    """One TCP connection. Not for use from several threads at once."""

    def __init__(self, port, host="127.0.0.1", source=None, timeout=60, receive_buffer=None, reserved=False):
        self.timeout = timeout
        self.credential = auth_sys(os.getuid(), os.getgid())
        self.callback = None                        # of calls of the server: a back channel (RFC 8881 §2.10.3.1)
        self.xids = itertools.count(int.from_bytes(os.urandom(4), "big"))
        self.replies = collections.OrderedDict()
        self.buffer = bytearray()
        self.socket = socket.socket()
        self.socket.settimeout(timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        try:
            if source or reserved:
                self._bind(source or "", reserved)
            self.socket.connect((host, port))
        except BaseException:
            self.socket.close()
            raise

    def _bind(self, address, reserved):
        ports = range(1023, 511, -1) if reserved else [0]
        for port in ports:
            try:
                self.socket.bind((address, port))
                return
            except OSError:
                continue
        raise OSError("no reserved port is free")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes with RST: what is in flight is lost."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def send_bytes(self, data):
        try:
            self.socket.sendall(data)
        except socket.timeout as error:
            raise Timeout("the server does not read") from error
        except OSError as error:
            raise Closed(str(error)) from error

    def send_record(self, message, fragment=None):
        self.send_bytes(record(message, fragment))

    def _fill(self, length, deadline):
        while len(self.buffer) < length:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.socket], [], [], left)[0]:
                raise Timeout("no reply")
            try:
                part = self.socket.recv(1 << 20)
            except OSError as error:
                raise Closed(str(error)) from error
            if not part:
                raise Closed("closed by the server")
            self.buffer += part

    def receive_record(self, timeout=None):
        deadline = time.monotonic() + (timeout if timeout is not None else self.timeout)
        message = bytearray()
        while True:
            self._fill(4, deadline)
            mark = struct.unpack(">I", self.buffer[:4])[0]
            length = mark & ~LAST_FRAGMENT
            self._fill(4 + length, deadline)
            message += self.buffer[4:4 + length]
            del self.buffer[:4 + length]
            if mark & LAST_FRAGMENT:
                return bytes(message)

    def send_call(self, program, version, procedure, arguments=b"", credential=None, xid=None):
        """Sends without waiting; returns the xid for `wait`."""
        if xid is None:
            xid = next(self.xids) & 0xFFFFFFFF
        self.send_record(call_message(xid, program, version, procedure, arguments,
                                      self.credential if credential is None else credential))
        return xid

    def serve(self, timeout=None):
        """Takes one record: a reply is kept for its wait; a call goes to `callback(procedure, Unpacker)`, which returns
        the bytes of the results, or None for no answer."""
        message = self.receive_record(timeout)
        data = Unpacker(message)
        xid, direction = data.u32(), data.u32()
        if direction == REPLY:
            self.replies[xid] = message
            return
        procedure = [data.u32() for _ in range(4)][-1]
        for _ in range(2):
            data.u32(), data.opaque(400)            # credential and verifier
        results = self.callback(procedure, data) if self.callback else None
        if results is not None:
            head = Packer().u32(xid).u32(REPLY).u32(MSG_ACCEPTED).raw(auth_none()).u32(0)
            self.send_record(head.raw(results).bytes())

    def wait(self, xid, timeout=None):
        """The results of the call with this xid; replies to others are kept for their own wait."""
        while xid not in self.replies:
            self.serve(timeout)
        return reply_results(self.replies.pop(xid))

    def serve_until(self, done, failure, seconds=30):
        """Serves the server's calls until done() holds; an AssertionError that says `failure` when it does not in time."""
        end = time.monotonic() + seconds
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                raise AssertionError(failure)
            try:
                self.serve(min(left, 0.1))
            except Timeout:
                pass

    def call(self, program, version, procedure, arguments=b"", credential=None, xid=None, timeout=None):
        return self.wait(self.send_call(program, version, procedure, arguments, credential, xid), timeout)
