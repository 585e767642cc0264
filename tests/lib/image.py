"""A small file system of its own in a file: for full disks, quotas, remounts, and for tests that could fill a real one."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import gateway


class NoImage(Exception):
    """Images cannot be mounted here: the caller skips with this message."""


def _run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise NoImage(f"{' '.join(map(str, command))} failed: {done.stdout.strip()[-300:]}")
    return done.stdout


class Image:
    """Mounted at `path` from the constructor to close(). `options` are mount options, `mkfs` more arguments of mkfs."""

    def __init__(self, megabytes, kind="ext4", options="", mkfs=()):
        if os.geteuid() != 0:
            raise NoImage("mounting an image needs root")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fabric-image-", dir=gateway.backing_root()))
        self.file, self.path, self.options = self.folder / "image", self.folder / "mnt", options
        self.mounted = False
        try:
            with open(self.file, "wb") as image:
                image.truncate(megabytes << 20)
            _run(f"mkfs.{kind}", "-q", *mkfs, self.file)
            self.path.mkdir()
            self.mount()
        except BaseException:
            self.close()
            raise

    def mount(self):
        _run("mount", "-o", ",".join(filter(None, ["loop", self.options])), self.file, self.path)
        self.mounted = True
        os.chmod(self.path, 0o777)

    def unmount(self):
        if self.mounted:
            _run("umount", self.path)
            self.mounted = False

    def device(self):
        """st_dev of the mounted file system."""
        return os.stat(self.path).st_dev

    def close(self):
        if self.mounted:
            # A server that is being killed can hold it for a moment more; lazily is good enough for a throw-away.
            subprocess.run(["umount", "--lazy", self.path], check=False)
            self.mounted = False
        shutil.rmtree(self.folder, ignore_errors=True)
