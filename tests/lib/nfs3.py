"""A small NFSv3 and MOUNT client (RFC 1813) over rpc.Connection. Calls raise NfsError when the status is not 0.

Every procedure has a function that only builds arguments (`args_...`), so that a test can send a valid call that it
then damages, and a method of `Client` that sends it and decodes the reply in full.
"""
import types

import rpc
from rpc import Packer, Unpacker

NFS_PROGRAM, MOUNT_PROGRAM = 100003, 100005
(NULL, GETATTR, SETATTR, LOOKUP, ACCESS, READLINK, READ, WRITE, CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME, LINK,
 READDIR, READDIRPLUS, FSSTAT, FSINFO, PATHCONF, COMMIT) = range(22)
UNSTABLE, DATA_SYNC, FILE_SYNC = range(3)
UNCHECKED, GUARDED, EXCLUSIVE = range(3)
REG, DIR, BLK, CHR, LNK, SOCK, FIFO = range(1, 8)
DONT_CHANGE, SET_TO_SERVER_TIME, SET_TO_CLIENT_TIME = range(3)

# nfsstat3, with the statuses of version 4 that have other numbers in nfs4.py.
STATUS = {
    "OK": 0, "PERM": 1, "NOENT": 2, "IO": 5, "NXIO": 6, "ACCES": 13, "EXIST": 17, "XDEV": 18, "NODEV": 19, "NOTDIR": 20,
    "ISDIR": 21, "INVAL": 22, "FBIG": 27, "NOSPC": 28, "ROFS": 30, "MLINK": 31, "NAMETOOLONG": 63, "NOTEMPTY": 66,
    "DQUOT": 69, "STALE": 70, "REMOTE": 71, "BADHANDLE": 10001, "NOT_SYNC": 10002, "BAD_COOKIE": 10003,
    "NOTSUPP": 10004, "TOOSMALL": 10005, "SERVERFAULT": 10006, "BADTYPE": 10007, "JUKEBOX": 10008}
STATUS_NAMES = {number: name for name, number in STATUS.items()}


class NfsError(Exception):
    """`status` is the number, `name` e.g. "STALE"."""

    def __init__(self, status, what):
        self.status, self.name = status, STATUS_NAMES.get(status, str(status))
        super().__init__(f"{what}: {self.name}")


def _result(**fields):
    return types.SimpleNamespace(**fields)


# -- arguments

def sattr(mode=None, uid=None, gid=None, size=None, atime=None, mtime=None):
    """Times: (seconds, nanoseconds), or "now" for the server's clock."""
    packer = Packer()
    for value in (mode, uid, gid):
        packer.boolean(value is not None)
        if value is not None:
            packer.u32(value)
    packer.boolean(size is not None)
    if size is not None:
        packer.u64(size)
    for time in (atime, mtime):
        if time is None:
            packer.u32(DONT_CHANGE)
        elif time == "now":
            packer.u32(SET_TO_SERVER_TIME)
        else:
            packer.u32(SET_TO_CLIENT_TIME).u32(time[0]).u32(time[1])
    return packer.bytes()


def args_handle(handle):
    return Packer().opaque(handle).bytes()


def args_name(directory, name):
    return Packer().opaque(directory).string(name).bytes()


def args_setattr(handle, attributes, guard=None):
    packer = Packer().opaque(handle).raw(attributes).boolean(guard is not None)
    if guard is not None:
        packer.u32(guard[0]).u32(guard[1])
    return packer.bytes()


def args_access(handle, bits=0x3F):
    return Packer().opaque(handle).u32(bits).bytes()


def args_read(handle, offset, count):
    return Packer().opaque(handle).u64(offset).u32(count).bytes()


def args_write(handle, offset, data, stable=UNSTABLE, count=None):
    return (Packer().opaque(handle).u64(offset).u32(len(data) if count is None else count).u32(stable).opaque(data)
            .bytes())


def args_create(directory, name, how=UNCHECKED, attributes=None, verifier=None):
    packer = Packer().opaque(directory).string(name).u32(how)
    if how == EXCLUSIVE:
        packer.fixed(verifier)
    else:
        packer.raw(attributes if attributes is not None else sattr(mode=0o644))
    return packer.bytes()


def args_mkdir(directory, name, attributes=None):
    return Packer().opaque(directory).string(name).raw(attributes or sattr(mode=0o755)).bytes()


def args_symlink(directory, name, target, attributes=None):
    return Packer().opaque(directory).string(name).raw(attributes or sattr()).string(target).bytes()


def args_mknod(directory, name, kind, attributes=None, device=(0, 0)):
    packer = Packer().opaque(directory).string(name).u32(kind)
    packer.raw(attributes or sattr(mode=0o600))
    if kind in (BLK, CHR):
        packer.u32(device[0]).u32(device[1])
    return packer.bytes()


