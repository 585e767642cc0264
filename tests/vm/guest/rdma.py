"""What the RDMA stack and the client's transports look like from outside, and cutting a connection."""
import glob
import json
import os
import subprocess

from guest.shell import run

TRANSPORTS = "/sys/kernel/sunrpc/xprt-switches/switch-*/xprt-*"


def resources():
    """{"qp": n, "mr": n, ...} of soft-RoCE that user processes hold: in the guest that is the gateway. The kernel names the thread
    that asked for each, not the process (6.1), so they cannot be told apart by process."""
    counts = {}
    for kind in ("qp", "cq", "mr", "pd"):
        entries = json.loads(run("rdma", "-j", "resource", "show", kind) or "[]")
        counts[kind] = sum("pid" in entry for entry in entries)
    return counts


def transports(protocol, address="10.0.2.15"):
    """Folders in sysfs of the client's transports to the server (not those of MOUNT and NLM)."""
    found = []
    for folder in glob.glob(TRANSPORTS):
        if not folder.endswith(f"-{protocol}"):
            continue
        try:
            with open(os.path.join(folder, "dstaddr"), encoding="utf-8") as file:
                if file.read().strip() == address:
                    found.append(folder)
        except OSError:                             # gone meanwhile
            continue
    return found


def transport_info(folder):
    """The numbers of xprt_info as a dict of integers: cong_win is the credit limit times 256, cur_cong what is in use."""
    values = {}
    with open(os.path.join(folder, "xprt_info"), encoding="utf-8") as file:
        for line in file:
            name, _, value = line.strip().partition("=")
            if value.strip().lstrip("-").isdigit():
                values[name] = int(value)
    return values


def cut(folder, tries=500):
    """Breaks the transport's connection at once: giving it its own address again makes the client disconnect and reconnect.

    The kernel waits there for a transport that is in use, and nothing wakes it when the transport is free again (Linux 6.1,
    rpc_sysfs_xprt_dstaddr_store): a process of its own does it, and another one when that has slept for long."""
    path = os.path.join(folder, "dstaddr")
    with open(path, encoding="utf-8") as file:
        address = file.read().strip()
    for _ in range(tries):
        process = subprocess.Popen(["sh", "-c", 'echo "$0" > "$1"', address, path])
        try:
            if process.wait(0.1) != 0:
                raise AssertionError(f"{path}: writing {address} failed")
            return
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    raise AssertionError(f"{path}: the transport was in use at each of {tries} tries")
