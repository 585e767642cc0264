"""NFSv4 operations: builders of their bytes and decoders of their results (RFC 7530, RFC 8881, RFC 7862, RFC 8276).

A builder returns the operation's number and arguments as bytes, ready for a compound; DECODERS has for each operation the
function that reads what follows its status 0.
"""
import types

from rpc import Packer, Unpacker, XdrError

(ACCESS, CLOSE, COMMIT, CREATE, DELEGPURGE, DELEGRETURN, GETATTR, GETFH, LINK, LOCK, LOCKT, LOCKU, LOOKUP, LOOKUPP, NVERIFY,
 OPEN, OPENATTR, OPEN_CONFIRM, OPEN_DOWNGRADE, PUTFH, PUTPUBFH, PUTROOTFH, READ, READDIR, READLINK, REMOVE, RENAME, RENEW,
 RESTOREFH, SAVEFH, SECINFO, SETATTR, SETCLIENTID, SETCLIENTID_CONFIRM, VERIFY, WRITE, RELEASE_LOCKOWNER, BACKCHANNEL_CTL,
 BIND_CONN_TO_SESSION, EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION, FREE_STATEID, GET_DIR_DELEGATION, GETDEVICEINFO,
 GETDEVICELIST, LAYOUTCOMMIT, LAYOUTGET, LAYOUTRETURN, SECINFO_NO_NAME, SEQUENCE, SET_SSV, TEST_STATEID, WANT_DELEGATION,
 DESTROY_CLIENTID, RECLAIM_COMPLETE, ALLOCATE, COPY, COPY_NOTIFY, DEALLOCATE, IO_ADVISE, LAYOUTERROR, LAYOUTSTATS,
 OFFLOAD_CANCEL, OFFLOAD_STATUS, READ_PLUS, SEEK, WRITE_SAME, CLONE, GETXATTR, SETXATTR, LISTXATTRS,
 REMOVEXATTR) = range(3, 76)
NAMES = {value: name for name, value in list(globals().items()) if name.isupper() and isinstance(value, int)}

READ_ACCESS, WRITE_ACCESS, BOTH_ACCESS = 1, 2, 3
UNCHECKED, GUARDED, EXCLUSIVE, EXCLUSIVE4_1 = range(4)
REG, DIR, BLK, CHR, LNK, SOCK, FIFO = range(1, 8)
READ_LT, WRITE_LT, READW_LT, WRITEW_LT = 1, 2, 3, 4
ANONYMOUS = bytes(16)                               # the all-zero stateid
BYPASS = b"\xff" * 16                               # RFC 7530 §9.1.4.3
CURRENT = (1).to_bytes(4, "big") + bytes(12)        # RFC 8881 §16.2.3.1.2

# Attribute numbers with their decoders.
ATTRIBUTES = {}
TYPE, CHANGE, SIZE, FSID, LEASE_TIME, RDATTR_ERROR, FILEHANDLE, FILEID, MAXNAME, MAXREAD, MAXWRITE, MODE, NUMLINKS, OWNER, \
    OWNER_GROUP, RAWDEV, SPACE_USED, TIME_ACCESS, TIME_ACCESS_SET, TIME_METADATA, TIME_MODIFY, TIME_MODIFY_SET, \
    MOUNTED_ON_FILEID = (1, 3, 4, 8, 10, 11, 19, 20, 29, 30, 31, 33, 35, 36, 37, 41, 45, 47, 48, 52, 53, 54, 55)
MAXFILESIZE = 27


def _time(data):
    return (data.u64(), data.u32())


def _bitmap(data):
    words = data.array(Unpacker.u32)
    return [32 * word + bit for word, value in enumerate(words) for bit in range(32) if value >> bit & 1]


for _number, _decoder in {
        0: _bitmap, TYPE: Unpacker.u32, 2: Unpacker.u32, CHANGE: Unpacker.u64, SIZE: Unpacker.u64, 5: Unpacker.boolean,
        6: Unpacker.boolean, 7: Unpacker.boolean, FSID: lambda d: (d.u64(), d.u64()), 9: Unpacker.boolean,
        LEASE_TIME: Unpacker.u32, RDATTR_ERROR: Unpacker.u32, 13: Unpacker.u32, FILEHANDLE: lambda d: d.opaque(128),
        FILEID: Unpacker.u64, MAXFILESIZE: Unpacker.u64, 28: Unpacker.u32, MAXNAME: Unpacker.u32, MAXREAD: Unpacker.u64,
        MAXWRITE: Unpacker.u64, MODE: Unpacker.u32, NUMLINKS: Unpacker.u32, OWNER: Unpacker.opaque,
        OWNER_GROUP: Unpacker.opaque, RAWDEV: lambda d: (d.u32(), d.u32()), 42: Unpacker.u64, 43: Unpacker.u64,
        44: Unpacker.u64, SPACE_USED: Unpacker.u64, TIME_ACCESS: _time, TIME_METADATA: _time, TIME_MODIFY: _time,
        MOUNTED_ON_FILEID: Unpacker.u64}.items():
    ATTRIBUTES[_number] = _decoder