def args_rename(from_directory, from_name, to_directory, to_name):
    return Packer().opaque(from_directory).string(from_name).opaque(to_directory).string(to_name).bytes()


def args_link(handle, directory, name):
    return Packer().opaque(handle).opaque(directory).string(name).bytes()


def args_readdir(directory, cookie=0, verifier=bytes(8), count=65536):
    return Packer().opaque(directory).u64(cookie).fixed(verifier).u32(count).bytes()


def args_readdirplus(directory, cookie=0, verifier=bytes(8), dircount=32768, maxcount=65536):
    return Packer().opaque(directory).u64(cookie).fixed(verifier).u32(dircount).u32(maxcount).bytes()


def args_commit(handle, offset=0, count=0):
    return Packer().opaque(handle).u64(offset).u32(count).bytes()


# -- results

def _time(data):
    return (data.u32(), data.u32())


def fattr(data):
    fields = _result(type=data.u32(), mode=data.u32(), nlink=data.u32(), uid=data.u32(), gid=data.u32(), size=data.u64(),
                     used=data.u64(), rdev=(data.u32(), data.u32()), fsid=data.u64(), fileid=data.u64())
    fields.atime, fields.mtime, fields.ctime = _time(data), _time(data), _time(data)
    return fields


def _post_op(data):
    return fattr(data) if data.boolean() else None


def _wcc(data):
    before = _result(size=data.u64(), mtime=_time(data), ctime=_time(data)) if data.boolean() else None
    return _result(before=before, after=_post_op(data))


def _post_op_handle(data):
    return data.opaque(64) if data.boolean() else None


