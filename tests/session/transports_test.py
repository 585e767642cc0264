#!/usr/bin/python3
"""An export's Transports: what it names is served, what it does not name is refused, and RDMA is a name.

tcp      over TCP on the host: an export of RDMA alone is refused there, one of TCP alone is served
rdma     in the VM: an export of TCP alone is refused over RDMA, one of RDMA alone is served
"""
import os
import sys

import nfs3
import nfs4
from gateway import Export, Gateway, backing_dir


def tcp():
    exports = [Export(backing_dir(), "/onlyrdma", {"Transports": "RDMA"}), Export(backing_dir(), "/onlytcp", {"Transports": "TCP"})]
    with Gateway(exports, fsal="VFS") as gateway:
        nfs4.Client(gateway, "/onlytcp").handle()
        try:
            nfs4.Client(gateway, "/onlyrdma").handle()
        except nfs3.NfsError as error:
            print(f"over TCP an export of RDMA alone is refused: {error}")
            return
    raise AssertionError("an export of RDMA alone is served over TCP")


def rdma():
    import guest
    exports = [Export("/mem", "/export", {"Transports": "RDMA"}), Export("/mem2", "/onlytcp", {"Transports": "TCP"})]
    with guest.rdma_gateway(exports=exports) as gateway:
        with guest.mounted(gateway, "4.1") as folder:
            (folder / "file").write_bytes(b"served")
        folder = guest.mount_point()
        try:
            guest.mount(gateway, "4.1", folder, path="/onlytcp")
            raise AssertionError(f"an export of TCP alone is mounted over RDMA: {os.listdir(folder)}")
        except guest.subprocess.CalledProcessError:
            print("over RDMA an export of TCP alone is refused")


if __name__ == "__main__":
    {"tcp": tcp, "rdma": rdma}[sys.argv[1]]()