def bitmap(numbers):
    words = [0] * (max(numbers, default=-1) // 32 + 1)
    for number in numbers:
        words[number // 32] |= 1 << number % 32
    return Packer().array(words, Packer.u32).bytes()


def fattr(values):
    """{attribute: encoded value} to the bytes of a fattr4; see `size`, `mode` and the like for the values."""
    return Packer().raw(bitmap(values)).opaque(b"".join(values[number] for number in sorted(values))).bytes()


def encode_size(value):
    return {SIZE: Packer().u64(value).bytes()}


def encode_mode(value):
    return {MODE: Packer().u32(value).bytes()}


def encode_owner(value, group=False):
    return {OWNER_GROUP if group else OWNER: Packer().string(value).bytes()}


def encode_mtime(seconds, nanoseconds):
    return {TIME_MODIFY_SET: Packer().u32(1).u64(seconds).u32(nanoseconds).bytes()}


def attributes(data):
    """A fattr4 as {number: value}."""
    numbers = _bitmap(data)
    body = Unpacker(data.opaque())
    values = {}
    for number in numbers:
        if number not in ATTRIBUTES:
            raise XdrError(f"attribute {number} was not asked for, or has no decoder here")
        values[number] = ATTRIBUTES[number](body)
    if not body.done():
        raise XdrError(f"{len(body.rest())} bytes behind the last attribute")
    return values


# -- builders

def op(number, packer=None):
    return Packer().u32(number).raw(packer.bytes() if packer else b"").bytes()


def putrootfh():
    return op(PUTROOTFH)


def putfh(handle):
    return op(PUTFH, Packer().opaque(handle))


def getfh():
    return op(GETFH)


def savefh():
    return op(SAVEFH)


def restorefh():
    return op(RESTOREFH)


def lookup(name):
    return op(LOOKUP, Packer().string(name))


def lookupp():
    return op(LOOKUPP)


def path(names):
    """PUTROOTFH and LOOKUPs of a path such as "/export/a"."""
    return [putrootfh()] + [lookup(part) for part in names.strip("/").split("/") if part]


def access(bits=0x3F):
    return op(ACCESS, Packer().u32(bits))


def getattr_(*numbers):
    return op(GETATTR, Packer().raw(bitmap(numbers)))


def setattr_(values, stateid=ANONYMOUS):
    return op(SETATTR, Packer().raw(stateid).raw(fattr(values)))


def read(stateid, offset, count):
    return op(READ, Packer().raw(stateid).u64(offset).u32(count))


def write(stateid, offset, data, stable=0):
    return op(WRITE, Packer().raw(stateid).u64(offset).u32(stable).opaque(data))


def commit(offset=0, count=0):
    return op(COMMIT, Packer().u64(offset).u32(count))


def readdir(cookie=0, verifier=bytes(8), dircount=32768, maxcount=65536, numbers=(RDATTR_ERROR, FILEID)):
    return op(READDIR, Packer().u64(cookie).fixed(verifier).u32(dircount).u32(maxcount).raw(bitmap(numbers)))


def readlink():
    return op(READLINK)


def remove(name):
    return op(REMOVE, Packer().string(name))


def rename(old, new):
    """From the saved to the current directory."""
    return op(RENAME, Packer().string(old).string(new))


def link(name):
    """The saved object into the current directory."""
    return op(LINK, Packer().string(name))


def create(kind, name, values=None, extra=b""):
    """`extra`: the target's XDR for LNK, specdata4 for devices."""
    return op(CREATE, Packer().u32(kind).raw(extra).string(name).raw(fattr(values or {})))


def create_dir(name, mode=0o755):
    return create(DIR, name, encode_mode(mode))


def create_symlink(name, target):
    return create(LNK, name, {}, Packer().string(target).bytes())


def open_(name, owner, clientid, seqid=0, share=BOTH_ACCESS, deny=0, how=None, values=None, verifier=None):
    """CLAIM_NULL. `how` None: no create; otherwise UNCHECKED, GUARDED, EXCLUSIVE or EXCLUSIVE4_1."""
    packer = Packer().u32(seqid).u32(share).u32(deny).u64(clientid).string(owner).u32(0 if how is None else 1)
    if how is not None:
        packer.u32(how)
        if how in (EXCLUSIVE, EXCLUSIVE4_1):
            packer.fixed(verifier)
        if how != EXCLUSIVE:
            packer.raw(fattr(values if values is not None else encode_mode(0o644)))
    return op(OPEN, packer.u32(0).string(name))


def open_confirm(stateid, seqid):
    return op(OPEN_CONFIRM, Packer().raw(stateid).u32(seqid))


def close(stateid, seqid=0):
    return op(CLOSE, Packer().u32(seqid).raw(stateid))


def lock_new(kind, offset, length, open_stateid, owner, clientid, open_seqid=0, lock_seqid=0, reclaim=False):
    return op(LOCK, Packer().u32(kind).boolean(reclaim).u64(offset).u64(length).boolean(True).u32(open_seqid)
              .raw(open_stateid).u32(lock_seqid).u64(clientid).string(owner))


def lock_more(kind, offset, length, lock_stateid, lock_seqid=0):
    return op(LOCK, Packer().u32(kind).boolean(False).u64(offset).u64(length).boolean(False).raw(lock_stateid)
              .u32(lock_seqid))


def lockt(kind, offset, length, owner, clientid):
    return op(LOCKT, Packer().u32(kind).u64(offset).u64(length).u64(clientid).string(owner))


def locku(kind, offset, length, lock_stateid, lock_seqid=0):
    return op(LOCKU, Packer().u32(kind).u32(lock_seqid).raw(lock_stateid).u64(offset).u64(length))


def renew(clientid):
    return op(RENEW, Packer().u64(clientid))


def setclientid(name, verifier, callback_address="127.0.0.1.0.0", program=0x40000000):
    return op(SETCLIENTID, Packer().fixed(verifier).string(name).u32(program).string("tcp").string(callback_address).u32(1))


def setclientid_confirm(clientid, verifier):
    return op(SETCLIENTID_CONFIRM, Packer().u64(clientid).fixed(verifier))


def exchange_id(name, verifier, flags=0):
    return op(EXCHANGE_ID, Packer().fixed(verifier).string(name).u32(flags).u32(0).u32(0))


def channel(requests=16, max_request=1 << 21, max_response=1 << 21, cached=8192, operations=64):
    return (0, max_request, max_response, cached, operations, requests)


def create_session(clientid, sequence, fore=None, back=None, flags=0, program=0x40000000):
    packer = Packer().u64(clientid).u32(sequence).u32(flags)
    for attrs in (fore or channel(), back or channel(4, 4096, 4096, 0, 2)):
        for value in attrs:
            packer.u32(value)
        packer.u32(0)                               # no ca_rdma_ird
    return op(CREATE_SESSION, packer.u32(program).u32(1).u32(0))     # one callback_sec_parms: AUTH_NONE


def sequence(session, sequence_id, slot=0, highest=0, cache=False):
    return op(SEQUENCE, Packer().fixed(session).u32(sequence_id).u32(slot).u32(highest).boolean(cache))


def reclaim_complete():
    return op(RECLAIM_COMPLETE, Packer().boolean(False))


def bind_conn_to_session(session, direction):
    """`direction`: 1 fore, 2 back, 7 both or fore (RFC 8881 §18.34.1)."""
    return op(BIND_CONN_TO_SESSION, Packer().fixed(session).u32(direction).boolean(False))


def destroy_session(session):
    return op(DESTROY_SESSION, Packer().fixed(session))


def destroy_clientid(clientid):
    return op(DESTROY_CLIENTID, Packer().u64(clientid))


def allocate(stateid, offset, length):
    return op(ALLOCATE, Packer().raw(stateid).u64(offset).u64(length))


def deallocate(stateid, offset, length):
    return op(DEALLOCATE, Packer().raw(stateid).u64(offset).u64(length))


def seek(stateid, offset, hole):
    return op(SEEK, Packer().raw(stateid).u64(offset).u32(1 if hole else 0))


def getxattr(name):
    return op(GETXATTR, Packer().string(name))


def setxattr(name, value, option=0):
    return op(SETXATTR, Packer().u32(option).string(name).opaque(value))


def listxattrs(cookie=0, maxcount=65536):
    return op(LISTXATTRS, Packer().u64(cookie).u32(maxcount))


def removexattr(name):
    return op(REMOVEXATTR, Packer().string(name))


# -- decoders of what follows status 0

def _result(**fields):
    return types.SimpleNamespace(**fields)


def _change(data):
    return _result(atomic=data.boolean(), before=data.u64(), after=data.u64())


def _delegation(data):
    kind = data.u32()
    if kind in (1, 2):
        found = _result(kind=kind, stateid=data.fixed(16), recall=data.boolean())
        if kind == 2:
            limit = data.u32()
            found.limit = data.u64() if limit == 1 else (data.u32(), data.u32())
        found.ace = (data.u32(), data.u32(), data.u32(), data.opaque())
        return found
    if kind == 3:
        why = data.u32()
        return _result(kind=3, why=why, will_signal=data.boolean() if why in (1, 2) else None)
    return _result(kind=0)


def _open(data):
    found = _result(stateid=data.fixed(16), change=_change(data), flags=data.u32(), attributes=_bitmap(data))
    found.delegation = _delegation(data)
    return found


def _readdir(data):
    start = data.position
    page = _result(verifier=data.fixed(8), entries=[])
    while data.boolean():
        page.entries.append(_result(cookie=data.u64(), name=data.opaque(), attributes=attributes(data)))
    page.eof = data.boolean()
    page.size = data.position - start
    return page


def _exchange_id(data):
    found = _result(clientid=data.u64(), sequence=data.u32(), flags=data.u32(), protection=data.u32())
    if found.protection:
        raise XdrError("state protection was not asked for")
    found.owner = (data.u64(), data.opaque())
    found.scope = data.opaque()
    found.implementation = data.array(lambda d: (d.opaque(), d.opaque(), _time(d)))
    return found


def _channel(data):
    values = tuple(data.u32() for _ in range(6))
    data.array(Unpacker.u32)
    return values


def _nothing(_):
    return None


DECODERS = {number: _nothing for number in (
    LOOKUP, LOOKUPP, NVERIFY, PUTFH, PUTPUBFH, PUTROOTFH, RENEW, RESTOREFH, SAVEFH, SETCLIENTID_CONFIRM, VERIFY, LOCKT,
    RELEASE_LOCKOWNER, DELEGPURGE, DELEGRETURN, DESTROY_SESSION, DESTROY_CLIENTID, RECLAIM_COMPLETE, FREE_STATEID,
    ALLOCATE, DEALLOCATE, OPENATTR)}
DECODERS.update({
    ACCESS: lambda d: _result(supported=d.u32(), access=d.u32()),
    CLOSE: lambda d: d.fixed(16), OPEN_CONFIRM: lambda d: d.fixed(16), OPEN_DOWNGRADE: lambda d: d.fixed(16),
    LOCK: lambda d: d.fixed(16), LOCKU: lambda d: d.fixed(16),
    COMMIT: lambda d: d.fixed(8),
    CREATE: lambda d: _result(change=_change(d), attributes=_bitmap(d)),
    GETATTR: attributes, SETATTR: _bitmap,
    GETFH: lambda d: d.opaque(128),
    LINK: _change, REMOVE: _change, RENAME: lambda d: (_change(d), _change(d)),
    OPEN: _open, READDIR: _readdir,
    READ: lambda d: _result(eof=d.boolean(), data=d.opaque()),
    READLINK: lambda d: d.opaque(),
    WRITE: lambda d: _result(count=d.u32(), committed=d.u32(), verifier=d.fixed(8)),
    SETCLIENTID: lambda d: _result(clientid=d.u64(), verifier=d.fixed(8)),
    EXCHANGE_ID: _exchange_id,
    CREATE_SESSION: lambda d: _result(session=d.fixed(16), sequence=d.u32(), flags=d.u32(), fore=_channel(d),
                                      back=_channel(d)),
    SEQUENCE: lambda d: _result(session=d.fixed(16), sequence=d.u32(), slot=d.u32(), highest=d.u32(), target=d.u32(),
                                flags=d.u32()),
    BIND_CONN_TO_SESSION: lambda d: _result(session=d.fixed(16), direction=d.u32(), rdma=d.boolean()),
    SEEK: lambda d: _result(eof=d.boolean(), offset=d.u64()),
    GETXATTR: lambda d: d.opaque(), SETXATTR: _change, REMOVEXATTR: _change,
    LISTXATTRS: lambda d: _result(cookie=d.u64(), names=d.array(Unpacker.opaque), eof=d.boolean()),
})
