"""NFSv4.0 and 4.1/4.2 clients over rpc.Connection: compounds of any operations, sessions, and the state that opens need.

    client = Client40(gateway)                  # SETCLIENTID and confirm
    client = Client41(gateway, minor=2)         # EXCHANGE_ID, CREATE_SESSION, RECLAIM_COMPLETE; SEQUENCE goes in by itself
    handle = client.run(*ops.path("/export/a"), ops.getfh())[-1]
"""
import itertools
import os
import types

import nfs4_ops as ops
import rpc
from nfs3 import NfsError, STATUS, STATUS_NAMES
from rpc import Packer

NFS_PROGRAM = 100003
STATUS.update({
    "BAD_STATEID": 10025, "BAD_SEQID": 10026, "NOT_SAME": 10027, "LOCK_RANGE": 10028, "SYMLINK": 10029, "RESTOREFH": 10030,
    "ATTRNOTSUPP": 10032, "NO_GRACE": 10033, "RECLAIM_BAD": 10034, "BADXDR": 10036, "LOCKS_HELD": 10037, "OPENMODE": 10038,
    "BADOWNER": 10039, "BADCHAR": 10040, "BADNAME": 10041, "BAD_RANGE": 10042, "LOCK_NOTSUPP": 10043,
    "OP_ILLEGAL": 10044, "DEADLOCK": 10045, "FILE_OPEN": 10046, "ADMIN_REVOKED": 10047, "CB_PATH_DOWN": 10048,
    "DELAY": 10008, "SAME": 10009, "DENIED": 10010, "EXPIRED": 10011, "LOCKED": 10012, "GRACE": 10013, "FHEXPIRED": 10014,
    "SHARE_DENIED": 10015, "WRONGSEC": 10016, "CLID_INUSE": 10017, "RESOURCE": 10018, "MOVED": 10019,
    "NOFILEHANDLE": 10020, "MINOR_VERS_MISMATCH": 10021, "STALE_CLIENTID": 10022, "STALE_STATEID": 10023,
    "OLD_STATEID": 10024, "BADSESSION": 10052, "BADSLOT": 10053, "SEQ_MISORDERED": 10063, "SEQUENCE_POS": 10064,
    "REQ_TOO_BIG": 10065, "REP_TOO_BIG": 10066, "REP_TOO_BIG_TO_CACHE": 10067, "RETRY_UNCACHED_REP": 10068, "TOO_MANY_OPS": 10070, "OP_NOT_IN_SESSION": 10071,
    "UNION_NOTSUPP": 10090, "XATTR2BIG": 10096, "NOXATTR": 10095})
STATUS_NAMES.update({number: name for name, number in STATUS.items()})
STATUS_NAMES[10008] = "DELAY"


def compound_arguments(operations, minor=0, tag=b""):
    return Packer().opaque(tag).u32(minor).u32(len(operations)).raw(b"".join(operations)).bytes()


def decode_compound(data):
    """(status, [(operation, status, decoded result or None)]) of the results of a COMPOUND."""
    status = data.u32()
    data.opaque()
    results = []
    for _ in range(data.u32()):
        number, one = data.u32(), data.u32()
        value = None
        if one == 0:
            value = ops.DECODERS[number](data)
        elif number == ops.SETATTR:
            data.array(rpc.Unpacker.u32)            # attrsset comes with an error too
        elif number in (ops.LOCK, ops.LOCKT) and one == STATUS["DENIED"]:
            value = types.SimpleNamespace(offset=data.u64(), length=data.u64(), kind=data.u32(), clientid=data.u64(),
                                          owner=data.opaque())
        elif number == ops.SETCLIENTID and one == STATUS["CLID_INUSE"]:
            value = (data.opaque(), data.opaque())
        results.append((number, one, value))
    if not data.done():
        raise rpc.XdrError(f"{len(data.rest())} bytes behind the COMPOUND reply")
    return status, results


