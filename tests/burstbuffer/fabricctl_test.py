"""fabricctl fsck as a user runs it: exit status, what it prints, and what is left of the store."""
import fcntl
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

FABRICCTL, SAMPLE = sys.argv[1:3]


class Fsck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        subprocess.run([SAMPLE, self.folder], check=True)
        self.segment = self.folder / "segments" / "00000001.seg"

    def fsck(self, *options):
        done = subprocess.run([FABRICCTL, "fsck", *options, self.folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def damage(self, record):
        with open(self.segment, "r+b") as segment:
            segment.seek(record * 4096 + 100)
            self.assertEqual(segment.read(1), bytes([ord("a") + record]))
            segment.seek(-1, 1)
            segment.write(b"!")

    def test_a_sound_store(self):
        status, said = self.fsck("--data")
        self.assertEqual(status, 0, said)
        self.assertIn("12 records, 2 of them not yet drained, 49152 bytes; 0 findings", said)

    def test_clean_damage_is_repaired(self):
        self.damage(4)
        self.assertEqual(self.fsck()[0], 0, "without --data the bytes are not read")
        status, said = self.fsck("--data")
        self.assertEqual(status, 4, said)
        self.assertIn("found: chunk 0 of file", said)
        status, said = self.fsck("--data", "--repair")
        self.assertEqual(status, 1, said)
        status, said = self.fsck("--data")
        self.assertEqual(status, 0, said)
        self.assertIn("11 records", said)

    def test_dirty_damage_is_left(self):
        self.damage(11)
        status, said = self.fsck("--data", "--repair")
        self.assertEqual(status, 4, said)
        self.assertIn("backing store does not have", said)
        self.assertIn("12 records, 2 of them", self.fsck()[1])

    def test_a_store_in_use(self):
        with open(self.folder / "LOCK") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            status, said = self.fsck()
        self.assertEqual(status, 8, said)
        self.assertIn("one owner", said)

    def test_a_newer_store(self):
        form = self.folder / "FORMAT"
        form.write_text(re.sub(r"^fabric store \d+", "fabric store 9", form.read_text()))
        status, said = self.fsck()
        self.assertEqual(status, 8, said)
        self.assertIn("format 9", said)

    def test_wrong_usage(self):
        for arguments in ([], ["fsck"], ["fsck", "--unknown", self.folder], ["dance"]):
            done = subprocess.run([FABRICCTL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 16, arguments)
        self.assertEqual(subprocess.run([FABRICCTL, "--help"], stdout=subprocess.DEVNULL).returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
