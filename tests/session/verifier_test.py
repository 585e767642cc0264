#!/usr/bin/python3
"""NFSv3 and NFSv4 answer WRITE and COMMIT of one file with the same verifier: the FSAL's (RFC 1813 section 3.3.7).

Only a FSAL with a verifier of its own can show the difference, so this runs on ours.
"""
import os
import sys

import nfs3
import nfs4
import nfs4_ops as ops
from gateway import Export, Gateway, backing_dir, plugin_dir


def main():
    if not list(plugin_dir().glob("libfsalfabric*.so")):
        print(f"SKIP verifier: FSAL FABRIC is not built in {plugin_dir()}")
        sys.exit(77)
    folder = backing_dir()
    with open(os.path.join(folder, "file"), "wb") as file:
        file.write(b"seed")
    os.chmod(os.path.join(folder, "file"), 0o666)
    with Gateway([Export(folder)], fsal="FABRIC") as gateway:
        v3, v4 = nfs3.Client.mount(gateway), nfs4.Client40(gateway)
        opened = v4.open(v4.handle(), "file")
        _, v4_written, v4_committed = v4.run(ops.putfh(opened.handle), ops.write(opened.stateid, 0, b"data"), ops.commit())
        file = v3.walk("file")
        written, committed = v3.write(file, 0, b"data").verifier, v3.commit(file).verifier
        assert v4_written.verifier == v4_committed, "NFSv4: WRITE and COMMIT differ"
        assert (written, committed) == (v4_committed, v4_committed), \
            f"v3 {written.hex()} {committed.hex()}, v4 {v4_committed.hex()}"
    print("one verifier in v3 and v4")


if __name__ == "__main__":
    main()