class Client:
    """One export over one connection. `root` is the export's handle."""

    def __init__(self, connection, root):
        self.connection, self.root = connection, root

    @classmethod
    def mount(cls, gateway, path="/export", connection=None, **options):
        """`options` go to rpc.Connection."""
        connection = connection or rpc.Connection(gateway.nfs_port, **options)
        with rpc.Connection(gateway.mount_port) as mount:
            mount.credential = connection.credential
            return cls(connection, mount_handle(mount, path))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.connection.close()

    def raw(self, procedure, arguments, **options):
        """(status, Unpacker at what follows it)."""
        data = self.connection.call(NFS_PROGRAM, 3, procedure, arguments, **options)
        return data.u32(), data

    def _call(self, what, procedure, arguments, **options):
        status, data = self.raw(procedure, arguments, **options)
        if status:
            raise NfsError(status, what)
        return data

    def getattr(self, handle):
        return fattr(self._call("GETATTR", GETATTR, args_handle(handle)))

    def setattr(self, handle, attributes, guard=None):
        return _wcc(self._call("SETATTR", SETATTR, args_setattr(handle, attributes, guard)))

    def lookup(self, directory, name):
        data = self._call(f"LOOKUP {name!r}", LOOKUP, args_name(directory, name))
        return _result(handle=data.opaque(64), attributes=_post_op(data), directory=_post_op(data))

    def access(self, handle, bits=0x3F):
        data = self._call("ACCESS", ACCESS, args_access(handle, bits))
        _post_op(data)
        return data.u32()

    def readlink(self, handle):
        data = self._call("READLINK", READLINK, args_handle(handle))
        _post_op(data)
        return data.opaque()

    def read(self, handle, offset, count):
        return read_result(self._call("READ", READ, args_read(handle, offset, count)))

    def write(self, handle, offset, data, stable=UNSTABLE):
        reply = self._call("WRITE", WRITE, args_write(handle, offset, data, stable))
        return _result(wcc=_wcc(reply), count=reply.u32(), committed=reply.u32(), verifier=reply.fixed(8))

    def _made(self, what, procedure, arguments, **options):
        data = self._call(what, procedure, arguments, **options)
        return _result(handle=_post_op_handle(data), attributes=_post_op(data), directory=_wcc(data))

    def create(self, directory, name, how=UNCHECKED, attributes=None, verifier=None, **options):
        return self._made(f"CREATE {name!r}", CREATE, args_create(directory, name, how, attributes, verifier), **options)

    def mkdir(self, directory, name, attributes=None):
        return self._made(f"MKDIR {name!r}", MKDIR, args_mkdir(directory, name, attributes))

    def symlink(self, directory, name, target, attributes=None):
        return self._made(f"SYMLINK {name!r}", SYMLINK, args_symlink(directory, name, target, attributes))

    def mknod(self, directory, name, kind, attributes=None, device=(0, 0)):
        return self._made(f"MKNOD {name!r}", MKNOD, args_mknod(directory, name, kind, attributes, device))

    def remove(self, directory, name):
        return _wcc(self._call(f"REMOVE {name!r}", REMOVE, args_name(directory, name)))

    def rmdir(self, directory, name):
        return _wcc(self._call(f"RMDIR {name!r}", RMDIR, args_name(directory, name)))

    def rename(self, from_directory, from_name, to_directory, to_name):
        self._call(f"RENAME {from_name!r} to {to_name!r}", RENAME,
                   args_rename(from_directory, from_name, to_directory, to_name))

    def link(self, handle, directory, name):
        self._call(f"LINK {name!r}", LINK, args_link(handle, directory, name))

    def readdir(self, directory, cookie=0, verifier=bytes(8), count=65536):
        data = self._call("READDIR", READDIR, args_readdir(directory, cookie, verifier, count))
        page = _result(attributes=_post_op(data), verifier=data.fixed(8), entries=[])
        while data.boolean():
            page.entries.append(_result(fileid=data.u64(), name=data.opaque(), cookie=data.u64()))
        page.eof = data.boolean()
        return page

    def readdirplus(self, directory, cookie=0, verifier=bytes(8), dircount=32768, maxcount=65536):
        data = self._call("READDIRPLUS", READDIRPLUS, args_readdirplus(directory, cookie, verifier, dircount, maxcount))
        page = _result(attributes=_post_op(data), verifier=data.fixed(8), entries=[])
        while data.boolean():
            page.entries.append(_result(fileid=data.u64(), name=data.opaque(), cookie=data.u64(),
                                        attributes=_post_op(data), handle=_post_op_handle(data)))
        page.eof = data.boolean()
        return page

    def list(self, directory, plus=False, **options):
        """All entries, "." and ".." left out."""
        entries, cookie, verifier = [], 0, bytes(8)
        while True:
            page = (self.readdirplus if plus else self.readdir)(directory, cookie, verifier, **options)
            entries += [entry for entry in page.entries if entry.name not in (b".", b"..")]
            if page.eof:
                return entries
            cookie, verifier = page.entries[-1].cookie, page.verifier

    def fsstat(self):
        data = self._call("FSSTAT", FSSTAT, args_handle(self.root))
        _post_op(data)
        return _result(**{name: data.u64() for name in ("tbytes", "fbytes", "abytes", "tfiles", "ffiles", "afiles")})

    def fsinfo(self):
        data = self._call("FSINFO", FSINFO, args_handle(self.root))
        _post_op(data)
        fields = {name: data.u32() for name in ("rtmax", "rtpref", "rtmult", "wtmax", "wtpref", "wtmult", "dtpref")}
        return _result(**fields, maxfilesize=data.u64(), time_delta=_time(data), properties=data.u32())

    def pathconf(self, handle):
        data = self._call("PATHCONF", PATHCONF, args_handle(handle))
        _post_op(data)
        return _result(linkmax=data.u32(), name_max=data.u32(), no_trunc=data.boolean(), chown_restricted=data.boolean(),
                       case_insensitive=data.boolean(), case_preserving=data.boolean())

    def commit(self, handle, offset=0, count=0):
        data = self._call("COMMIT", COMMIT, args_commit(handle, offset, count))
        return _result(wcc=_wcc(data), verifier=data.fixed(8))

    # -- in larger steps

    def walk(self, path):
        """The handle of a path below the export's root."""
        handle = self.root
        for part in path.strip("/").split("/"):
            handle = self.lookup(handle, part).handle
        return handle

    def read_all(self, handle, step=1 << 20):
        parts, offset = [], 0
        while True:
            part = self.read(handle, offset, step)
            parts.append(part.data)
            offset += len(part.data)
            if part.eof:
                return b"".join(parts)
            if not part.data:
                raise AssertionError(f"READ at {offset} returned nothing and no end of file")

    def put(self, directory, name, content, step=1 << 20):
        """Creates the file, writes it, commits; its handle."""
        handle = self.create(directory, name).handle
        for offset in range(0, len(content), step):
            part = content[offset:offset + step]
            done = 0
            while done < len(part):
                done += self.write(handle, offset + done, part[done:]).count
        self.commit(handle)
        return handle


def read_result(data):
    """What follows status 0 in a READ reply."""
    attributes = _post_op(data)
    count, eof = data.u32(), data.boolean()
    content = data.opaque()
    if count != len(content):
        raise rpc.XdrError(f"READ: count {count}, {len(content)} bytes of data")
    return _result(attributes=attributes, eof=eof, data=content)


def mount_handle(connection, path):
    data = connection.call(MOUNT_PROGRAM, 3, 1, Packer().string(path).bytes())
    status = data.u32()
    if status:
        raise NfsError(status, f"MNT {path}")
    return data.opaque(64)


def exports(connection):
    """The paths that MOUNT's EXPORT procedure lists."""
    data = connection.call(MOUNT_PROGRAM, 3, 5)
    paths = []
    while data.boolean():
        paths.append(data.opaque().decode())
        while data.boolean():
            data.opaque()
    return paths