class Client:
    """What both kinds share; `export` is the pseudo path that names are taken below."""
    minor = 0

    def __init__(self, gateway, export="/export", connection=None, name=None, **options):
        self.gateway, self.export = gateway, export
        self.connection = connection or rpc.Connection(gateway.nfs_port, **options)
        self.name = name or f"test-{os.getpid()}-{os.urandom(6).hex()}"
        self.boot = os.urandom(8)
        self.owners = itertools.count()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.connection.close()

    def compound(self, operations, minor=None, **options):
        """As given, nothing added: (status, results)."""
        arguments = compound_arguments(operations, self.minor if minor is None else minor)
        return decode_compound(self.connection.call(NFS_PROGRAM, 4, 1, arguments, **options))

    def values(self, operations):
        status, results = self.compound(operations)
        if status:
            number, one, _ = results[-1] if results else (0, status, None)
            raise NfsError(one, ops.NAMES.get(number, f"operation {number}"))
        return [value for _, _, value in results]

    def run(self, *operations):
        """The decoded result of each operation; NfsError names the one that failed."""
        return self.values(list(operations))

    def path(self, path):
        """Operations that make the object at `path` below the export the current one."""
        return ops.path(self.export + "/" + path.strip("/"))

    def handle(self, path=""):
        return self.run(*self.path(path), ops.getfh())[-1]

    def read_all(self, handle, step=1 << 20, stateid=ops.ANONYMOUS):
        parts, offset = [], 0
        while True:
            part = self.run(ops.putfh(handle), ops.read(stateid, offset, step))[-1]
            parts.append(part.data)
            offset += len(part.data)
            if part.eof:
                return b"".join(parts)
            if not part.data:
                raise AssertionError(f"READ at {offset} returned nothing and no end of file")

    def list(self, handle, numbers=(ops.RDATTR_ERROR, ops.FILEID), **options):
        entries, cookie, verifier = [], 0, bytes(8)
        while True:
            page = self.run(ops.putfh(handle), ops.readdir(cookie, verifier, numbers=numbers, **options))[-1]
            entries += page.entries
            if page.eof:
                return entries
            cookie, verifier = page.entries[-1].cookie, page.verifier

    def put(self, directory, name, content, step=1 << 20):
        """Creates and writes a file, commits, closes; its handle."""
        opened = self.open(directory, name, how=ops.UNCHECKED)
        for offset in range(0, len(content), step):
            part, done = content[offset:offset + step], 0
            while done < len(part):
                done += self.run(ops.putfh(opened.handle), ops.write(opened.stateid, offset + done, part[done:]))[-1].count
        self.run(ops.putfh(opened.handle), ops.commit())
        self.close(opened)
        return opened.handle


class Client40(Client):
    """`callback_address` is where the server may call back, as a universal address."""

    def __init__(self, gateway, callback_address="127.0.0.1.0.0", **options):
        super().__init__(gateway, **options)
        found = self.run(ops.setclientid(self.name, self.boot, callback_address))[-1]
        self.clientid = found.clientid
        self.run(ops.setclientid_confirm(found.clientid, found.verifier))

    def open(self, directory, name, owner=None, share=ops.BOTH_ACCESS, deny=0, how=None, values=None, verifier=None):
        """A new open-owner unless one is given as (name, next seqid); see `Opened.owner` for the next call."""
        text, seqid = owner or (f"owner-{next(self.owners)}", 0)
        opened = self.run(ops.putfh(directory),
                          ops.open_(name, text, self.clientid, seqid, share, deny, how, values, verifier), ops.getfh())
        result = types.SimpleNamespace(handle=opened[-1], stateid=opened[1].stateid, owner=(text, seqid + 1),
                                       flags=opened[1].flags)
        if result.flags & 2:                        # OPEN4_RESULT_CONFIRM
            result.stateid = self.run(ops.putfh(result.handle), ops.open_confirm(result.stateid, seqid + 1))[-1]
            result.owner = (text, seqid + 2)
        return result

    def close(self, opened):
        self.run(ops.putfh(opened.handle), ops.close(opened.stateid, opened.owner[1]))
        opened.owner = (opened.owner[0], opened.owner[1] + 1)


class Client41(Client):
    """A session of one slot that this object uses; more slots by `slot=` on `values`. With `back_channel` the server calls
    back on the same connection: see rpc.Connection.serve."""

    def __init__(self, gateway, minor=1, slots=16, back_channel=False, **options):
        super().__init__(gateway, **options)
        self.minor = minor
        found = self.bare(ops.exchange_id(self.name, self.boot))[-1]
        self.clientid = found.clientid
        flags = 2 if back_channel else 0            # CREATE_SESSION4_FLAG_CONN_BACK_CHAN
        self.created = self.bare(ops.create_session(found.clientid, found.sequence, ops.channel(slots), flags=flags))[-1]
        self.session = self.created.session
        self.sequences = {}
        self.run(ops.reclaim_complete())

    def bare(self, *operations):
        """Without SEQUENCE in front."""
        return Client.values(self, list(operations))

    def values(self, operations, slot=0):
        self.sequences[slot] = self.sequences.get(slot, 0) + 1
        return Client.values(self, [ops.sequence(self.session, self.sequences[slot], slot, slot), *operations])[1:]

    def open(self, directory, name, share=ops.BOTH_ACCESS, deny=0, how=None, values=None, verifier=None, owner=None):
        text = owner or f"owner-{next(self.owners)}"
        opened = self.run(ops.putfh(directory),
                          ops.open_(name, text, self.clientid, 0, share, deny, how, values, verifier), ops.getfh())
        return types.SimpleNamespace(handle=opened[-1], stateid=opened[1].stateid, owner=text, flags=opened[1].flags)

    def close(self, opened):
        self.run(ops.putfh(opened.handle), ops.close(opened.stateid))

    def end(self):
        self.bare(ops.destroy_session(self.session))
        self.bare(ops.destroy_clientid(self.clientid))
