#!/usr/bin/python3
"""The kernel's client mounts every NFS version over RDMA, and a remount leaves nothing behind in the server."""
import hashlib
import os
import sys

import guest


def use(folder, version):
    """Names, sizes and bytes through one mount."""
    data = os.urandom(300_000)
    (folder / f"d{version}").mkdir()
    (folder / f"d{version}" / "file").write_bytes(data)
    os.rename(folder / f"d{version}" / "file", folder / f"file{version}")
    return hashlib.sha256(data).hexdigest()


def main(versions):
    with guest.rdma_gateway() as gateway:
        for version in versions:
            with guest.mounted(gateway, version) as folder:
                proto = [line for line in guest.mount_stats(folder) if "proto=rdma" in line and f"vers={version}" in line]
                assert proto, f"{version}: mounted as " + guest.mount_stats(folder)[1]
                wanted = use(folder, version)
            with guest.mounted(gateway, version) as folder:
                got = hashlib.sha256((folder / f"file{version}").read_bytes()).hexdigest()
                assert got == wanted, f"{version}: other bytes after a remount"
            print(f"{version}: mounted, written, remounted, read", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or ["3", "4.0", "4.1", "4.2"])
