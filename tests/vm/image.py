"""Prepares what a guest boots from: Debian's kernel, unpacked in the cache, and a small initramfs made of it.

The kernel is the one that Debian's `linux-image-amd64` depends on. FABRIC_CACHE/vm/PACKAGE holds each package that is
unpacked but not installed (installing nfs-kernel-server would start a server on the host); a second call only reads the
list of modules. Any number of calls may run at once.
"""
import fcntl
import lzma
import os
import re
import shutil
import struct
import subprocess
import tempfile

# What the initramfs needs to reach the host's root; everything else is loaded by name in the guest.
GUEST_TOOLS = "nfs-kernel-server"    # exportfs and rpc.mountd, for the kernel's server in the guest
BOOT_MODULES = ["virtio_pci", "9p", "9pnet_virtio", "overlay", "virtio_console"]


class ImageError(Exception):
    """The message names what failed and what to do."""


def cache_dir():
    base = os.environ.get("FABRIC_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "fabric")
    return os.path.join(base, "vm")


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise ImageError(f"{' '.join(command)} failed ({done.returncode}): {done.stdout.strip()[-600:]}")
    return done.stdout


def kernel_package():
    """The exact package name: a download by pattern would fetch every kernel of the archive."""
    pinned = os.environ.get("FABRIC_VM_KERNEL")
    if pinned:
        return pinned
    known = os.path.join(cache_dir(), "kernel-package")     # apt takes a second to tell; as long as its lists are the same
    try:
        if os.stat(known).st_mtime > os.stat("/var/lib/apt/lists").st_mtime:
            with open(known, encoding="utf-8") as file:
                return file.read()
    except FileNotFoundError:
        pass
    name = newest_kernel_package()
    os.makedirs(cache_dir(), exist_ok=True)
    replace_file(known, name.encode())
    return name


def newest_kernel_package():
    listing = run("apt-cache", "depends", "linux-image-amd64")
    found = re.search(r"Depends: (linux-image-\S+)", listing)
    if not found:
        raise ImageError("apt-cache knows no linux-image-amd64: run `apt-get update`, or set FABRIC_VM_KERNEL to the "
                         "name of a kernel package")
    return found.group(1)


def replace_file(path, data):
    """Whole or not at all, whoever else does the same."""
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(path), delete=False) as file:
        file.write(data)
        os.fchmod(file.fileno(), 0o644)
    os.replace(file.name, path)


def bare_kernel(path):
    """The kernel inside a bzImage (Linux x86 boot protocol: setup_sects, payload_offset, payload_length), or None where it
    is packed by other means than xz. qemu starts it by its PVH note; to unpack it under emulation takes 3 s a boot."""
    with open(path, "rb") as file:
        data = file.read()
    offset, length = struct.unpack_from("<II", data, 0x248)
    begin = ((data[0x1f1] or 4) + 1) * 512 + offset
    try:
        kernel = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(data[begin:begin + length])
    except lzma.LZMAError:
        return None
    return kernel if kernel.startswith(b"\x7fELF") else None


class Image:
    """A kernel, its modules and the initramfs without the job."""

    def __init__(self, directory):
        self.directory = directory
        boot = os.path.join(directory, "boot")
        name = next(f for f in sorted(os.listdir(boot)) if f.startswith("vmlinuz-"))
        self.packed_kernel = os.path.join(boot, name)
        self.version = name[len("vmlinuz-"):]
        self.modules = os.path.join(directory, "lib/modules", self.version)

    def kernel(self):
        """Path of what qemu starts, unpacked on the first call where that can be."""
        path = os.path.join(self.directory, "vmlinux")
        if not os.path.exists(path):
            kernel = bare_kernel(self.packed_kernel)
            if kernel is None:
                return self.packed_kernel
            replace_file(path, kernel)
        return path

    def boot_modules(self):
        """Paths of the modules for the initramfs in the order to load them."""
        dependencies = {}
        names = {}
        with open(os.path.join(self.modules, "modules.dep"), encoding="utf-8") as lines:
            for line in lines:
                path, _, needs = line.partition(":")
                dependencies[path] = needs.split()
                names[os.path.basename(path).split(".")[0].replace("-", "_")] = path
        order = []

        def add(path):
            for need in dependencies[path]:
                add(need)
            if path not in order:
                order.append(path)

        for module in BOOT_MODULES:
            if module in names:                     # absent: built in
                add(names[module])
        return [os.path.join(self.modules, path) for path in order]

    def initramfs(self):
        """The bytes of a cpio archive: busybox, the boot scripts and the modules."""
        here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "boot")
        busybox = shutil.which("busybox")
        if not busybox:
            raise ImageError("busybox is missing: apt-get install busybox-static")
        modules = self.boot_modules()
        archive = CpioArchive()
        for directory in ("bin", "modules"):
            archive.add_directory(directory)
        with open(busybox, "rb") as data:
            archive.add_file("bin/busybox", data.read(), 0o755)
        for script, name in (("init", "init"), ("stage2", "stage2")):
            with open(os.path.join(here, script), "rb") as data:
                archive.add_file(name, data.read(), 0o755)
        for path in modules:
            with open(path, "rb") as data:
                archive.add_file("modules/" + os.path.basename(path), data.read(), 0o644)
        archive.add_file("modules/order", "".join(os.path.basename(p) + "\n" for p in modules).encode(), 0o644)
        return archive


class CpioArchive:
    """Writes the `newc` format that the kernel unpacks (initramfs buffer format, kernel documentation)."""

    def __init__(self):
        self.parts = []
        self.inode = 0

    def _entry(self, name, mode, data):
        self.inode += 1
        encoded = name.encode() + b"\0"
        fields = [self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0]
        header = b"070701" + b"".join(b"%08X" % field for field in fields)
        for part in (header + encoded, data):
            self.parts.append(part + b"\0" * (-len(part) % 4))

    def add_directory(self, name):
        self._entry(name, 0o040755, b"")

    def add_file(self, name, data, mode):
        self._entry(name, 0o100000 | mode, data)

    def finish(self):
        self._entry("TRAILER!!!", 0, b"")
        return b"".join(self.parts)


def prepare():
    """The kernel image in the cache, made on the first call (needs the package archive then)."""
    return Image(unpacked(kernel_package(), lambda directory: run("/sbin/depmod", "-b", directory, Image(directory).version)))


def tools_path():
    """Folders of programs that are in no installed package, for the guest's PATH."""
    return os.path.join(unpacked(GUEST_TOOLS), "usr/sbin")


def unpacked(package, finish=lambda directory: None):
    """Folder of the package's files, fetched, unpacked and finished on the first call."""
    directory = os.path.join(cache_dir(), package)
    complete = os.path.join(directory, ".complete")
    if os.path.exists(complete):
        return directory
    os.makedirs(cache_dir(), exist_ok=True)
    with open(os.path.join(cache_dir(), package + ".lock"), "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)            # two tests may start at once
        if not os.path.exists(complete):
            shutil.rmtree(directory, ignore_errors=True)
            os.makedirs(directory)
            with tempfile.TemporaryDirectory(dir=cache_dir()) as work:
                run("apt-get", "download", "-q", package, cwd=work)
                archive = next(os.path.join(work, f) for f in os.listdir(work) if f.endswith(".deb"))
                run("dpkg", "-x", archive, directory)
            finish(directory)
            with open(complete, "w", encoding="utf-8"):
                pass
    return directory
