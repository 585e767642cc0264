"""Files that are written back: acknowledged when this node's disks have them, right through the gateway at once, and at the
backing store later, in order."""
import errno
import hashlib
import json
import os
import subprocess
import time

import case
import gateway as gw
import nfs3

MIB = 1 << 20
HELD = "drain.open=ENOSPC"                          # the backing store takes nothing
CTL = os.path.join(os.environ.get("FABRIC_BUILD_DIR", str(gw.ROOT / "build")), "burstbuffer/fabricctl/fabricctl")


class WriteBack(case.GatewayCase):
    @classmethod
    def exports(cls):
        cls.folder = cls.backing / "ckpt"
        cls.folder.mkdir(mode=0o777)
        os.chmod(cls.folder, 0o777)
        cls.options = {"burst_buffer": True, "write_back":
                       f"  paths:\n    - {cls.backing}/ckpt/**\n    - {cls.backing}/other/*\n  max_dirty: 24MiB\n  shutdown: keep"}
        return super().exports()

    def setUp(self):
        self.only_fabric("has no burst buffer")
        self.client = self.v3()
        self.directory = self.client.walk("ckpt")

    def tearDown(self):
        self.gateway.set_faults("")
        super().tearDown()

    def hold(self):
        self.gateway.set_faults(HELD)

    def ctl(self, order, *arguments, status=0):
        ran = subprocess.run([CTL, order, "--json", "--socket", self.gateway.control_socket, *map(str, arguments)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual(ran.returncode, status, (order, ran.stdout, ran.stderr))
        return json.loads(ran.stdout.splitlines()[-1])

    def drain(self, *paths):
        self.gateway.set_faults("")
        answer = self.ctl("drain", *(paths or [self.folder]), "--timeout", "60s")
        self.assertEqual(answer["state"], "drained")

    def put(self, name, content):
        return self.client.put(self.directory, name, content)

    def at_backing(self, name):
        return (self.folder / name).read_bytes()

    def mtime(self, name):
        return os.stat(self.folder / name).st_mtime_ns

    def restart(self):
        """By kill -9, with the drain held from the start on."""
        self.gateway.kill9()
        self.gateway.restart()
        self.client = self.v3()
        self.directory = self.client.walk("ckpt")

    # -- the life of a file

    def test_written_read_restarted_drained(self):
        self.hold()
        content = os.urandom(5 * MIB + 777)
        handle = self.put("life", content)
        self.assertEqual(self.at_backing("life"), bytes(len(content)), "the size is there, the bytes are not")
        self.assertEqual(self.client.read_all(handle), content)
        status = self.ctl("status", self.folder / "life")
        self.assertEqual((status["state"], status["undrained_bytes"]), ("local", len(content)))
        verifier = self.client.commit(handle).verifier
        self.restart()
        self.assertNotEqual(self.client.commit(handle).verifier, verifier)
        self.assertEqual(self.client.read_all(handle), content, "after a kill")
        counters = ("fabric_writeback_dirty_bytes", "fabric_writeback_dirty_files")
        shown = self.gateway.metrics()
        self.assertTrue(all(shown[name] > 0 for name in counters), "a start counts what it finds")
        self.drain()
        shown = self.gateway.metrics()
        self.assertEqual([shown[name] for name in counters], [0, 0])
        self.assertEqual(hashlib.sha256(self.at_backing("life")).digest(), hashlib.sha256(content).digest())
        self.assertEqual(self.client.read_all(handle), content)
        self.assertEqual(self.ctl("status", self.folder)["state"], "drained")

    def test_stable_writes(self):
        self.hold()
        handle = self.client.create(self.directory, "stable").handle
        reply = self.client.write(handle, 10, b"x" * 5000, nfs3.FILE_SYNC)
        self.assertEqual(reply.committed, nfs3.FILE_SYNC)
        self.restart()
        self.assertEqual(self.client.read_all(handle), bytes(10) + b"x" * 5000)
        self.drain()
        self.assertEqual(self.at_backing("stable"), bytes(10) + b"x" * 5000)

    def test_what_was_not_committed_is_lost_with_another_verifier(self):
        self.hold()
        handle = self.client.create(self.directory, "unstable").handle
        first = self.client.write(handle, 0, b"u" * 9000)
        self.assertEqual(self.client.read_all(handle), b"u" * 9000)
        self.restart()
        self.assertNotEqual(self.client.commit(handle).verifier, first.verifier)
        self.assertIn(self.client.read_all(handle), [b"u" * 9000, bytes(9000)])

    def test_outside_of_the_rules_nothing_is_held(self):
        self.hold()
        self.client.put(self.client.root, "outside", b"o" * 100000)
        self.assertEqual((self.backing / "outside").read_bytes(), b"o" * 100000)

    # -- mixed reads

    def test_reads_of_both(self):
        old = os.urandom(300000)
        handle = self.put("both", old)
        self.drain()
        self.hold()
        model = bytearray(old)
        for offset, length in [(5000, 70000), (100000, 1), (99990, 20), (299000, 5000), (400000, 300)]:
            data = os.urandom(length)
            self.client.write(handle, offset, data)
            if offset + length > len(model):
                model.extend(bytes(offset + length - len(model)))
            model[offset:offset + length] = data
        for offset, length in [(0, len(model)), (4999, 3), (74990, 40), (299999, 2), (304000, 96001), (400299, 100)]:
            part = self.client.read(handle, offset, length)
            self.assertEqual(part.data, bytes(model[offset:offset + length]), (offset, length))
        self.assertTrue(self.client.read(handle, 400299, 100).eof)
        self.assertEqual(self.client.read(handle, len(model), 10).data, b"")
        self.client.commit(handle)
        self.drain()
        self.assertEqual(self.at_backing("both"), bytes(model))

    # -- what happens to files

    def test_truncate(self):
        self.hold()
        content = os.urandom(200000)
        handle = self.put("cut", content)
        self.client.setattr(handle, nfs3.sattr(size=70000))
        self.client.setattr(handle, nfs3.sattr(size=90000))
        self.client.write(handle, 85000, b"n" * 100, nfs3.FILE_SYNC)
        expected = bytearray(content[:70000] + bytes(20000))
        expected[85000:85100] = b"n" * 100
        self.assertEqual(self.client.read_all(handle), bytes(expected))
        self.restart()
        self.assertEqual(self.client.read_all(handle), bytes(expected), "after a kill")
        self.drain()
        self.assertEqual(self.at_backing("cut"), bytes(expected))

    def test_truncate_to_nothing_and_write_again(self):
        self.hold()
        handle = self.put("again", os.urandom(200000))
        self.client.setattr(handle, nfs3.sattr(size=0))
        self.assertEqual(self.client.read_all(handle), b"")
        self.put("again", b"short")
        self.restart()
        self.assertEqual(self.client.read_all(handle), b"short")
        self.drain()
        self.assertEqual(self.at_backing("again"), b"short")

    def test_rename_and_link(self):
        self.hold()
        content = os.urandom(150000)
        handle = self.put("first", content)
        self.client.link(handle, self.directory, "second")
        self.client.rename(self.directory, "first", self.client.root, "renamed")
        self.assertEqual(self.client.read_all(self.client.walk("renamed")), content)
        self.restart()
        self.assertEqual(self.client.read_all(self.client.walk("ckpt/second")), content)
        self.client.remove(self.directory, "second")
        self.drain(self.backing / "renamed")
        self.assertEqual((self.backing / "renamed").read_bytes(), content)

    def test_rename_over(self):
        self.hold()
        new = os.urandom(150000)
        self.put("target", os.urandom(150000))
        self.put("temporary", new)
        self.client.rename(self.directory, "temporary", self.directory, "target")
        self.assertEqual(self.client.read_all(self.client.walk("ckpt/target")), new)
        self.drain()
        self.assertEqual(self.at_backing("target"), new)

    def test_removed_files_are_not_drained(self):
        self.hold()
        handle = self.put("removed", os.urandom(MIB))
        self.client.remove(self.directory, "removed")
        self.assert_status("STALE", self.client.getattr, handle)
        self.put("after", b"after")
        self.drain()
        self.assertEqual(self.at_backing("after"), b"after")
        self.assertEqual(self.ctl("flush")["undrained_bytes"], 0)

    def test_overwritten_while_it_drains(self):
        content = bytearray(os.urandom(8 * MIB))
        handle = self.put("live", bytes(content))
        self.gateway.set_faults("drain.write=delay:30")
        for number in range(40):
            offset = (number * 7 * MIB // 3) % (7 * MIB)
            data = os.urandom(100000)
            self.client.write(handle, offset, data)
            content[offset:offset + len(data)] = data
            if number % 3 == 0:
                self.client.commit(handle)
            self.assertEqual(self.client.read(handle, offset - min(offset, 1000), 150000).data,
                             bytes(content[offset - min(offset, 1000):][:150000]), number)
        self.client.commit(handle)
        self.drain()
        self.assertEqual(self.at_backing("live"), bytes(content))

    def test_the_time_of_modification_stays(self):
        self.hold()
        handle = self.put("time", os.urandom(3 * MIB))
        before = self.client.getattr(handle).mtime
        time.sleep(0.05)
        self.gateway.set_faults("drain.fsync=delay:300")
        self.ctl("drain", self.folder)
        self.assertEqual(self.client.getattr(handle).mtime, before)
        self.restart()
        self.assertEqual(self.client.getattr(handle).mtime, before)
        self.hold()
        self.client.write(handle, 0, b"later")
        self.client.setattr(handle, nfs3.sattr(mtime=(1000000000, 5000)))
        self.client.commit(handle)
        self.drain()
        self.assertEqual(self.mtime("time"), 1000000000 * 10**9 + 5000)

    # -- order

    def test_a_marker_is_drained_last(self):
        self.hold()
        data = os.urandom(4 * MIB)
        self.put("marker", b"nothing yet")
        self.put("data-1", data)
        self.put("data-2", data[::-1])
        self.put("marker", b"done       ")
        self.assertEqual(self.ctl("wait", "--drained", self.folder, "--timeout", "1s", status=1)["state"], "local")
        self.gateway.set_faults("drain.fsync=delay:200")
        flush = subprocess.Popen([CTL, "flush", "--socket", self.gateway.control_socket], stdout=subprocess.DEVNULL)
        self.addCleanup(flush.wait)
        deadline = time.monotonic() + 60
        while self.at_backing("marker") != b"done       ":
            self.assertLess(time.monotonic(), deadline)
            seen = self.at_backing("marker")
            if seen.startswith(b"done"):
                self.assertEqual((self.at_backing("data-1"), self.at_backing("data-2")), (data, data[::-1]))
        self.assertEqual((self.at_backing("data-1"), self.at_backing("data-2")), (data, data[::-1]))

    # -- trouble at the backing store, and limits

    def test_errors_of_the_backing_store(self):
        for point, name in [("drain.write", "ENOSPC"), ("drain.write", "EIO"), ("drain.fsync", "EIO"), ("drain.open", "EDQUOT")]:
            self.gateway.set_faults(f"{point}={name}")
            content = os.urandom(100000)
            self.put(f"{point}-{name}", content)
            deadline = time.monotonic() + 30
            while "trouble" not in str(self.ctl("status", self.folder, status=0)["rules"]):
                self.assertLess(time.monotonic(), deadline, (point, name))
                time.sleep(0.05)
            self.assertIn(os.strerror(getattr(errno, name)), str(self.ctl("status")["rules"]))
            self.assertEqual(self.ctl("flush", status=1)["ok"], False)
            self.drain()
            self.assertEqual(self.at_backing(f"{point}-{name}"), content)

    def test_one_rule_does_not_hold_up_another(self):
        other = self.backing / "other"
        other.mkdir(mode=0o777)
        os.chmod(other, 0o777)
        content = os.urandom(50000)
        self.client.put(self.client.walk("other"), "file", content)
        self.ctl("drain", other, "--timeout", "60s")
        self.assertEqual((other / "file").read_bytes(), content)

    def test_more_than_may_be_dirty(self):
        """Writes go on at the drain's pace; with the drain stuck they get its error."""
        content = os.urandom(MIB)
        for number in range(40):
            self.put(f"many-{number}", content)
        self.drain()
        for number in range(40):
            self.assertEqual(self.at_backing(f"many-{number}"), content)
        self.hold()
        with self.assertRaises(nfs3.NfsError) as caught:
            for number in range(40):
                self.put(f"many-{number}", content[::-1])
        self.assertEqual(caught.exception.name, "NOSPC")
        self.drain()
        self.assertEqual(self.at_backing("many-0"), content[::-1])

    def test_a_hanging_backing_store(self):
        """Saving and reading go on; what is not there yet is shown, and arrives."""
        self.gateway.set_faults("drain.write=delay:3000*1")
        content = os.urandom(2 * MIB)
        handle = self.put("hung", content)
        self.assertEqual(self.client.read_all(handle), content)
        self.assertEqual(self.ctl("status", self.folder / "hung")["state"], "local")
        self.drain()
        self.assertEqual(self.at_backing("hung"), content)

    def test_a_backing_store_that_changes_underneath(self):
        self.hold()
        content = os.urandom(MIB + 5)
        for name in ("cut", "gone", "renamed", "behind"):
            self.put(name, content)
        os.truncate(self.folder / "cut", 10)
        os.unlink(self.folder / "gone")
        os.rename(self.folder / "renamed", self.folder / "other-name")
        self.drain()
        for name in ("cut", "other-name", "behind"):
            self.assertEqual(self.at_backing(name), content, name)
        self.assertFalse((self.folder / "gone").exists())
        self.assertEqual(self.ctl("flush")["undrained_bytes"], 0)

    def test_staging_drains_first(self):
        self.hold()
        content = os.urandom(300000)
        self.put("staged", content)
        ran = subprocess.run([CTL, "stage", "--socket", self.gateway.control_socket, str(self.folder / "staged")],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("not drained", ran.stdout)
        self.gateway.set_faults("")
        self.ctl("stage", self.folder / "staged")
        self.assertEqual(self.at_backing("staged"), content)
        self.assertEqual(self.ctl("verify", self.folder / "staged")["not_held_files"], 0)

    def test_a_failing_disk(self):
        """What it does not make durable the client sends again, and that goes through."""
        handle = self.client.create(self.directory, "lost").handle
        first = self.client.write(handle, 0, b"l" * 5000)
        self.gateway.set_faults("store.publish=EIO*1")
        self.assertNotEqual(self.client.commit(handle).verifier, first.verifier)
        self.client.write(handle, 0, b"l" * 5000)
        self.client.commit(handle)
        self.drain()
        self.assertEqual(self.at_backing("lost"), b"l" * 5000)

    def test_shutdown_keeps_or_drains(self):
        self.hold()
        self.put("kept", b"k" * 70000)
        self.gateway.restart()
        self.client = self.v3()
        self.directory = self.client.walk("ckpt")
        self.assertEqual(self.client.read_all(self.client.walk("ckpt/kept")), b"k" * 70000)
        self.drain()
        self.gateway.write_back = self.gateway.write_back.replace("keep", "drain")
        self.gateway.restart()
        self.client = self.v3()
        self.directory = self.client.walk("ckpt")
        self.gateway.set_faults("drain.write=delay:100")
        self.put("drained", b"d" * 70000)
        self.gateway.stop()
        self.assertEqual(self.at_backing("drained"), b"d" * 70000)
        self.gateway.write_back = self.gateway.write_back.replace("drain", "keep")
        self.gateway.set_faults("")
        self.gateway.restart()


if __name__ == "__main__":
    case.main()
