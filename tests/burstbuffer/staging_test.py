"""Staging as a user does it: what is said, what is there, what the exit status is."""
import os
import signal
import subprocess
import time
import unittest

from node import FABRICCTL, FABRICD, MIB, NodeCase


class Staging(NodeCase):
    def tree(self):
        """Small files, an empty one, and one of several chunks; how many, and their bytes."""
        self.make_files(self.data / "set" / "a", 200, lambda number: 1 + number * 331 % 20000)
        self.make_files(self.data / "set" / "b", 3, 5 * MIB + 7)
        (self.data / "set" / "empty").touch()
        files = [path for path in (self.data / "set").rglob("*") if path.is_file()]
        return len(files), sum(path.stat().st_size for path in files)

    def test_everything_is_loaded_and_counted_exactly(self):
        files, size = self.tree()
        answer, events = self.answer("stage", self.data / "set")
        self.assertEqual((answer["files"], answer["bytes"]), (files, size))
        self.assertEqual((answer["done_files"], answer["done_bytes"]), (files, size))
        self.assertEqual(answer["failed_files"], 0)
        self.assertEqual(answer["held_files"], 1, "the empty one needs nothing")
        done = [event["done_bytes"] for event in events if event["event"] == "progress"]
        self.assertEqual(done, sorted(done))
        listed, shares = self.answer("ls", self.data / "set")
        self.assertEqual((listed["held_files"], listed["held_bytes"]), (files, size))
        self.assertEqual([share["path"].removeprefix(str(self.data)) for share in shares], ["/set/a/", "/set/b/", "/set/empty", "/set"])
        verified, _ = self.answer("verify", self.data / "set")
        self.assertEqual((verified["files"], verified["not_held_files"], verified["failed_files"]), (files, 0, 0))
        again, _ = self.answer("stage", self.data / "set")
        self.assertEqual((again["held_files"], again["held_bytes"]), (files, size), "nothing is loaded twice")

    def test_what_people_see(self):
        files, size = self.tree()
        status, out, _ = self.ctl("stage", self.data / "set")
        self.assertEqual(status, 0)
        self.assertIn(f"{files} of {files} files, {size} of {size} bytes are cached", out)
        status, out, _ = self.ctl("ls", self.data / "set")
        self.assertIn("100%", out)
        status, out, _ = self.ctl("status")
        self.assertIn("good", out)

    def test_a_bar_on_a_terminal(self):
        self.tree()
        self.arm("backing.read=delay:20")
        master, slave = os.openpty()
        process = subprocess.Popen([FABRICCTL, "stage", "--socket", self.socket, self.data / "set"], stderr=slave,
                                   stdout=subprocess.DEVNULL)
        os.close(slave)
        shown = b""
        try:
            while piece := os.read(master, 65536):
                shown += piece
        except OSError:
            pass  # EIO: the other end is closed
        os.close(master)
        self.assertEqual(process.wait(60), 0)
        self.assertIn(b"files", shown)
        self.assertIn(b"left", shown)
        self.assertIn(b"#", shown)

    def test_it_goes_on_after_an_interruption(self):
        self.make_files(self.data / "set", 600, 60000)
        self.arm("backing.read=delay:200")          # so that it is far from its end when it is interrupted
        process = subprocess.Popen([FABRICCTL, "stage", "--json", "--socket", self.socket, self.data / "set"],
                                   stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if '"done_files":0' not in line and '"scanning":false' in line:
                break
        process.send_signal(signal.SIGINT)
        process.wait(60)
        process.stdout.close()
        self.arm("")
        answer, _ = self.answer("stage", self.data / "set")
        self.assertEqual(answer["done_files"], 600)
        self.assertGreater(answer["held_files"], 0)
        self.assertLess(answer["held_files"], 600)
        self.assertEqual(self.answer("verify", self.data / "set")[0]["not_held_files"], 0)

    def test_it_survives_the_node(self):
        files, size = self.tree()
        self.answer("stage", self.data / "set")
        self.stop(signal.SIGKILL)
        self.start()
        listed, _ = self.answer("ls", self.data / "set")
        self.assertEqual((listed["held_files"], listed["held_bytes"]), (files, size))
        self.assertEqual(self.answer("verify", self.data / "set")[0]["failed_files"], 0)

    def test_what_is_missing_is_named_with_its_cause(self):
        self.make_files(self.data / "set", 20)
        self.arm("backing.read=EIO@5*3")
        answer, events = self.answer("stage", self.data / "set", self.data / "nowhere", status=1)
        failures = {event["path"]: event["cause"] for event in events if event["event"] == "failure"}
        self.assertEqual(answer["failed_files"], 4)
        self.assertEqual(answer["done_files"], 17)
        self.assertIn("No such file", failures.pop(str(self.data / "nowhere")))
        self.assertEqual(len(failures), 3)
        for path, cause in failures.items():
            self.assertIn("Input/output error", cause, path)
        status, _, err = self.ctl("stage", self.data / "nowhere")
        self.assertEqual(status, 1)
        self.assertIn("No such file", err)
        self.assertEqual(self.answer("stage", self.data / "set")[0]["done_files"], 20)

    def test_what_does_not_fit_is_said_beforehand(self):
        self.make_files(self.data / "set", 10, 0)
        for path in (self.data / "set").iterdir():
            os.truncate(path, 60 * MIB)
        status, _, err = self.ctl("stage", self.data / "set")
        self.assertEqual(status, 1)
        self.assertIn("does not fit", err)
        self.assertIn(str(10 * 60 * MIB), err)
        self.assertEqual(self.answer("ls", self.data / "set")[0]["held_bytes"], 0)

    def test_a_full_disk_is_a_cause_not_a_hang(self):
        self.make_files(self.data / "set", 4)
        self.arm("store.write=ENOSPC")
        answer, events = self.answer("stage", self.data / "set", status=1)
        self.assertEqual(answer["failed_files"], 4)
        self.assertIn("took no more", events[-1]["cause"])

    def test_an_overwritten_file_is_not_what_is_cached(self):
        self.make_files(self.data / "set", 5)
        self.answer("stage", self.data / "set")
        (self.data / "set" / "00002").write_bytes(os.urandom(4096))
        self.assertEqual(self.answer("ls", self.data / "set")[0]["held_files"], 4)
        self.assertEqual(self.answer("verify", self.data / "set")[0]["not_held_files"], 1)
        self.assertEqual(self.answer("stage", self.data / "set")[0]["done_files"], 5)
        self.assertEqual(self.answer("verify", self.data / "set")[0]["not_held_files"], 0)

    def test_bytes_that_are_not_the_files_are_found(self):
        self.make_files(self.data / "set", 30)
        self.answer("stage", self.data / "set")
        self.stop()
        for disk in (self.folder / "d0", self.folder / "d1"):
            for segment in (disk / "segments").iterdir():
                with open(segment, "r+b") as file:
                    if file.read(1) != b"\0":
                        file.seek(100)
                        file.write(b"\0" * 50)
        self.start()
        answer, events = self.answer("verify", self.data / "set", status=1)
        self.assertIn(answer["failed_files"], (1, 2))
        self.assertIn("not what the backing store has", events[0]["cause"])

    def test_pin_unpin_and_evict(self):
        self.make_files(self.data / "set", 10)
        self.answer("stage", "--pin", self.data / "set")
        self.assertEqual(self.answer("ls", self.data / "set")[0]["pinned_files"], 10)
        self.assertEqual(self.answer("unpin", self.data / "set" / "00003")[0]["files"], 1)
        self.assertEqual(self.answer("ls", self.data / "set")[0]["pinned_files"], 9)
        self.answer("pin", "--ttl", "1h", self.data / "set" / "00003")
        self.assertEqual(self.answer("ls", self.data / "set")[0]["pinned_files"], 10)
        self.assertEqual(self.answer("evict", self.data / "set" / "00004")[0]["chunks"], 1)
        self.assertEqual(self.answer("ls", self.data / "set")[0]["held_files"], 9)
        answer, events = self.answer("pin", self.data / "set" / "00004", status=1)
        self.assertIn("stage it", events[0]["cause"])

    def test_time_to_live(self):
        self.make_files(self.data / "set", 3)
        self.answer("stage", "--ttl", "1s", self.data / "set")
        deadline = time.time() + 30
        while self.answer("ls", self.data / "set")[0]["held_files"] > 0:
            self.assertLess(time.time(), deadline)
            time.sleep(0.2)

    def test_manifest_and_links(self):
        self.make_files(self.data / "set", 6)
        (self.data / "links").mkdir()
        (self.data / "links" / "one").symlink_to(self.data / "set" / "00005")
        (self.data / "links" / "loop").symlink_to(self.data / "links")
        manifest = self.folder / "manifest"
        manifest.write_text("".join(f"{self.data}/set/0000{number}\n" for number in (1, 3)))
        self.assertEqual(self.answer("stage", "--manifest", manifest)[0]["done_files"], 2)
        self.assertEqual(self.answer("stage", self.data / "links")[0]["files"], 0)
        self.assertEqual(self.answer("stage", "--follow", self.data / "links")[0]["done_files"], 1)
        self.assertEqual(self.answer("ls", self.data / "set")[0]["held_files"], 3)
        manifest.write_text("relative\n")
        status, _, err = self.ctl("stage", "--manifest", manifest)
        self.assertEqual(status, 1)
        self.assertIn("manifest:1", err)

    def test_odd_names(self):
        folder = self.data / "odd"
        folder.mkdir()
        for name in ("with blank", "-dash", "new\nline", "ünïcode", "x" * 255):
            (folder / name).write_bytes(b"content")
        self.assertEqual(self.answer("stage", folder)[0]["done_files"], 5)

    def test_wrong_usage_and_no_node(self):
        for arguments in ([], ["--ttl", "soon", "/x"], ["--ttl", "0", "/x"], ["--ttl", "-5", "/x"]):
            self.assertEqual(self.ctl("stage", *arguments)[0], 16, arguments)
        self.stop()
        status, _, err = self.ctl("ls", self.data)
        self.assertEqual(status, 8)
        self.assertIn("running", err)

    def test_disks_have_one_owner(self):
        second = subprocess.run([FABRICD, "--config", self.folder / "fabricd.yaml"], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual(second.returncode, 1, second.stdout)
        self.assertIn("in use by process", second.stdout)


class Quotas(NodeCase):
    def write_settings(self):
        self.settings = f"datasets:\n  - path: {self.data}/limited/**\n    quota: 1MiB\n"
        super().write_settings()

    def used(self):
        return self.answer("status")[0]["datasets"][0]["bytes"]

    def test_a_dataset_has_no_more_than_its_quota(self):
        self.make_files(self.data / "limited" / "one", 200, 4000)
        self.make_files(self.data / "limited" / "two", 100, 4000)
        self.make_files(self.data / "free", 300, 4000)
        self.assertEqual(self.answer("stage", self.data / "limited" / "one")[0]["done_files"], 200)
        self.assertEqual(self.used(), 200 * 4096)
        status, out, err = self.ctl("stage", self.data / "limited")
        self.assertNotEqual(status, 0)
        self.assertIn("quota", out + err)
        self.assertEqual(self.used(), 200 * 4096)
        self.assertEqual(self.answer("stage", self.data / "free")[0]["done_files"], 300)
        self.assertIn("of its quota of", self.ctl("status")[1])
        self.stop()
        self.start()
        self.assertEqual(self.used(), 200 * 4096, "after a start")
        self.answer("evict", self.data / "limited" / "one")
        self.assertEqual(self.used(), 0)
        self.assertEqual(self.answer("stage", self.data / "limited" / "two")[0]["done_files"], 100)
        self.assertEqual(self.used(), 100 * 4096)


if __name__ == "__main__":
    unittest.main(argv=["staging_test.py", *os.sys.argv[3:]])
