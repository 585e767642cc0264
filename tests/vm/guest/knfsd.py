"""The kernel's own NFS server: the peer that behaviour and speed are compared with."""
import os

from guest.network import rpc_services, start_rpc_services
from guest.shell import run, wait_until


class Knfsd:
    """knfsd on port 2049, RDMA on 20049. Once a boot: adding the RDMA listener a second time oopses this kernel."""

    name = "knfsd"
    tcp_port = 2049
    rdma_port = 20049
    mount_port = 20048

    def __init__(self, folder, squash="no_root_squash", threads=8):
        self.folder = folder
        self.options = f"rw,no_subtree_check,insecure,sec=sys,{squash}"
        self.threads = threads

    def export_path(self, version):
        """What a client mounts: fsid=0 makes the folder the root of v4's tree."""
        return self.folder if version == "3" else "/"

    running = False                                 # of the whole guest: a second start only changes the export

    def start(self):
        os.makedirs("/var/lib/nfs/v4recovery", exist_ok=True)    # else no client is remembered and grace cannot be ended
        # manage-gids=n: the groups that the client sends count, as they do for Ganesha.
        with open("/etc/nfs.conf", "w", encoding="utf-8") as conf:
            conf.write("[mountd]\nmanage-gids=n\n")
        with open("/etc/exports", "w", encoding="utf-8") as exports:
            exports.write(f"{self.folder} *({self.options},fsid=0)\n")
        start_rpc_services()
        if not Knfsd.running:
            self._load()
        run("exportfs", "-ra")
        run("exportfs", "-f")
        if not Knfsd.running:
            self._serve()
            Knfsd.running = True
        return self

    def _load(self):
        run("modprobe", "lockd", "nlm_timeout=3", "nlm_grace_period=1")     # a grace of 3 s instead of 50
        run("modprobe", "-a", "nfsd", "rpcrdma")
        os.makedirs("/proc/fs/nfsd", exist_ok=True)
        if not os.path.ismount("/proc/fs/nfsd"):
            run("mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd")
        for setting in ("nfsv4gracetime", "nfsv4leasetime"):
            with open(f"/proc/fs/nfsd/{setting}", "w", encoding="utf-8") as file:
                file.write("10")

    def _serve(self):
        run("rpc.mountd", "--port", str(self.mount_port), "--no-udp")
        run("rpc.nfsd", "--no-udp", str(self.threads))
        with open("/proc/fs/nfsd/v4_end_grace", "w", encoding="utf-8") as file:
            file.write("Y")
        with open("/proc/fs/nfsd/portlist", "w", encoding="utf-8") as file:
            file.write(f"rdma {self.rdma_port}\n")
        wait_until(lambda: "mountd" in rpc_services(), 60, "rpc.mountd to register")

    def stop(self):
        """Takes the export away; the server itself runs on, since its RDMA port can be opened once a boot."""
        run("exportfs", "-ua")
