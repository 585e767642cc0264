"""Starts a Ganesha of ours on loopback for one test, with a config of the test's own, and stops it."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def skip(reason):
    print(f"SKIP {pathlib.Path(sys.argv[0]).stem}: {reason}")
    sys.exit(77)


def ganesha_prefix():
    """FABRIC_GANESHA_PREFIX, or what packaging/ganesha/build.sh prints (it builds at need)."""
    prefix = os.environ.get("FABRIC_GANESHA_PREFIX")
    if not prefix:
        prefix = subprocess.run([ROOT / "packaging/ganesha/build.sh"], check=True, text=True,
                                stdout=subprocess.PIPE).stdout.strip()
    return pathlib.Path(prefix)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Gateway:
    """`with Gateway(...) as gateway:` serves gateway.export at pseudo path /export on gateway.port.

    fsal: VFS or MEM. core, nfsv4, export: lines for these config blocks. blocks: more blocks.
    """

    def __init__(self, fsal="VFS", protocols="4", core="", nfsv4="", export="", blocks="", log_level="EVENT"):
        if os.geteuid() != 0:
            skip("Ganesha needs root")
        self.prefix = ganesha_prefix()
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="fabric-session-"))
        self.export = self.dir / "export"
        self.export.mkdir()
        (self.dir / "recovery").mkdir()
        self.log = self.dir / "ganesha.log"
        self.port, self.mount_port = free_port(), free_port()
        self.process = None
        path = self.export if fsal == "VFS" else "/mem"
        (self.dir / "ganesha.conf").write_text(f"""
NFS_CORE_PARAM {{
    Protocols = {protocols}; NFS_Port = {self.port}; MNT_Port = {self.mount_port}; Bind_addr = 127.0.0.1;
    Enable_NLM = false; Enable_RQUOTA = false; allow_set_io_flusher_fail = true; mount_path_pseudo = true;
    Plugins_Dir = {self.prefix}/lib/ganesha;
    {core}
}}
NFSv4 {{
    Graceless = true; RecoveryBackend = fs; RecoveryRoot = {self.dir}/recovery;
    {nfsv4}
}}
EXPORT {{
    Export_Id = 1; Path = {path}; Pseudo = /export; Access_Type = RW; Squash = no_root_squash; SecType = sys;
    FSAL {{ Name = {fsal}; }}
    {export}
}}
LOG {{ Default_Log_Level = {log_level}; }}
{blocks}
""")

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, value, traceback):
        if kind is not None and kind is not SystemExit:
            print(f"--- the end of {self.log}:", file=sys.stderr)
            print("\n".join(self.log.read_text(errors="replace").splitlines()[-40:]), file=sys.stderr)
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def start(self, seconds=60):
        self.process = subprocess.Popen(
            [self.prefix / "bin/ganesha.nfsd", "-F", "-f", self.dir / "ganesha.conf", "-L", self.log,
             "-p", self.dir / "pid"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise RuntimeError(f"ganesha.nfsd ended with {self.process.returncode}:\n{self.log.read_text()}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"ganesha.nfsd does not listen on port {self.port} after {seconds} s")

    def stop(self, seconds=60):
        """SIGTERM, as a service manager does; raises when the server does not end in time."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=seconds)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def rss(self):
        """Resident memory in bytes."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no VmRSS")
