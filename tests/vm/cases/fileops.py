"""Every file operation over NFS gives the result and the errno that it gives on the backing file system itself."""
import os

from guest import oracle
from guest.backing import Backing
from guest.mounts import Mount
from guest.network import Client
from guest.servers import make_server, writes_back
from guest.suite import Suite


def compare(server, version, protocol, client, local, sections):
    with Mount(server, version, protocol, client=client) as mount:
        remote = oracle.fileops_log(os.path.join(mount.path, f"ops-{version}-{protocol}"), sections)
    if writes_back(server):
        print(f"skip statfs/8 MiB are gone v{version} {protocol}: write-back: the backing store has them later", flush=True)
        local = {key: result for key, result in local.items() if key != ("statfs", "8 MiB are gone")}
        remote.pop(("statfs", "8 MiB are gone"), None)
    wrong = oracle.differences(local, remote, version)
    count = len(wrong)
    if wrong:
        with open(os.path.join(os.environ["OUT"], f"fileops-{version}-{protocol}"), "w", errors="surrogateescape") as full:
            full.write("\n".join(wrong) + "\n")
        wrong = [line[:300] for line in wrong[:60]] + (["..."] if len(wrong) > 60 else [])
        raise AssertionError(f"{count} of {len(local)} results differ:\n  " + "\n  ".join(wrong))


def run(options):
    backing = Backing(options.backing, size_mb=1024)
    client = Client()
    suite = Suite(options.only)
    local = oracle.fileops_log(os.path.join(backing.path, "local"), options.sections)
    print(f"{len(local)} results on {options.backing}", flush=True)
    server = make_server(options.server, backing.path).start()
    for version in options.versions:
        for protocol in options.protocols:
            suite.case(f"fileops v{version} {protocol}", compare, server, version, protocol,
                       client if protocol == "tcp" else None, local, options.sections)
    server.stop()
    suite.finish()
