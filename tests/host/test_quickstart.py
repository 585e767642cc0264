"""packaging/quickstart.sh where things are not as on a fresh machine: taken ports, dead servers, file systems without
handles, wrong arguments. What it does there is said in README.md, and run by test_readme.py."""
import os
import pathlib
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import case
import gateway as gw

SCRIPT = gw.ROOT / "packaging/quickstart.sh"
BUILD = os.environ.get("FABRIC_BUILD_DIR") or str(gw.ROOT / "build")


class Quickstart(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fabric-quickstart-", dir=gw.backing_root()))
        self.addCleanup(shutil.rmtree, self.folder)
        self.dir = self.folder / "state"
        self.addCleanup(self.quickstart, "--stop")

    def quickstart(self, *arguments, directory=None):
        return subprocess.run([SCRIPT, "--dir", directory or self.dir, *arguments], cwd="/", stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=400,
                              env={**os.environ, "FABRIC_BUILD": BUILD})

    def start(self, *arguments, **options):
        done = self.quickstart(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def status(self):
        done = self.quickstart("--status")
        return done.returncode, dict(line.split("=", 1) for line in done.stdout.splitlines())

    def test_status_names_everything(self):
        self.start()
        code, status = self.status()
        self.assertEqual(code, 0)
        self.assertEqual((status["state"], status["health"]), ("running", "ok"))
        for key in ("probe_nfs3", "probe_nfs4", "probe_mount", "probe_exports"):
            self.assertTrue(status[key].startswith("ok"), status[key])
        self.assertEqual(pathlib.Path(f"/proc/{status['pid']}/comm").read_text(), "ganesha.nfsd\n")
        for key in ("config", "log", "export", "ganesha", "dir"):
            self.assertTrue(pathlib.Path(status[key]).exists(), status[key])

    def test_a_killed_gateway_is_told_and_started_anew(self):
        self.start()
        _, before = self.status()
        gateway = os.pidfd_open(int(before["pid"]))
        os.kill(int(before["pid"]), signal.SIGKILL)
        self.assertTrue(select.select([gateway], [], [], 60)[0], "a killed process does not end")
        os.close(gateway)
        code, status = self.status()
        self.assertEqual((code, status["state"], status["health"]), (1, "dead", "failed"))
        self.start()
        code, after = self.status()
        self.assertEqual(code, 0)
        self.assertNotEqual(after["pid"], before["pid"])

    def test_stop_leaves_a_process_alone_that_got_the_number(self):
        """The state file names a process that is not ours: another start time."""
        self.start()
        state = self.dir / "state"
        lines = state.read_text()
        self.assertIn("stopped process", self.quickstart("--stop").stdout)
        with subprocess.Popen(["sleep", "600"]) as stranger:
            try:
                _, status = self.parse(lines)
                state.write_text(lines.replace(f"pid={status['pid']}", f"pid={stranger.pid}"))
                self.assertIn("not running", self.quickstart("--stop").stdout)
                self.assertIsNone(stranger.poll())
            finally:
                stranger.kill()

    @staticmethod
    def parse(text):
        return text, dict(line.split("=", 1) for line in text.splitlines())

    def test_stop_and_status_without_a_start(self):
        self.assertEqual(self.quickstart("--stop").returncode, 0)
        code, status = self.status()
        self.assertEqual((code, status["state"]), (1, "stopped"))

    def test_a_port_that_was_asked_for_and_is_taken(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = self.quickstart("--nfs-port", str(port))
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(f"port {port} (--nfs-port) is taken", done.stdout)
            self.assertIn("What to do:", done.stdout)

    def test_default_ports_that_are_taken(self):
        """Holds 2049 unless somebody else does already."""
        try:
            holder = socket.create_server(("127.0.0.1", 2049))
        except OSError:
            holder = None
        try:
            output = self.start()
            self.assertIn("NFS port 2049 is taken: using ", output)
            _, status = self.status()
            self.assertNotEqual(status["nfs_port"], "2049")
            self.assertIn(f"port={status['nfs_port']} ", output)
            self.assertEqual(status["rpcbind"], "false")
        finally:
            if holder:
                holder.close()

    def test_a_directory_of_the_users_own(self):
        mine = self.folder / "mine"
        mine.mkdir(mode=0o700)
        (mine / "precious").write_text("untouched")
        os.chown(mine, 1234, 1234)
        output = self.start("--export", mine)
        self.assertIn("every byte the same", output)
        self.assertEqual(self.status()[1]["export"], str(mine))
        self.assertEqual([path.name for path in mine.iterdir()], ["precious"])
        self.assertEqual(mine.stat().st_mode & 0o777, 0o700)

    def test_a_directory_of_roots_alone(self):
        mine = self.folder / "mine"
        mine.mkdir(mode=0o700)
        self.assertIn("not tried: only root may enter", self.start("--export", mine))
        self.assertEqual(list(mine.iterdir()), [])

    def overlay(self):
        """A mounted overlay: a file system without file handles, as the root of a container is."""
        at, parts = self.folder / "overlay", [self.folder / name for name in ("lower", "upper", "work")]
        for path in [at, *parts]:
            path.mkdir()
        lower, upper, work = parts
        done = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", at],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            self.skipTest(f"an overlay cannot be mounted here: {done.stdout.strip()}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", at])
        return at

    def test_own_directory_without_handles_is_refused_by_name(self):
        at = self.overlay()
        done = self.quickstart("--export", at)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(f"{at} cannot be exported", done.stdout)
        self.assertIn("overlay", done.stdout)

    def test_in_a_container_an_image_is_exported(self):
        self.dir = self.overlay() / "state"
        output = self.start()
        self.assertIn("exporting an ext4 image", output)
        self.assertIn("every byte the same", output)
        export = self.status()[1]["export"]
        self.assertTrue(os.path.ismount(export))
        self.assertIn("runs already", self.start())
        self.assertEqual(self.quickstart("--stop").returncode, 0)
        self.assertFalse(os.path.ismount(export))
        self.start()                                        # the same image again, with what was in it
        self.assertEqual(self.quickstart("--stop").returncode, 0)

    def test_wrong_arguments(self):
        for arguments in (["--nfs-port", "0"], ["--nfs-port", "70000"], ["--nfs-port"], ["--frobnicate"], ["--export", "/a|b"]):
            done = self.quickstart(*arguments)
            self.assertEqual(done.returncode, 2, (arguments, done.stdout))
        done = self.quickstart("--export", self.folder / "missing")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not a directory", done.stdout)


if __name__ == "__main__":
    case.main()
