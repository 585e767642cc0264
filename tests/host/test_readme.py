"""Every command of README.md works as written. Each line of its sh blocks has a rule here that says how it is run; a line
that no rule knows fails the test.

Commands that need the Linux NFS client run in the virtual machine (vm.readme_mounts). The folder build/ is replaced by the
build under test, ports that are taken here by those that the quickstart chose.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import case
import gateway

README = gateway.ROOT / "README.md"
BUILD = os.environ.get("FABRIC_BUILD_DIR") or str(gateway.ROOT / "build")


def commands():
    """The lines of the ```sh blocks, in order, without comments."""
    blocks = re.findall(r"^```sh\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in (re.sub(r"\s+#.*", "", line).strip() for line in block.splitlines()) if line]


class Readme(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="fabric-readme-", dir=gateway.backing_root()))
        cls.environment = {**os.environ, "FABRIC_DIR": str(cls.folder / "state"), "FABRIC_BUILD": BUILD}
        cls.commands = commands()

    @classmethod
    def tearDownClass(cls):
        subprocess.run([gateway.ROOT / "packaging/quickstart.sh", "--stop"], env=cls.environment, stdin=subprocess.DEVNULL)
        shutil.rmtree(cls.folder)

    def run_line(self, line, **environment):
        line = re.sub(r"(?<![\w/-])(\./)?build(?![\w.])", BUILD, line)
        done = subprocess.run(["bash", "-c", line], cwd=gateway.ROOT, env={**self.environment, **environment},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500)
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}")
        return done.stdout

    def lines(self, pattern):
        found = [line for line in self.commands if re.match(pattern, line)]
        self.assertTrue(found, f"README.md has no command {pattern}")
        return found

    def test_every_command_is_known(self):
        known = [
            r"\./packaging/quickstart\.sh( --(status|stop))?$",         # test_quickstart, below
            r"\./build/packaging/probe/nfs-probe ",
            r"cmake (-S|--build|--install) ",                           # test_install, below
            r"\./tests/run\.sh( unit)?$",                               # what runs this test
            r"mount -t nfs -o \S+ GATEWAY:/export /mnt$",               # vm.readme_mounts
            r"fabricctl ",                                              # test_staging, below
            r"\./build/burstbuffer/fabricd/fabricd |.*STORAGE:20053",   # test_xds, below
        ]
        unknown = [line for line in self.commands if not any(re.match(pattern, line) for pattern in known)]
        self.assertEqual(unknown, [], "no test runs these commands of README.md")

    def test_quickstart(self):
        start, status, stop = self.lines(r"\./packaging/quickstart\.sh")
        output = self.run_line(start)
        self.assertIn("every byte the same", output)
        state = dict(line.split("=", 1) for line in self.run_line(status).splitlines())
        self.assertEqual((state["state"], state["health"]), ("running", "ok"))
        for line in self.lines(r"\./build/packaging/probe/nfs-probe "):
            moved = line.replace("--nfs-port 2049", f"--nfs-port {state['nfs_port']}")
            moved = moved.replace("--mount-port 20048", f"--mount-port {state['mount_port']}")
            answer = self.run_line(moved)
            if "--json" in line:
                self.assertTrue(json.loads(answer)["ok"], answer)
        again = self.run_line(start)
        self.assertIn(f"runs already, process {state['pid']}", again)
        self.assertIn(f"stopped process {state['pid']}", self.run_line(stop))
        stat = pathlib.Path(f"/proc/{state['pid']}/stat")      # gone, or waiting to be reaped
        self.assertTrue(not stat.exists() or ") Z " in stat.read_text())

    def test_install(self):
        for line in self.lines(r"cmake "):
            self.run_line(line, DESTDIR=str(self.folder / "staged"))
        prefix = self.folder / "staged/usr/local"
        self.assertTrue((prefix / "bin/nfs-probe").is_file())
        self.assertIn("/usr/local/etc/fabric/gateway.conf", README.read_text())
        self.assertTrue((prefix / "etc/fabric/gateway.conf").is_file())

    def fabricd(self, settings, until):
        """Starts it with these lines of YAML; what it says of itself up to the key `until`, as a dict."""
        config = self.folder / "fabricd.yaml"
        config.write_text(settings)
        [line] = self.lines(r"\./build/burstbuffer/fabricd/fabricd ")
        command = line.replace("./build", BUILD).replace("/etc/fabric/fabricd.yaml", str(config)).split()
        daemon = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.addCleanup(daemon.stdout.close)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.terminate)
        said = {}
        for text in daemon.stdout:
            key, _, value = text.strip().partition("=")
            said[key] = value
            if key == until:
                break
        self.assertIn(until, said)
        return said

    def served(self):
        """A folder with a safetensors file of one tensor in it."""
        served = self.folder / "served"
        served.mkdir(exist_ok=True)
        data = os.urandom(4096)
        header = json.dumps({"weight": {"dtype": "U8", "shape": [4096], "data_offsets": [0, 4096]}}).encode()
        (served / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
        return served

    def test_xds(self):
        served = self.served()
        said = self.fabricd(f"xds:\n  listen: 127.0.0.1:0\n  rdma: off\n  root: {served}\n"
                            f"security:\n  anonymous_uid: {os.geteuid()}\n  anonymous_gid: {os.getegid()}\n", "xds_port")
        copy = self.folder / "copy"
        for line in self.lines(r".*STORAGE:20053"):
            line = line.replace("STORAGE:20053", f"127.0.0.1:{said['xds_port']}").replace("/tmp/model.safetensors", str(copy))
            output = self.run_line(line.replace("python3 ", sys.executable + " "))
            if "python" in line:
                self.assertIn("weight", output)
        self.assertEqual(copy.read_bytes(), (served / "model.safetensors").read_bytes())

    def test_staging(self):
        served, disk = self.served(), self.folder / "disk"
        disk.mkdir()
        socket = self.folder / "ctl.sock"
        (self.folder / "bb.yaml").write_text(
            f"disks:\n  - folder: {disk}\n    capacity: 256MiB\n    reserve: 0\n    segment: 4MiB\ncontrol:\n  socket: {socket}\n" +
            re.search(r"^writeback:\n(  .*\n)+", README.read_text(), re.MULTILINE).group().replace("/srv/data/checkpoints", str(served)))
        self.fabricd(f"xds:\n  listen: 127.0.0.1:0\n  rdma: off\n  root: {served}\nburst_buffer:\n  config: {self.folder}/bb.yaml\n",
                     "control_socket")
        for line in self.lines(r"fabricctl "):
            program, order, *rest = line.split()
            rest = [str(served) if word in ("/srv/data/set", "/srv/data/checkpoints") else word for word in rest]
            output = self.run_line(f"{BUILD}/burstbuffer/fabricctl/{program} {order} --socket {socket} {' '.join(rest)}")
            if order in ("ls", "verify"):
                self.assertIn("1", output)
            if order in ("wait", "drain"):
                self.assertIn("drained", output)


if __name__ == "__main__":
    case.main()
