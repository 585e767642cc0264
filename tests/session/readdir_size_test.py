#!/usr/bin/python3
"""READDIR: a reply is as large as the client asks for, whole, and never larger (RFC 7530 section 16.24.4)."""
import pathlib
import sys

import nfs4
import nfs4_ops as ops
from gateway import Export, Gateway, backing_dir

ENTRIES = 20_000
ATTRIBUTES = (0, 1, 3, 4, 8, 11, 20, 33, 35, 36, 37, 41, 45, 47, 52, 53, 55)    # what `ls -l` has the kernel ask for


def listing(client, handle, maxcount, dircount=None):
    """All names, and the size of each reply."""
    dircount = maxcount if dircount is None else dircount
    names, sizes, cookie, verifier = [], [], 0, bytes(8)
    while True:
        page = client.run(ops.putfh(handle), ops.readdir(cookie, verifier, dircount, maxcount, ATTRIBUTES))[-1]
        names += [entry.name.decode() for entry in page.entries]
        sizes.append(page.size)
        assert page.size <= maxcount, f"asked for at most {maxcount} bytes, got {page.size}"
        if page.eof:
            return names, sizes
        assert page.entries, "neither entries nor the end"
        cookie, verifier = page.entries[-1].cookie, page.verifier


def main():
    folder = pathlib.Path(backing_dir())
    wanted = [f"entry-{number:06}" for number in range(ENTRIES)]
    for name in wanted:
        (folder / name).touch()
    with Gateway([Export(str(folder))], fsal="VFS") as gateway:
        for minor in (0, 1):
            client = nfs4.Client41(gateway) if minor else nfs4.Client40(gateway)
            handle = client.handle()
            for maxcount, at_least in ((1 << 20, 900_000), (100_000, 90_000), (4096, 3_500)):
                names, sizes = listing(client, handle, maxcount)
                assert sorted(names) == wanted, f"{len(names)} names of {ENTRIES}, or others"
                short = [size for size in sizes[:-1] if size < at_least]
                assert not short, f"4.{minor}: {len(short)} of {len(sizes)} replies below {at_least} of {maxcount} bytes"
                print(f"4.{minor}: {ENTRIES} entries in {len(sizes)} replies of at most {maxcount} bytes", flush=True)
            names, _ = listing(client, handle, 1 << 20, dircount=0)
            assert sorted(names) == wanted, f"{len(names)} names of {ENTRIES} with a dircount of 0"


if __name__ == "__main__":
    sys.exit(main())
