#!/usr/bin/python3
"""NFSv3 and NFSv4 answer WRITE and COMMIT of one file with the same verifier: the FSAL's (RFC 1813 section 3.3.7).

Only a FSAL with a verifier of its own can show the difference, so this runs on ours.
"""
import os
import sys

import nfs4
import rpc
from gateway import Export, Gateway, NFS_PROGRAM, backing_dir, plugin_dir


def v3_handle(gateway, name):
    with rpc.Connection(gateway.mount_port) as connection:
        reply = connection.call(100005, 3, 1, rpc.Packer().string("/export").bytes())
        assert reply.u32() == 0, "MOUNT refused"
        root = reply.opaque()
    with rpc.Connection(gateway.nfs_port) as connection:
        reply = connection.call(NFS_PROGRAM, 3, 3, rpc.Packer().opaque(root).string(name).bytes())
        assert reply.u32() == 0, "LOOKUP refused"
        return reply.opaque()


def skip_wcc(reply):
    if reply.u32():
        reply.fixed(24)
    if reply.u32():
        reply.fixed(84)


def v3_verifiers(gateway, handle):
    with rpc.Connection(gateway.nfs_port) as connection:
        write = rpc.Packer().opaque(handle).u64(0).u32(4).u32(0).opaque(b"data").bytes()
        reply = connection.call(NFS_PROGRAM, 3, 7, write)
        assert reply.u32() == 0, "WRITE refused"
        skip_wcc(reply)
        reply.u32(), reply.u32()
        written = reply.fixed(8)
        reply = connection.call(NFS_PROGRAM, 3, 21, rpc.Packer().opaque(handle).u64(0).u32(0).bytes())
        assert reply.u32() == 0, "COMMIT refused"
        skip_wcc(reply)
        return written, reply.fixed(8)


def main():
    if not list(plugin_dir().glob("libfsalfabric*.so")):
        print(f"SKIP verifier: FSAL FABRIC is not built in {plugin_dir()}")
        sys.exit(77)
    folder = backing_dir()
    with open(os.path.join(folder, "file"), "wb") as file:
        file.write(b"seed")
    os.chmod(os.path.join(folder, "file"), 0o666)
    with Gateway([Export(folder)], fsal="FABRIC") as gateway:
        client = nfs4.Client(gateway.nfs_port, "client")
        client.set_clientid()
        root = client.compound(nfs4.putrootfh(), nfs4.lookup("export"), nfs4.getfh())[2]
        handle, stateid = client.open40(root, b"file", b"owner")
        v4 = client.compound(nfs4.putfh(handle), nfs4.write(stateid, 0, b"data"), nfs4.commit())
        written, committed = v3_verifiers(gateway, v3_handle(gateway, "file"))
        assert v4[1][2] == v4[2], "NFSv4: WRITE and COMMIT differ"
        assert (written, committed) == (v4[2], v4[2]), f"v3 {written.hex()} {committed.hex()}, v4 {v4[2].hex()}"
    print("one verifier in v3 and v4")


if __name__ == "__main__":
    main()
