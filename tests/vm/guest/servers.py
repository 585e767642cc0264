"""One interface to the servers that a test can run against: the gateway (FABRIC or VFS) and the kernel's server."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../lib"))
import gateway                                      # noqa: E402

from guest.backing import Backing                   # noqa: E402
from guest.knfsd import Knfsd                       # noqa: E402
from guest.network import start_rpc_services             # noqa: E402
from guest.shell import PATIENCE                    # noqa: E402

KINDS = ("fabric", "vfs", "knfsd")
SQUASH = {"no_root_squash": "No_Root_Squash", "root_squash": "Root_Squash", "all_squash": "All_Squash"}


class Ganesha(gateway.Gateway):
    """The gateway with all versions over TCP and RDMA, exporting one folder; registered with rpcbind, for v3's locks."""

    pseudo = "/export"

    def __init__(self, fsal, folder, squash="no_root_squash", **options):
        self.name = fsal
        self.disk = None
        export = gateway.Export(folder, self.pseudo, {"Squash": SQUASH[squash], **options.pop("export_options", {})})
        super().__init__([export], fsal=fsal, rdma=options.pop("rdma", True), **options)
        if self._knows_option("Enable_RPCBIND"):
            self.core = {"Enable_RPCBIND": "true", **self.core}

    def _choose_ports(self):
        super()._choose_ports()
        self.ports["nfs"] = 2049

    @property
    def tcp_port(self):
        return self.nfs_port

    def export_path(self, _version):
        return self.pseudo

    def _burst_buffer_disk(self):
        """Of its own: the guest's folders lie in a file system without O_DIRECT."""
        if self.disk is None:
            self.disk = Backing("ext4", 256, "disk-" + self.work.name)
        return self.disk.path

    def close(self):
        super().close()
        if self.disk is not None:
            self.disk.destroy()
            self.disk = None

    def start(self, timeout=120):
        start_rpc_services()
        return super().start(timeout * PATIENCE)


def writes_back(server):
    """Whether the exported folder may lack what clients have written: drain() before it is looked at there."""
    return isinstance(server, Ganesha) and server.writes_back


def drain(server):
    if writes_back(server):
        server.drain()


def make_server(kind, folder, squash="no_root_squash", **options):
    """A server of `folder`, not started. `options` are Gateway's and have no meaning for knfsd."""
    if kind == "knfsd":
        return Knfsd(folder, squash)
    return Ganesha(kind, folder, squash, **options)
