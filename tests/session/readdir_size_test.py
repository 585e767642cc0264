#!/usr/bin/python3
"""READDIR: a reply is as large as the client asks for, whole, and never larger (RFC 7530 section 16.24.4)."""
import pathlib
import sys

import nfs4
from gateway import Export, Gateway, backing_dir

ENTRIES = 20_000
ATTRIBUTES = (0, 1, 3, 4, 8, 11, 20, 33, 35, 36, 37, 41, 45, 47, 52, 53, 55)    # what `ls -l` has the kernel ask for


def listing(client, handle, maxcount, minor, dircount=None):
    """All names, and the size of each reply."""
    dircount = maxcount if dircount is None else dircount
    names, sizes, cookie, verifier = [], [], 0, bytes(8)
    while True:
        operations = (nfs4.putfh(handle), nfs4.readdir(cookie, verifier, dircount, maxcount, ATTRIBUTES))
        reply = (client.call41(*operations) if minor else client.compound(*operations))[-1]
        names += [name.decode() for _, name, _ in reply["entries"]]
        sizes.append(reply["size"])
        assert reply["size"] <= maxcount, f"asked for at most {maxcount} bytes, got {reply['size']}"
        if reply["eof"]:
            return names, sizes
        assert reply["entries"], "neither entries nor the end"
        cookie, verifier = reply["entries"][-1][0], reply["verifier"]


def main():
    folder = pathlib.Path(backing_dir())
    wanted = [f"entry-{number:06}" for number in range(ENTRIES)]
    for name in wanted:
        (folder / name).touch()
    with Gateway([Export(str(folder))], fsal="VFS") as gateway:
        for minor in (0, 1):
            client = nfs4.Client(gateway.nfs_port, f"lister {minor}", minor)
            if minor:
                client.create_session(back_channel=False)
                handle = client.call41(nfs4.putrootfh(), nfs4.lookup("export"), nfs4.getfh())[-1]
            else:
                handle = client.compound(nfs4.putrootfh(), nfs4.lookup("export"), nfs4.getfh())[-1]
            for maxcount, at_least in ((1 << 20, 900_000), (100_000, 90_000), (4096, 3_500)):
                names, sizes = listing(client, handle, maxcount, minor)
                assert sorted(names) == wanted, f"{len(names)} names of {ENTRIES}, or others"
                short = [size for size in sizes[:-1] if size < at_least]
                assert not short, f"4.{minor}: {len(short)} of {len(sizes)} replies below {at_least} of {maxcount} bytes"
                print(f"4.{minor}: {ENTRIES} entries in {len(sizes)} replies of at most {maxcount} bytes", flush=True)
            names, _ = listing(client, handle, 1 << 20, minor, dircount=0)
            assert sorted(names) == wanted, f"{len(names)} names of {ENTRIES} with a dircount of 0"


if __name__ == "__main__":
    sys.exit(main())
