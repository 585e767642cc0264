"""Every NFS version over every transport: a dataset copied in and read from a fresh mount, a checkpoint saved and restored,
random operations against a copy in memory, and fio's own verification."""
import os
import shutil

from guest import trees
from guest.backing import Backing
from guest.checkpoint import Checkpoint
from guest.mounts import Mount
from guest.network import Client
from guest.servers import make_server
from guest.shell import run as command
from guest.suite import Suite

TOOLS = os.environ.get("FABRIC_VM_TOOLS", "")


def dataset(mount, sizes, source_hashes, source):
    target = os.path.join(mount.path, "dataset")
    command("cp", "-a", source, target, timeout=600)
    mount.remount()
    trees.compare_tree(target, source_hashes)
    for path in ("large/l00", "small/00/s00000"):
        local, remote = os.stat(os.path.join(source, path)), os.stat(os.path.join(target, path))
        if (local.st_mtime_ns, local.st_size) != (remote.st_mtime_ns, remote.st_size):
            raise AssertionError(f"{path}: cp -a set mtime {local.st_mtime_ns}, a fresh mount shows {remote.st_mtime_ns}")
    shutil.rmtree(target)
    if os.path.exists(target):
        raise AssertionError("the dataset is still there after its removal")


def checkpoint(mount, shard_bytes):
    folder = os.path.join(mount.path, "checkpoint")
    for step in (1, 2):
        Checkpoint(folder, shard_bytes=shard_bytes if step == 1 else shard_bytes // 8, step=step).save()
    mount.remount()
    Checkpoint(folder, shard_bytes=shard_bytes, step=1).restore()
    Checkpoint(folder, shard_bytes=shard_bytes // 8, step=2).restore()
    shutil.rmtree(folder)


def random_operations(mount, other_client, seed, operations):
    """The second mount is another client's: two mounts of one v4 client share its delegations, so they need not agree."""
    allocate = [] if mount.version == "4.2" else ["--no-allocate"]
    with Mount(mount.server, mount.version, "tcp", client=other_client) as second:
        for name, extra in (("fsx", ["--second", os.path.join(second.path, "fsx")]), ("fsx-direct", ["--direct"])):
            path = os.path.join(mount.path, name)
            command(os.path.join(TOOLS, "fsx"), path, "--seed", seed, "--operations", operations, "--size", 3 << 20,
                    *extra, *allocate, timeout=900)
            os.unlink(path)


def fio(mount, megabytes):
    common = ["--name=verify", f"--directory={mount.path}", f"--size={megabytes}m", "--verify=crc32c", "--verify_fatal=1",
              "--verify_state_save=0", "--ioengine=psync", "--group_reporting", "--minimal", "--numjobs=2"]
    command("fio", *common, "--rw=randwrite", "--bsrange=512-256k", "--bs_unaligned=1", "--verify_backlog=64", timeout=600)
    command("fio", *common, "--rw=write", "--bs=1m", "--direct=1", "--end_fsync=1", timeout=600)
    for number in range(2):
        os.unlink(os.path.join(mount.path, f"verify.{number}.0"))


def run(options):
    long = options.long
    backing = Backing(options.backing, size_mb=1400)
    source = "/dev/shm/source"
    sizes = trees.dataset_sizes(256 << 20 if long else 48 << 20, 2000 if long else 240, seed=options.seed)
    hashes = trees.write_dataset(source, sizes)
    suite = Suite(options.only)
    other_client = Client()
    server = make_server(options.server, backing.path).start()
    for version in options.versions:
        for protocol in options.protocols:
            name = f"v{version} {protocol}"
            mount = Mount(server, version, protocol)
            if suite.case(f"mount {name}", mount.mount) is False:
                continue
            suite.case(f"dataset {name}", dataset, mount, sizes, hashes, source)
            suite.case(f"checkpoint {name}", checkpoint, mount, (64 << 20) if long else (4 << 20))
            suite.case(f"fsx {name}", random_operations, mount, other_client, options.seed, 5000 if long else 300)
            suite.case(f"fio {name}", fio, mount, 64 if long else 4)
            suite.case(f"unmount {name}", mount.unmount)
    suite.case("stop", server.stop)
    suite.finish()
