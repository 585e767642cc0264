"""A second client: a network of its own (namespace and veth pair) with its own rpcbind, so with its own lockd.

Client and server in one network both register NLM with one rpcbind, so the client's lockd hides the server's. TCP only:
soft-RoCE of this kernel lives in the main network.
"""
from guest.shell import run, wait_until


class Client:
    def __init__(self, name="b", number=9):
        self.name = name
        self.server_address = f"10.{number}.0.1"
        self.address = f"10.{number}.0.2"
        self.enter = ["nsenter", f"--net=/run/netns/{name}"]
        self.rpcbind = None
        run("modprobe", "veth")
        run("ip", "netns", "add", name)
        run("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "addr", "add", f"{self.server_address}/24", "dev", f"to-{name}")
        run("ip", "link", "set", f"to-{name}", "up")
        run(*self.enter, "ip", "addr", "add", f"{self.address}/24", "dev", "eth0")
        run(*self.enter, "ip", "link", "set", "eth0", "up")
        run(*self.enter, "ip", "link", "set", "lo", "up")
        start_rpc_services(self.enter)

    def run(self, *command, **options):
        return run(*self.enter, *command, **options)


# Their Unix socket and state are out of sight of each other, or every lockd of the guest would use the same rpcbind. What
# is mounted in the guest must not stay mounted in theirs, or a backing file system is never really unmounted.
RPC_SERVICES = """
umount --recursive /srv/* 2> /dev/null
mount -t tmpfs private /run && mkdir -p /run/rpcbind &&
mount -t tmpfs private /var/lib/nfs && mkdir -p /var/lib/nfs/sm /var/lib/nfs/sm.bak &&
rpcbind -w && exec rpc.statd --no-notify
"""


def start_rpc_services(enter=()):
    """One rpcbind and one rpc.statd for the network."""
    if not rpc_services(enter):
        run(*enter, "unshare", "--mount", "sh", "-c", RPC_SERVICES)
        wait_until(lambda: "status" in rpc_services(enter), 60, "rpcbind and rpc.statd to answer")


def rpc_services(enter=()):
    listing = run(*enter, "rpcinfo", "-p", "127.0.0.1", check=False)
    return [line.split()[-1] for line in listing.splitlines()[1:]] if "program" in listing else []
