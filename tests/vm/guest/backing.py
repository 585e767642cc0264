"""Backing file systems with file handles: images in memory on loop devices."""
import os

from guest.shell import run, CommandFailed


class Backing:
    """An ext4 or XFS file system at `path`, on a loop device over an image in /dev/shm."""

    def __init__(self, kind="ext4", size_mb=1536, name="backing", make_options=(), mount_options=""):
        self.kind = kind
        self.name = name
        self.image = f"/dev/shm/{name}.img"
        self.path = f"/srv/{name}"
        self.mount_options = mount_options
        self.device = None
        os.makedirs(self.path, exist_ok=True)
        with open(self.image, "wb") as image:
            image.truncate(size_mb << 20)
        quiet = ["-q", "-F"] if kind == "ext4" else ["-q", "-f"]
        run(f"mkfs.{kind}", *quiet, *make_options, self.image)
        self.mount()

    def mount(self, device=None):
        """Mounts on `device` (a /dev/loopN that is free) or on the first free one."""
        run("modprobe", "-a", self.kind, "loop", check=False)
        if device is None:
            self.device = run("losetup", "--find", "--show", self.image)
        else:
            if not os.path.exists(device):
                run("mknod", device, "b", "7", device.removeprefix("/dev/loop"))
            run("losetup", device, self.image)
            self.device = device
        options = ["-o", self.mount_options] if self.mount_options else []
        run("mount", "-t", self.kind, *options, self.device, self.path)
        return self

    def unmount(self):
        run("umount", self.path)
        run("losetup", "--detach", self.device)
        self.device = None

    def move_to_other_device(self):
        """Remounts on a device with another number, as after a reboot with disks in another order."""
        before = os.stat(self.path).st_dev
        number = int(self.device.removeprefix("/dev/loop"))
        self.unmount()
        self.mount(f"/dev/loop{number + 7}")
        after = os.stat(self.path).st_dev
        if before == after:
            raise CommandFailed(f"{self.path}: the device number stayed {before} after a remount on {self.device}")

    def destroy(self):
        if self.device:
            self.unmount()
        os.unlink(self.image)
