"""NFS mounts by the kernel client, in the guest's main network or in the network of a second client."""
import os
import re

from guest.shell import run

ADDRESS = os.environ.get("VM_ADDRESS", "10.0.2.15")     # rxe0 is at this address
VERSIONS = ("3", "4.0", "4.1", "4.2")
PROTOCOLS = ("rdma", "tcp")


class Mount:
    """A mount of `server` at a folder of its own; use it as a context manager."""

    count = 0

    def __init__(self, server, version, protocol, options="", client=None, path=None, subtree=""):
        self.server = server
        self.version = version
        self.protocol = protocol
        self.client = client                        # a network.Client, or None for the guest's main network
        self.extra = options
        self.subtree = subtree                      # a folder below the export
        Mount.count += 1
        self.path = path or f"/mnt/{Mount.count}"
        self.mounted = False

    def options(self):
        port = self.server.rdma_port if self.protocol == "rdma" else self.server.tcp_port
        parts = [f"vers={self.version}", f"proto={self.protocol}", f"port={port}"]
        if self.version == "3":
            # Locks of v3 belong to the second client: in one network, client and server would both register as lockd.
            parts += [f"mountport={self.server.mount_port}", "mountproto=tcp"]
            parts += [] if self.client else ["nolock"]
        parts += [self.extra] if self.extra else []
        return ",".join(parts)

    def mount(self):
        os.makedirs(self.path, exist_ok=True)
        address = self.client.server_address if self.client else ADDRESS
        prefix = self.client.enter if self.client else []
        source = f"{address}:{self.server.export_path(self.version).rstrip('/')}/{self.subtree}"
        if self.protocol == "rdma":
            run("modprobe", "rpcrdma")
        run(*prefix, "mount", "-t", "nfs", "-o", self.options(), source, self.path, timeout=180)
        self.mounted = True
        self._check()
        return self

    def _check(self):
        """The kernel may fall back to another version or transport: a test of RDMA that ran over TCP proves nothing."""
        with open("/proc/mounts", encoding="utf-8") as mounts:
            line = [m.split() for m in mounts if m.split()[1] == self.path][-1]
        options = line[3]
        seen_version = re.search(r"vers=([\d.]+)", options).group(1)
        seen_protocol = re.search(r"\bproto=(\w+)", options).group(1)
        if (seen_version, seen_protocol) != (self.version, self.protocol):
            raise AssertionError(f"asked for v{self.version} over {self.protocol}, got v{seen_version} over "
                                 f"{seen_protocol}: {options}")

    def unmount(self, lazy=False):
        if self.mounted:
            run("umount", *(["-f", "-l"] if lazy else []), self.path, timeout=180)
            self.mounted = False

    def remount(self):
        """A fresh mount: nothing that is read afterwards comes from this client's cache."""
        self.unmount()
        return self.mount()

    def __enter__(self):
        return self.mount()

    def __exit__(self, kind, value, trace):
        try:
            self.unmount(lazy=kind is not None)
        except Exception:                           # the first error is the one to show
            if kind is None:
                raise
