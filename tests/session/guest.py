"""For tests that run in the VM: the gateway over RDMA, mounts by the kernel's client, and what the kernel counts."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from gateway import Export, Gateway

if not os.environ.get("FABRIC_IN_VM"):
    print(f"SKIP {pathlib.Path(sys.argv[0]).stem}: runs in the VM only: tests/vm/vm -- {sys.argv[0]}")
    sys.exit(77)
ADDRESS = os.environ["VM_ADDRESS"]


def run(*command, **how):
    how = {"check": True, "text": True, "stdout": subprocess.PIPE, "timeout": 300, **how}
    return subprocess.run([str(c) for c in command], **how).stdout


def rdma_gateway(**how):
    """A gateway on the guest's card. FSAL MEM: with VFS a thread that has switched credentials loses its verbs."""
    how = {"fsal": "MEM", "blocks": {"MEM": {"Inode_Size": 1 << 20}}, "rdma": True, **how}
    return Gateway(how.pop("exports", None) or [Export("/mem")], **how)


def mount_point():
    return pathlib.Path(tempfile.mkdtemp(prefix="mount-"))


@contextlib.contextmanager
def mounted(gateway, version, transport="rdma", options=""):
    """The export, mounted by the kernel's NFS client, as a pathlib.Path."""
    folder = mount_point()
    mount(gateway, version, folder, transport, options)
    try:
        yield folder
    finally:
        run("umount", "-f", "-l", folder)
        folder.rmdir()


def mount(gateway, version, folder, transport="rdma", options="", path="/export"):
    port = 20049 if transport == "rdma" else gateway.nfs_port
    how = f"vers={version},proto={transport},port={port},timeo=100,retrans=2,{options}"
    if version.startswith("3"):                     # the gateway runs without rpcbind, so without lock services
        how = f"{how.rstrip(',')},nolock,mountproto=tcp,mountport={gateway.mount_port}"
    run("mount", "-t", "nfs", "-o", how.rstrip(","), f"{ADDRESS}:{path}", folder)


def mount_stats(folder):
    """/proc/self/mountstats of one mount, as a list of lines."""
    text = pathlib.Path("/proc/self/mountstats").read_text()
    part = text.split(f" mounted on {folder} ", 1)[1].split("\ndevice ", 1)[0]
    return part.splitlines()


def operation_count(folder, operation):
    for line in mount_stats(folder):
        if line.strip().startswith(operation + ":"):
            return int(line.split()[1])
    return 0


def rdma_resources():
    """How many QPs, CQs and memory regions the server has: all that belong to user space, since the kernel names them after
    the thread that made them, which may be gone."""
    counts = {}
    for kind in ("qp", "cq", "mr", "pd"):
        rows = json.loads(run("rdma", "-j", "resource", "show", kind) or "[]")
        counts[kind] = sum(1 for row in rows if "pid" in row)
    return counts
