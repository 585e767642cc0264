"""cmake --install puts a gateway in place that runs from there: staged under DESTDIR, without the build's folders."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import case
import gateway as gw

BUILD = pathlib.Path(os.environ.get("FABRIC_BUILD_DIR") or gw.ROOT / "build")


def run(*command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=120, **options)


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="fabric-install-", dir=gw.backing_root()))
        cls.install()
        cls.prefix = cls.folder / "usr/local"

    @classmethod
    def install(cls):
        done = run("cmake", "--install", BUILD, env={**os.environ, "DESTDIR": str(cls.folder)})
        if done.returncode:
            raise AssertionError(done.stdout)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_files_are_in_place(self):
        for name in ("bin/nfs-probe", "share/man/man1/nfs-probe.1", "etc/fabric/gateway.conf", "etc/fabric/gateway.conf.default",
                     *(f"etc/fabric/{path.name}" for path in (gw.ROOT / "conf").glob("*.conf")), "lib/systemd/system/fabric-gateway.service", "libexec/fabric/bin/ganesha.nfsd",
                     "libexec/fabric/lib/libganesha_nfsd.so.6.5", "libexec/fabric/lib/libntirpc.so.6.3",
                     "libexec/fabric/lib/ganesha/libfsalfabric.so"):
            self.assertTrue((self.prefix / name).is_file(), name)

    def test_no_test_program_is_installed(self):
        programs = sorted(path.name for path in (self.prefix / "bin").iterdir())
        self.assertEqual(programs, ["nfs-probe", "xds-info", "xdsbench", "xdscp"])

    def test_libraries_come_from_the_installation(self):
        for name in ("bin/ganesha.nfsd", "lib/ganesha/libfsalfabric.so"):
            listing = run("ldd", self.prefix / "libexec/fabric" / name).stdout
            self.assertNotIn("not found", listing)
            for library in re.findall(r"lib(?:ganesha_nfsd|ntirpc)\S* => (\S+)", listing):
                self.assertTrue(os.path.realpath(library).startswith(str(self.folder)), f"{name}: {library}")

    def test_probe_is_not_linked_with_the_servers_rpc_library(self):
        self.assertNotIn("ntirpc", run("ldd", self.prefix / "bin/nfs-probe").stdout)
        self.assertNotIn("tirpc.so", run("ldd", self.prefix / "libexec/fabric/lib/ganesha/libfsalfabric.so").stdout
                         .replace("libntirpc.so", ""))

    def test_a_second_installation_keeps_the_configuration(self):
        conf = self.prefix / "etc/fabric/gateway.conf"
        before = conf.read_text()
        try:
            conf.write_text("# mine\n")
            self.install()
            self.assertEqual(conf.read_text(), "# mine\n")
        finally:
            conf.write_text(before)

    def test_unit_is_sound(self):
        unit = (self.prefix / "lib/systemd/system/fabric-gateway.service").read_text()
        program, arguments = re.search(r"^ExecStart=(\S+) (.*)$", unit, re.MULTILINE).groups()
        self.assertTrue(os.access(f"{self.folder}{program}", os.X_OK), program)
        conf = re.search(r"-f (\S+)", arguments).group(1)
        self.assertTrue(pathlib.Path(f"{self.folder}{conf}").is_file(), conf)
        self.assertNotIn("@", unit)

    def test_man_pages_have_no_warnings(self):
        for page in (self.prefix / "share/man").rglob("*.[1-8]"):
            done = run("groff", "-man", "-ww", "-z", "-Tutf8", page)
            self.assertEqual((done.returncode, done.stdout), (0, ""), page)

    def test_the_installed_gateway_serves(self):
        """The installed program with the installed configuration, moved to the staging folder and to free ports."""
        text = (self.prefix / "etc/fabric/gateway.conf").read_text()
        self.assertNotRegex(text, "@[A-Z_]+@")
        export = self.folder / "srv/fabric"
        export.mkdir(parents=True)
        state = self.folder / "var/lib/fabric"
        (state / "recovery").mkdir(parents=True)
        ports = {}
        for name in ("NFS_Port", "MNT_Port", "NLM_Port", "metrics"):
            ports[name] = gw.free_port(ports.values())
        for name in ("NFS_Port", "MNT_Port", "NLM_Port"):
            text, count = re.subn(rf"\b{name} = \d+;", f"{name} = {ports[name]};", text)
            self.assertEqual(count, 1, name)
        for old, new in (("/usr/local/", f"{self.prefix}/"), ("/srv/fabric", str(export)), ("/var/lib/fabric", str(state)),
                         ("127.0.0.1:9587", f"127.0.0.1:{ports['metrics']}"), ("Enable_RPCBIND = true", "Enable_RPCBIND = false"),
                         ("Bind_Addr = 0.0.0.0", "Bind_Addr = 127.0.0.1")):
            self.assertIn(old, text)
            text = text.replace(old, new)
        conf = self.folder / "test.conf"
        conf.write_text(text)
        server = subprocess.Popen([self.prefix / "libexec/fabric/bin/ganesha.nfsd", "-F", "-x", "-f", conf, "-L", "STDERR",
                                   "-p", self.folder / "pid", "-N", "NIV_EVENT"], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            done = run(self.prefix / "bin/nfs-probe", "--nfs-port", str(ports["NFS_Port"]), "--mount-port",
                       str(ports["MNT_Port"]), "--only", "nfs3,nfs4,mount,exports", "--wait", "30")
            maps = pathlib.Path(f"/proc/{server.pid}/maps").read_text() if server.poll() is None else ""
            server.terminate()
            output, _ = server.communicate(timeout=60)
        finally:
            server.kill()
        self.assertEqual(done.returncode, 0, done.stdout + output)
        self.assertIn("export   /export", done.stdout)
        self.assertIn(f"{self.prefix}/libexec/fabric/lib/ganesha/libfsalfabric.so", maps)
        self.assertNotIn(str(BUILD), maps)
        self.assertEqual(server.returncode, 0, output)


if __name__ == "__main__":
    case.main()
