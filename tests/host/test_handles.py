"""File handles: what is valid after restarts and remounts, and what stale, foreign and forged ones get."""
import os
import subprocess
import unittest

import case
import gateway as gw
import image
import nfs3
import nfs4_ops as ops
import rpc

BAD = ("STALE", "BADHANDLE")


class Handles(case.GatewayCase):
    @classmethod
    def exports(cls):
        exports = []
        for name in ("export", "other"):
            (cls.backing / name).mkdir(exist_ok=True)
            exports.append(gw.Export(str(cls.backing / name), pseudo=f"/{name}",
                                     options={"Squash": "No_Root_Squash" if name == "export" else "All_Squash"}))
        return exports

    def test_old_handles_are_valid_after_a_restart(self):
        before = self.v3()
        content = os.urandom(70000)
        file = before.put(before.root, "file", content)
        directory = before.mkdir(before.root, "dir").handle
        inner = before.put(directory, "inner", content[:99])
        before4 = self.v40()
        handle4 = before4.handle("file")
        self.gateway.kill9()
        self.gateway.restart()
        after = self.v3()
        self.assertEqual(after.root, before.root)
        self.assertEqual(after.read_all(file), content)
        self.assertEqual(after.read_all(inner), content[:99])
        self.assertEqual([e.name for e in after.list(directory)], [b"inner"])
        self.assertEqual(self.v40().read_all(handle4), content)

    def test_a_removed_files_handle_is_stale(self):
        v3 = self.v3()
        v4 = self.v41()
        file = v3.put(v3.root, "gone", b"x")
        handle4 = v4.handle("gone")
        directory = v3.mkdir(v3.root, "gonedir").handle
        os.unlink(self.backing / "export/gone")                 # behind the gateway's back
        os.rmdir(self.backing / "export/gonedir")
        self.gateway.restart()                                  # nothing cached
        v3, v4 = self.v3(), self.v41()
        for call in (lambda: v3.getattr(file), lambda: v3.read(file, 0, 10), lambda: v3.lookup(directory, "x"),
                     lambda: v3.create(directory, "x"), lambda: v3.list(directory),
                     lambda: v4.run(ops.putfh(handle4), ops.getattr_(ops.SIZE))):
            self.assert_status("STALE", call)

    def test_a_file_removed_through_the_gateway_is_stale_at_once(self):
        v3 = self.v3()
        file = v3.put(v3.root, "short", b"x")
        v3.remove(v3.root, "short")
        self.assert_status("STALE", v3.getattr, file)
        self.assert_status("STALE", v3.write, file, 0, b"y")

    def test_a_directory_removed_behind_the_gateway_is_stale_for_every_call(self):
        """Though the gateway has used it just before, and may keep a descriptor of it."""
        v3 = self.v3()
        directory = v3.mkdir(v3.root, "used").handle
        v3.put(directory, "inner", b"x")
        v3.remove(directory, "inner")
        os.rmdir(self.backing / "export/used")
        for call in (lambda: v3.lookup(directory, "inner"), lambda: v3.create(directory, "inner"), lambda: v3.getattr(directory),
                     lambda: v3.mkdir(directory, "inner"), lambda: v3.symlink(directory, "inner", "x"),
                     lambda: v3.readdir(directory)):
            self.assert_status("STALE", call)
        os.mkdir(self.backing / "export/used")                  # the name again: another directory
        self.assert_status("STALE", v3.getattr, directory)
        v3.put(v3.lookup(v3.root, "used").handle, "inner", b"x")
        self.assertTrue((self.backing / "export/used/inner").exists())

    def test_descriptors_of_many_directories_are_not_all_kept(self):
        v3 = self.v3()
        before = self.gateway.fds()
        for number in range(1200):
            directory = v3.mkdir(v3.root, f"many-{number}").handle
            v3.symlink(directory, "inner", "x")
        self.assertLess(self.gateway.fds() - before, 400)

    def test_a_new_file_with_the_old_inode_number_is_another_file(self):
        v3 = self.v3()
        file = v3.put(v3.root, "one", b"one")
        number = v3.getattr(file).fileid
        v3.remove(v3.root, "one")
        for attempt in range(200):
            again = v3.put(v3.root, f"two{attempt}", b"two")
            if v3.getattr(again).fileid == number:
                self.assertNotEqual(again, file)
                self.assert_status("STALE", v3.read, file, 0, 3)
                return
        self.skipTest("the file system gave the inode number to no other of 200 files")

    def test_a_handle_names_its_export(self):
        """A handle got through one export is not served with the rights of another."""
        v3 = self.v3()
        file = v3.put(v3.root, "mine", b"mine")
        other = nfs3.Client.mount(self.gateway, "/other", connection=v3.connection)
        differing = [i for i in range(min(len(v3.root), len(other.root))) if v3.root[i] != other.root[i]]
        self.assertTrue(differing, "the roots of two exports have the same handle")
        # The other export's head on this file's body: wherever the export is written, the file is not below it. A file
        # system's handle cannot tell that (as with knfsd's no_subtree_check), but the other export's squashing holds.
        for length in range(1, 9):
            mixed = other.root[:length] + file[length:]
            if mixed == file:
                continue
            try:
                v3.setattr(mixed, nfs3.sattr(uid=77))
            except (nfs3.NfsError, rpc.RpcError):
                continue
            self.fail(f"a squashed export let root change an owner: {mixed.hex()}")

    def test_forged_handles_get_an_error(self):
        """Or, where the flipped bit means nothing, the same object: never another one."""
        v3 = self.v3()
        file = v3.put(v3.root, "target", b"target")
        self.assertEqual(v3.read_all(file), b"target")
        refused = 0
        for handle in (file, v3.root):
            number = v3.getattr(handle).fileid
            for position in range(len(handle)):
                for flip in (0x01, 0x80, 0xFF):
                    forged = bytearray(handle)
                    forged[position] ^= flip
                    try:
                        self.assertEqual(v3.getattr(bytes(forged)).fileid, number, f"byte {position} flipped by {flip:#x}")
                    except nfs3.NfsError as error:
                        self.assertIn(error.name, BAD, f"byte {position} flipped by {flip:#x}")
                        refused += 1
                    except rpc.RpcError as error:
                        self.assertEqual(error.stat, "DENIED")      # names no export: no flavour is allowed there
                        refused += 1
        self.assertGreater(refused, 3 * (len(file) + len(v3.root)) * 3 // 4)

    def test_handles_of_every_length(self):
        v3, v4 = self.v3(), self.v40()
        file = v3.put(v3.root, "length", b"length")
        for length in range(65):
            for handle in {file[:length], bytes(length), b"\xff" * length, os.urandom(length)} - {file}:
                self.assert_status((*BAD, "GARBAGE_ARGS", "DENIED"), v3.getattr, handle)
        for length in range(129):
            for handle in (bytes(length), b"\xff" * length, os.urandom(length)):
                self.assert_status((*BAD, "BADXDR", "INVAL", "NOFILEHANDLE", "SERVERFAULT"), v4.run, ops.putfh(handle),
                                   ops.getattr_(ops.SIZE))
        self.assertEqual(v3.read_all(file), b"length")


class Remount(case.GatewayCase):
    """The file system comes back with another device number: handles hold its UUID, not the number."""

    @classmethod
    def make_backing(cls):
        try:
            cls.image = image.Image(64)
        except image.NoImage as error:
            raise unittest.SkipTest(str(error)) from error
        cls.addClassCleanup(cls.image.close)
        return cls.image.path

    def test_old_handles_are_valid_with_another_device_number(self):
        self.only_fabric("takes the fsid from the device, or needs its own fsid")
        v3 = self.v3()
        content = os.urandom(5000)
        file = v3.put(v3.root, "file", content)
        fsid = v3.getattr(file).fsid
        self.gateway.stop()
        device = self.image.device()
        self.image.unmount()
        spare = image.Image(8)                                  # takes the loop device that is free now
        self.addCleanup(spare.close)
        self.image.mount()
        self.assertNotEqual(self.image.device(), device)
        self.gateway.restart()
        after = self.v3()
        self.assertEqual(after.read_all(file), content)
        self.assertEqual(after.getattr(file).fsid, fsid)
        self.assertEqual(after.root, v3.root)


class NoHandles(case.GatewayCase):
    def assert_refused(self, path, reason):
        """The export is not served, and the log names it and the reason."""
        gateway = gw.Gateway([gw.Export(str(self.backing)), gw.Export(path, pseudo="/none")])
        self.addCleanup(gateway.close)
        try:
            gateway.start()
        except gw.GatewayError:
            pass
        else:
            self.assert_status(("NOENT", "ACCES"), nfs3.Client.mount, gateway, "/none")
        self.assertRegex(gateway.log(), f"{path}.*{reason}")

    def test_a_file_system_in_memory(self):
        """Its handles, and its files, are gone after a remount."""
        self.only_fabric("serves it")
        if not gw.is_in_memory("/dev/shm"):
            self.skipTest("/dev/shm is no tmpfs")
        self.assert_refused("/dev/shm", "is in memory")

    def test_a_file_system_without_handles(self):
        self.only_fabric("starts, and fails later")
        if subprocess.run(["mountpoint", "-q", "/sys/fs/cgroup"], check=False).returncode != 0:
            self.skipTest("no file system without handles is mounted at /sys/fs/cgroup")
        self.assert_refused("/proc", "cannot be exported")


if __name__ == "__main__":
    case.main()
