"""A small NFSv4.0 and 4.1 client (RFC 7530, RFC 8881): what the tests of this folder send, nothing more.

An operation is a pair (number, encoded arguments); `compound` sends a list of them and returns the status and the
decoded result of each that ran.
"""
import pathlib
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import rpc  # noqa: E402

OK = 0
NFS4ERR_DENIED, NFS4ERR_GRACE, NFS4ERR_SHARE_DENIED, NFS4ERR_DELAY = 10010, 10013, 10015, 10008

OP_CLOSE, OP_COMMIT, OP_CREATE, OP_DELEGRETURN = 4, 5, 6, 8
OP_GETATTR, OP_GETFH, OP_LOCK, OP_LOCKU, OP_LOOKUP, OP_OPEN = 9, 10, 12, 14, 15, 18
OP_OPEN_CONFIRM, OP_PUTFH, OP_PUTROOTFH, OP_READDIR, OP_RENEW, OP_SAVEFH = 20, 22, 24, 26, 30, 32
OP_SETCLIENTID, OP_SETCLIENTID_CONFIRM, OP_WRITE = 35, 36, 38
OP_BIND_CONN, OP_EXCHANGE_ID, OP_CREATE_SESSION, OP_DESTROY_SESSION, OP_SEQUENCE = 41, 42, 43, 44, 53
OP_RECLAIM_COMPLETE = 58

READ_LT, WRITE_LT, READW_LT, WRITEW_LT = 1, 2, 3, 4
SHARE_READ, SHARE_WRITE, SHARE_BOTH = 1, 2, 3
SEQ4_CB_PATH_DOWN, SEQ4_CB_PATH_DOWN_SESSION = 0x1, 0x200


class Pack(rpc.Packer):
    """Several numbers in one call."""

    def u32(self, *values):
        for value in values:
            super().u32(value)
        return self

    def u64(self, *values):
        for value in values:
            super().u64(value)
        return self


class Connection(rpc.Connection):
    """Calls of the server (a back channel) go to `callback(procedure, Unpacker)`, which returns the results' bytes,
    or None for no answer."""

    callback = None

    def receive_record(self, timeout=None):
        while True:
            message = super().receive_record(timeout)
            if struct.unpack(">I", message[4:8])[0] == rpc.REPLY:
                return message
            self.answer(rpc.Unpacker(message))

    def replies_of_nobody(self, timeout):
        """Waits for a record; a reply is kept for its `wait`."""
        message = self.receive_record(timeout)
        self.replies[struct.unpack(">I", message[:4])[0]] = message

    def answer(self, call):
        xid, head = call.u32(), [call.u32() for _ in range(5)]
        for _ in range(2):
            call.u32(), call.opaque()
        results = self.callback(head[-1], call) if self.callback else None
        if results is not None:
            self.send_record(Pack().u32(xid, rpc.REPLY, rpc.MSG_ACCEPTED).raw(rpc.auth_none()).u32(0).bytes() + results)


class Nfs4Error(Exception):
    def __init__(self, status, results):
        super().__init__(f"compound failed with {status} at operation {len(results)}")
        self.status, self.results = status, results


def bitmap(*bits):
    words = [0] * (max(bits, default=-1) // 32 + 1)
    for bit in bits:
        words[bit // 32] |= 1 << (bit % 32)
    return Pack().u32(len(words), *words).bytes()


def putrootfh():
    return OP_PUTROOTFH, b""


def putfh(handle):
    return OP_PUTFH, Pack().opaque(handle).bytes()


def getfh():
    return OP_GETFH, b""


def lookup(name):
    return OP_LOOKUP, Pack().string(name).bytes()


def mkdir(name):
    return OP_CREATE, Pack().u32(2).string(name).bytes() + bitmap() + Pack().opaque(b"").bytes()


def open_file(clientid, owner, name=None, seqid=0, access=SHARE_BOTH, deny=0, create=False):
    """By name in the current folder; UNCHECKED create with mode 0644."""
    body = Pack().u32(seqid, access, deny).u64(clientid).opaque(owner)
    if create:
        body.u32(1, 0)
        body.raw(bitmap(33))
        body.opaque(Pack().u32(0o644).bytes())
    else:
        body.u32(0)
    return OP_OPEN, body.u32(0).string(name).bytes()


def open_confirm(stateid, seqid):
    return OP_OPEN_CONFIRM, Pack().fixed(stateid).u32(seqid).bytes()


def close(stateid, seqid=0):
    return OP_CLOSE, Pack().u32(seqid).fixed(stateid).bytes()


def lock_new(kind, offset, length, open_seqid, open_stateid, clientid, owner, lock_seqid=0):
    body = Pack().u32(kind, 0).u64(offset, length).u32(1, open_seqid).fixed(open_stateid)
    return OP_LOCK, body.u32(lock_seqid).u64(clientid).opaque(owner).bytes()


def unlock(stateid, seqid, offset, length):
    return OP_LOCKU, Pack().u32(WRITE_LT, seqid).fixed(stateid).u64(offset, length).bytes()


def write(stateid, offset, data, stable=0):
    return OP_WRITE, Pack().fixed(stateid).u64(offset).u32(stable).opaque(data).bytes()


def commit():
    return OP_COMMIT, Pack().u64(0).u32(0).bytes()


def renew(clientid):
    return OP_RENEW, Pack().u64(clientid).bytes()


def delegreturn(stateid):
    return OP_DELEGRETURN, Pack().fixed(stateid).bytes()


def readdir(cookie, verifier, dircount, maxcount, attributes):
    body = Pack().u64(cookie).fixed(verifier).u32(dircount, maxcount).bytes()
    return OP_READDIR, body + bitmap(*attributes)


def read_bitmap(reply):
    return [word * 32 + bit for word, value in enumerate([reply.u32() for _ in range(reply.u32())])
            for bit in range(32) if value >> bit & 1]


def decode_open(reply):
    result = {"stateid": reply.fixed(16), "change": (reply.u32(), reply.u64(), reply.u64()), "flags": reply.u32()}
    read_bitmap(reply)
    result["delegation"] = reply.u32()
    if result["delegation"] in (1, 2):
        result["deleg_stateid"], result["recall"] = reply.fixed(16), reply.u32()
        if result["delegation"] == 2:
            result["limit"] = (reply.u32(), reply.u64())
        reply.u32(), reply.u32(), reply.u32(), reply.opaque()
    elif result["delegation"] == 3 and reply.u32() in (1, 2):
        reply.u32()
    return result


def decode_readdir(reply):
    start = reply.position
    result = {"verifier": reply.fixed(8), "entries": []}
    while reply.u32():
        cookie, name = reply.u64(), reply.opaque()
        read_bitmap(reply)
        result["entries"].append((cookie, name, reply.opaque()))
    result["eof"] = bool(reply.u32())
    result["size"] = reply.position - start
    return result


def decode_exchange_id(reply):
    result = {"clientid": reply.u64(), "seqid": reply.u32(), "flags": reply.u32()}
    reply.u32()
    reply.u64(), reply.opaque(), reply.opaque()
    for _ in range(reply.u32()):
        reply.opaque(), reply.opaque(), reply.u64(), reply.u32()
    return result


def decode_channel(reply):
    names = ("headerpad", "max_request", "max_response", "max_cached", "operations", "requests")
    result = {name: reply.u32() for name in names}
    result["ird"] = [reply.u32() for _ in range(reply.u32())]
    return result


def decode_create_session(reply):
    return {"session": reply.fixed(16), "seqid": reply.u32(), "flags": reply.u32(),
            "fore": decode_channel(reply), "back": decode_channel(reply)}


def decode_sequence(reply):
    result = {"session": reply.fixed(16), "seqid": reply.u32(), "slot": reply.u32()}
    result.update(highest=reply.u32(), target=reply.u32(), flags=reply.u32())
    return result


def decode_getattr(reply):
    return {"bits": read_bitmap(reply), "values": reply.opaque()}


DECODERS = {
    OP_GETFH: rpc.Unpacker.opaque, OP_OPEN: decode_open, OP_READDIR: decode_readdir, OP_GETATTR: decode_getattr,
    OP_OPEN_CONFIRM: lambda r: r.fixed(16), OP_CLOSE: lambda r: r.fixed(16), OP_LOCK: lambda r: r.fixed(16), OP_LOCKU: lambda r: r.fixed(16),
    OP_SETCLIENTID: lambda r: (r.u64(), r.fixed(8)), OP_CREATE: lambda r: (r.u32(), r.u64(), r.u64(), read_bitmap(r)),
    OP_WRITE: lambda r: (r.u32(), r.u32(), r.fixed(8)), OP_COMMIT: lambda r: r.fixed(8),
    OP_EXCHANGE_ID: decode_exchange_id, OP_CREATE_SESSION: decode_create_session, OP_SEQUENCE: decode_sequence,
    OP_BIND_CONN: lambda r: (r.fixed(16), r.u32(), r.u32()),
}


class Client:
    """An NFSv4 client on one connection."""

    def __init__(self, port, name, minor=0, timeout=30.0):
        self.rpc = Connection(port, timeout=timeout)
        self.name, self.minor = name.encode(), minor
        self.clientid = 0
        self.session = None

    def close_connection(self):
        self.rpc.close()

    def send(self, operations):
        body = Pack().string("").u32(self.minor, len(operations)).bytes()
        body += b"".join(Pack().u32(number).bytes() + arguments for number, arguments in operations)
        return self.rpc.send_call(100003, 4, 1, body)

    def receive(self, xid):
        reply = self.rpc.wait(xid)
        status = reply.u32()
        reply.opaque()
        results = []
        for _ in range(reply.u32()):
            number, result_status = reply.u32(), reply.u32()
            decode = DECODERS.get(number)
            results.append(decode(reply) if result_status == OK and decode else result_status)
            if result_status != OK:
                break
        return status, results

    def compound(self, *operations):
        """All results; raises Nfs4Error unless the status is NFS4_OK."""
        status, results = self.receive(self.send(operations))
        if status != OK:
            raise Nfs4Error(status, results)
        return results

    def poll(self, done, failure="not in time", seconds=30):
        """Serves callbacks until done() holds; raises `failure` when it does not in time, unless that is None."""
        end = time.monotonic() + seconds
        while not done():
            left = end - time.monotonic()
            if left <= 0:
                if failure is None:
                    return
                raise AssertionError(failure)
            try:
                self.rpc.replies_of_nobody(min(left, 0.1))
            except rpc.Timeout:
                pass

    # NFSv4.0

    def set_clientid(self, verifier=b"verifier", callback="127.0.0.1.0.0"):
        body = Pack().fixed(verifier).opaque(self.name).u32(0x40000000).string("tcp").string(callback).u32(1)
        self.clientid, confirm = self.compound((OP_SETCLIENTID, body.bytes()))[0]
        self.compound((OP_SETCLIENTID_CONFIRM, Pack().u64(self.clientid).fixed(confirm).bytes()))

    def open40(self, folder, name, owner, **how):
        """Opens by name with a fresh open owner and confirms it: (handle, open stateid)."""
        results = self.compound(putfh(folder), open_file(self.clientid, owner, name, seqid=0, **how), getfh())
        stateid = results[1]["stateid"]
        if results[1]["flags"] & 2:
            stateid = self.compound(putfh(results[2]), open_confirm(stateid, 1))[1]
        return results[2], stateid

    # NFSv4.1

    def create_session(self, back_channel=True, program=0x40000000):
        body = Pack().fixed(b"verifier").opaque(self.name).u32(0, 0, 0).bytes()
        exchange = self.compound((OP_EXCHANGE_ID, body))[0]
        self.clientid = exchange["clientid"]
        body = Pack().u64(self.clientid).u32(exchange["seqid"], 2 if back_channel else 0)
        body.u32(0, 1049620, 1049480, 3428, 8, 16, 0).u32(0, 4096, 4096, 0, 2, 16, 0)
        body.u32(program, 1, 0)
        self.session = self.compound((OP_CREATE_SESSION, body.bytes()))[0]
        self.sequence_id = 0
        self.call41((OP_RECLAIM_COMPLETE, Pack().u32(0).bytes()))

    def call41(self, *operations):
        """With SEQUENCE on slot 0 in front; the results have SEQUENCE's first."""
        return self.finish41(self.start41(*operations))

    def start41(self, *operations):
        self.sequence_id += 1
        sequence = Pack().fixed(self.session["session"]).u32(self.sequence_id, 0, 0, 0).bytes()
        return self.send([(OP_SEQUENCE, sequence), *operations])

    def finish41(self, xid):
        status, results = self.receive(xid)
        if status != OK:
            raise Nfs4Error(status, results)
        return results
