"""Starts, stops and watches one ganesha.nfsd with a configuration made for the test.

    export = Export(backing_dir())
    with Gateway([export]) as gateway:          # FSAL FABRIC, all versions, TCP on free ports of 127.0.0.1
        connection = rpc.Connection(gateway.nfs_port)

Environment: FABRIC_GANESHA_PREFIX (else packaging/ganesha/build.sh is asked), FABRIC_PLUGIN_DIR (else
build/fsal_fabric of this tree), FABRIC_TEST_DIR (where backing directories and servers' private folders are made; it must
be on a file system with handles), FABRIC_TEST_SERVER (fabric, vfs or mem: the FSAL of servers that do not name one),
FABRIC_KEEP=1 (private folders stay), FABRIC_GDB=1 (servers run under gdb; the backtrace of a crash is in the log's end).
"""
import ctypes
import dataclasses
import itertools
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time
import urllib.request

import rpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
NFS_PROGRAM, MOUNT_PROGRAM, NLM_PROGRAM = 100003, 100005, 100021
GDB = ["gdb", "-q", "-batch", "-ex", "handle SIGPIPE SIGTERM SIGHUP SIGUSR1 nostop noprint pass", "-ex", "run",
       "-ex", "bt 14", "--args"]                    # a wrapper: prints where the server crashes
PORT_NAMES = {"nfs": "NFS_Port", "mount": "MNT_Port", "nlm": "NLM_Port", "rquota": "Rquota_Port"}


class GatewayError(Exception):
    """The message holds the end of the server's log."""


class NoHandles(Exception):
    """No file system with handles is at hand: the caller skips with this message."""


def default_fsal():
    return os.environ.get("FABRIC_TEST_SERVER", "fabric").upper()


def _has_handles(directory):
    """name_to_handle_at(2) with a buffer of 128 bytes."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = ctypes.create_string_buffer(8 + 128)
    ctypes.memmove(handle, (128).to_bytes(4, "little"), 4)
    mount_id = ctypes.c_int()
    at_fdcwd = -100
    return libc.name_to_handle_at(at_fdcwd, os.fsencode(directory), handle, ctypes.byref(mount_id), 0) == 0


def is_in_memory(directory):
    """Whether it lies on a tmpfs, whose handles do not outlive it: the gateway does not export one."""
    device = os.stat(directory).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        fields = [line.split() for line in mounts]
    return any(line[2] == wanted and line[line.index("-") + 1] in ("tmpfs", "ramfs") for line in fields)


def backing_root():
    """A directory on a file system with file handles. Overlay roots (containers) have none."""
    named = os.environ.get("FABRIC_TEST_DIR")
    for base in [named] if named else ["/tmp", "/var/tmp", str(ROOT)]:
        os.makedirs(base, exist_ok=True)
        if _has_handles(base) and not is_in_memory(base):
            return base
    raise NoHandles("no file system with file handles under /tmp, /var/tmp or the source tree: set FABRIC_TEST_DIR")


def backing_dir(prefix="fabric-test-"):
    """A new empty directory to export, open to every user; the caller removes it."""
    path = tempfile.mkdtemp(prefix=prefix, dir=backing_root())
    os.chmod(path, 0o777)
    return path


def free_port(taken=()):
    """A TCP and UDP port outside the range that the kernel gives to outgoing connections."""
    for port in random.sample(range(10000, 32000), 500):
        if port in taken:
            continue
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            try:
                tcp.bind(("0.0.0.0", port))
                udp.bind(("0.0.0.0", port))
                return port
            except OSError:
                continue
    raise GatewayError("no free port between 10000 and 32000")


def ganesha_prefix():
    prefix = os.environ.get("FABRIC_GANESHA_PREFIX")
    if not prefix:
        prefix = subprocess.run([ROOT / "packaging/ganesha/build.sh"], check=True, stdout=subprocess.PIPE,
                                text=True).stdout.strip()
    return pathlib.Path(prefix)


def plugin_dir():
    return pathlib.Path(os.environ.get("FABRIC_PLUGIN_DIR") or ROOT / "build/fsal_fabric")


@dataclasses.dataclass
class Export:
    """`options` go into the EXPORT block, `fsal_options` into its FSAL block; `fsal` None is the gateway's."""
    path: str
    pseudo: str = "/export"
    options: dict = dataclasses.field(default_factory=dict)
    fsal_options: dict = dataclasses.field(default_factory=dict)
    fsal: str = None

    def render(self, number, gateway):
        options = {"Export_Id": number, "Path": self.path, "Pseudo": self.pseudo, "Access_Type": "RW",
                   "Squash": "No_Root_Squash", "SecType": "sys", "Protocols": gateway.export_protocols(), **self.options}
        fsal = {"Name": self.fsal or gateway.fsal, **self.fsal_options}
        return (f"EXPORT {{\n{_render_options(options)}    FSAL {{\n{_render_options(fsal, 8)}    }}\n}}\n")


def _render_options(options, indent=4):
    pad = " " * indent
    lines = []
    for key, value in options.items():
        if isinstance(value, dict):
            lines.append(f"{pad}{key} {{\n{_render_options(value, indent + 4)}{pad}}}\n")
        else:
            quoted = f'"{value}"' if isinstance(value, str) and value.startswith("/") else value
            lines.append(f"{pad}{key} = {quoted};\n")
    return "".join(lines)


class Gateway:
    """One server process and its private folder `work` (configuration, log, pid, recovery state, plug-ins).

    versions        of "3", "4.0", "4.1", "4.2"
    rdma            NFS over RDMA too, on `rdma_port`
    core, nfsv4     more options of NFS_Core_Param and NFSv4 ("None" as a value leaves a default of ours out)
    blocks          further blocks by name, e.g. {"FABRIC": {"Metrics_Address": ...}}; merged over ours
    extra           text put at the end of the configuration as it stands
    faults          a fault specification (common/fault.h), later changed by `set_faults`
    limits          e.g. {resource.RLIMIT_NOFILE: (256, 256)}
    burst_buffer    with one on a folder of its own (None: if FABRIC_TEST_BURST_BUFFER is 1); FABRIC only
    write_back      the lines of the burst buffer's "writeback" section, each with two blanks in front ("": for all files if
                    FABRIC_TEST_WRITE_BACK is 1, else none)
    wrapper         a command in front of the server, e.g. ["perf", "record", "-g", "--"]
    """

    def __init__(self, exports, fsal=None, versions=("3", "4.0", "4.1", "4.2"), rdma=False, core=None, nfsv4=None,
                 blocks=None, extra="", environment=None, faults=None, limits=None, wrapper=(), prefix=None,
                 plugins=None, log_level="EVENT", strict=True, metrics=True, rdma_port=20049,
                 burst_buffer=None, write_back=""):
        self.fsal = (fsal or default_fsal()).upper()
        self.exports = list(exports)
        self.versions, self.rdma, self.rdma_port = tuple(versions), rdma, rdma_port
        self.core, self.nfsv4, self.blocks, self.extra = core or {}, nfsv4 or {}, blocks or {}, extra
        self.environment, self.limits = environment or {}, limits or {}
        self.wrapper = list(wrapper) or (GDB if os.environ.get("FABRIC_GDB") == "1" else [])
        self.strict, self.log_level = strict, log_level
        self.prefix = pathlib.Path(prefix) if prefix else ganesha_prefix()
        self.plugins = pathlib.Path(plugins) if plugins else plugin_dir()
        self.burst_buffer = os.environ.get("FABRIC_TEST_BURST_BUFFER") == "1" if burst_buffer is None else burst_buffer
        self.write_back = write_back or ("  paths:\n    - /**" if os.environ.get("FABRIC_TEST_WRITE_BACK") == "1" else "")
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="fabric-gw-", dir=os.environ.get("FABRIC_TEST_DIR") or "/tmp"))
        self.log_path, self.pid_path = self.work / "ganesha.log", self.work / "ganesha.pid"
        self.config_path, self.fault_path = self.work / "ganesha.conf", self.work / "faults"
        self.metrics_enabled = metrics
        self.process = None
        self.rpcbind = None
        self.restarts = 0
        self._choose_ports()
        self.set_faults(faults or "")
        (self.work / "recovery").mkdir()
        self._gather_plugins()

    # -- configuration

    def _choose_ports(self):
        self.ports = {}
        for name in [*PORT_NAMES, "metrics"]:
            self.ports[name] = free_port(self.ports.values())

    @property
    def nfs_port(self):
        return self.ports["nfs"]

    @property
    def mount_port(self):
        return self.ports["mount"]

    @property
    def nlm_port(self):
        return self.ports["nlm"]

    def _gather_plugins(self):
        """Ganesha loads plug-ins from one folder: links to the stock ones and ours."""
        folder = self.work / "plugins"
        folder.mkdir()
        for source in [*(self.prefix / "lib/ganesha").glob("libfsal*.so"), *self.plugins.glob("libfsal*.so")]:
            link = folder / source.name
            link.unlink(missing_ok=True)
            link.symlink_to(source.resolve())

    def export_protocols(self):
        return ", ".join((["3"] if "3" in self.versions else []) + (["4"] if self._minor_versions() else []))

    def _minor_versions(self):
        return [version[2:] for version in self.versions if version.startswith("4.")]

    def _knows_option(self, name):
        """Whether this build of Ganesha has the option: a build without our patches does not have all."""
        library = (self.prefix / "lib/libganesha_nfsd.so").read_bytes()
        return name.encode() + b"\0" in library

    def render(self):
        protocols = self.export_protocols() + (", NFSRDMA" if self.rdma else "")
        core = {key: self.ports[name] for name, key in PORT_NAMES.items()}
        core.update({"Bind_Addr": "0.0.0.0", "Protocols": protocols, "Enable_UDP": "false", "mount_path_pseudo": "true",
                     "Plugins_Dir": str(self.work / "plugins"), "allow_set_io_flusher_fail": "true"})
        if self._knows_option("Enable_RPCBIND"):
            core["Enable_RPCBIND"] = "false"
        if self.rdma:
            core["NFS_RDMA_Port"] = self.rdma_port
            core["NFS_RDMA_Protocol_Versions"] = ", ".join(self.versions)
        nfsv4 = {"RecoveryBackend": "fs", "RecoveryRoot": str(self.work / "recovery"), "Graceless": "true",
                 "Lease_Lifetime": 20, "Grace_Period": 20, "Only_Numeric_Owners": "true",
                 "minor_versions": ", ".join(self._minor_versions()) or "0"}
        blocks = {"NFS_Core_Param": {**core, **self.core}, "NFSv4": {**nfsv4, **self.nfsv4},
                  "LOG": {"Default_Log_Level": self.log_level, "Components": {"INIT": "EVENT"}}}
        if self._uses_fabric() and self.metrics_enabled:
            blocks["FABRIC"] = {"Metrics_Address": f'"127.0.0.1:{self.ports["metrics"]}"'}
        if self._uses_fabric() and self.burst_buffer:
            blocks["BurstBuffer"] = {"Config": f'"{self._burst_buffer_settings()}"'}
        for name, options in self.blocks.items():
            blocks[name] = {**blocks.get(name, {}), **options}
        text = "".join(f"{name} {{\n" + _render_options({k: v for k, v in options.items() if v is not None}) + "}\n"
                       for name, options in blocks.items())
        return text + "".join(e.render(number, self) for number, e in enumerate(self.exports, 1)) + self.extra

    @property
    def control_socket(self):
        return self.work / "ctl.sock"

    def _burst_buffer_disk(self):
        """A folder on a file system with O_DIRECT."""
        disk = self.work / "disk"
        disk.mkdir(exist_ok=True)
        return disk

    def _burst_buffer_settings(self):
        """A small cache that takes what changed a moment ago, so that tests meet it and its eviction."""
        disk, path = self._burst_buffer_disk(), self.work / "burstbuffer.yaml"
        path.write_text(f"disks:\n  - folder: {disk}\n    capacity: 64MiB\n    reserve: 0\n    segment: 2MiB\n"
                        f"cache:\n  settle_ms: 20\ncontrol:\n  socket: {self.control_socket}\n" +
                        (f"writeback:\n{self.write_back}\n" if self.write_back else ""))
        return path

    def _uses_fabric(self):
        return "FABRIC" in [self.fsal, *(e.fsal for e in self.exports)]

    def set_faults(self, specification):
        """Arms the faults (common/fault.h), again if they were armed before; "" disarms. A server that runs has seen them then."""
        if specification and self._faults_armed(specification):
            self.set_faults("")
        fresh = self.fault_path.with_suffix(".new")
        fresh.write_text(specification)
        fresh.rename(self.fault_path)
        if self.alive() and self._uses_fabric():
            self._wait(lambda: self._faults_armed(specification), 30, f"the faults '{specification}' are not armed")

    def _faults_armed(self, specification):
        try:
            return self.fault_path.with_suffix(".armed").read_text() == "armed: " + specification
        except FileNotFoundError:
            return False

    # -- life

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *unused):
        self.close()

    def start(self, timeout=60):
        """Returns when NULL calls to NFS and MOUNT are answered."""
        for attempt in itertools.count(1):
            self.launch()
            try:
                self.wait_ready(timeout)
                return self
            except GatewayError:
                taken = re.search(r"Cannot bind .*(in use|98)", self.log()) is not None
                self.kill9()
                if not taken or attempt == 3:
                    raise
                self._choose_ports()                # somebody took a port between our choice and the start
                self.log_path.unlink()

    def launch(self):
        """Starts the process and does not wait for it."""
        if not self._knows_option("Enable_RPCBIND"):
            self._need_rpcbind()
        self.config_path.write_text(self.render())
        self.fault_path.with_suffix(".armed").unlink(missing_ok=True)
        command = [*self.wrapper, str(self.prefix / "bin/ganesha.nfsd"), "-F", "-L", str(self.log_path), "-f",
                   str(self.config_path), "-p", str(self.pid_path), "-N", "NIV_EVENT"]
        if self.strict:
            command.append("-x")
        environment = {**os.environ, "FABRIC_FAULT_FILE": str(self.fault_path), **self.environment}
        with open(self.work / "console", "ab") as console:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console, stderr=console,
                                            env=environment, cwd=self.work, preexec_fn=self._child_setup())

    def _child_setup(self):
        # The kernel counts the end of the starting thread as the parent's death, so only a main thread asks for it.
        follows_us = threading.current_thread() is threading.main_thread()
        libc = ctypes.CDLL(None)

        def setup():
            for which, value in self.limits.items():
                resource.setrlimit(which, value)
            if follows_us:
                libc.prctl(1, signal.SIGKILL)       # PR_SET_PDEATHSIG: no server is left behind by a killed test
        return setup

    def _need_rpcbind(self):
        try:
            with rpc.Connection(111, timeout=5) as connection:
                connection.call(100000, 2, 0)
                return
        except (OSError, rpc.Timeout, rpc.Closed):
            pass
        self.rpcbind = subprocess.Popen(["rpcbind", "-w", "-f"], stdin=subprocess.DEVNULL)
        self._wait(lambda: self._null_answers(111, 100000, 2), 20, "rpcbind does not answer")

    def _null_answers(self, port, program, version):
        try:
            with rpc.Connection(port, timeout=5) as connection:
                connection.call(program, version, 0)
                return True
        except (OSError, rpc.Timeout, rpc.Closed):
            return False

    def wait_ready(self, timeout=60):
        version = 3 if "3" in self.versions else 4
        self._wait(lambda: self._null_answers(self.nfs_port, NFS_PROGRAM, version), timeout, "NFS does not answer")
        if version == 3:
            self._wait(lambda: self._null_answers(self.mount_port, MOUNT_PROGRAM, 3), timeout, "MOUNT does not answer")
        # The listener answers before the exports are up.
        self._wait(lambda: "NFS SERVER INITIALIZED" in self.log(), timeout, "the server does not finish its start")
        if self._uses_fabric():
            self._wait(lambda: self._faults_armed(self.fault_path.read_text()), timeout, "the faults are not armed")

    def _wait(self, condition, timeout, failure):
        deadline = time.monotonic() + timeout
        while not condition():
            if self.process is not None and self.process.poll() is not None:
                raise GatewayError(f"the server ended with {self.process.returncode} at its start:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise GatewayError(f"{failure} after {timeout} s:\n{self.log_tail()}")
            time.sleep(0.02)

    def wait_exit(self, timeout=60):
        """The exit status (negative: the signal) of a server that ends by itself."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise GatewayError(f"the server still runs after {timeout} s:\n{self.log_tail()}") from None

    def answers(self):
        """Whether a NULL call to NFS is answered now."""
        return self._null_answers(self.nfs_port, NFS_PROGRAM, 3 if "3" in self.versions else 4)

    def ends_within(self, timeout):
        """Whether the server ended by itself in that time."""
        try:
            self.process.wait(timeout)
            return True
        except subprocess.TimeoutExpired:
            return False

    def alive(self):
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self):
        """Of the server itself, also under a wrapper."""
        if self.wrapper:
            return int(self.pid_path.read_text())
        return self.process.pid

    def stop(self, timeout=60):
        """SIGTERM; a server that does not end in time is killed and reported."""
        if not self.alive():
            return self.process.returncode if self.process else None
        os.kill(self.pid, signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            stacks = self.stacks()
            self.kill9()
            raise GatewayError(f"the server did not end within {timeout} s of SIGTERM:\n{self.log_tail()}\n{stacks}") from None

    def kill9(self):
        if self.alive():
            try:
                os.kill(self.pid, signal.SIGKILL)
            except (ProcessLookupError, FileNotFoundError, ValueError):
                self.process.kill()
            self.process.wait(30)

    def restart(self, timeout=60):
        """Starts again on the same ports with the same recovery state; the log of the life before is kept."""
        if self.alive():
            self.stop(timeout)
        self.restarts += 1
        if self.log_path.exists():
            self.log_path.rename(self.work / f"ganesha.log.{self.restarts}")
        self.launch()
        self.wait_ready(timeout)
        return self

    @property
    def writes_back(self):
        """Whether the backing store may lack what clients have written: `drain` before it is looked at."""
        return self._uses_fabric() and self.burst_buffer and bool(self.write_back)

    def drain(self):
        """Returns when the backing store has everything; at once on a server that does not write back."""
        if not self.writes_back:
            return
        fabricctl = plugin_dir().parent / "burstbuffer/fabricctl/fabricctl"
        ran = subprocess.run([fabricctl, "flush", "--socket", self.control_socket], stdin=subprocess.DEVNULL, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
        if ran.returncode != 0:
            raise GatewayError(f"fabricctl flush ended with {ran.returncode}:\n{ran.stdout}\n{self.log_tail()}")

    def restart_with_faults(self, specification):
        """Starts it anew with the faults armed before anything is asked of it."""
        self.stop()
        self.set_faults(specification)
        return self.restart()

    def close(self):
        self.kill9()
        if self.rpcbind is not None:
            self.rpcbind.terminate()
            self.rpcbind.wait(20)
            self.rpcbind = None
        if not os.environ.get("FABRIC_KEEP"):
            shutil.rmtree(self.work, ignore_errors=True)

    # -- what the server looks like from outside

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_tail(self, lines=25):
        console = self.work / "console"
        text = self.log() + (console.read_text(errors="replace") if console.exists() else "")
        return "\n".join(text.splitlines()[-lines:])

    def backtrace(self):
        """What the wrapper GDB printed of the crash; empty without it. (A core file would be simpler, but a server that
        switched credentials writes none.)"""
        console = (self.work / "console").read_text(errors="replace")
        return "\n".join(line[:300] for line in console.splitlines() if line.startswith("#") or " received signal" in line)

    def stacks(self):
        """What each thread is doing now: for a server that hangs. Empty where there is no gdb."""
        try:
            shown = subprocess.run(["gdb", "-batch", "-nx", "-p", str(self.pid), "-ex", "thread apply all bt 14"], text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=180)
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return "\n".join(line[:200] for line in shown.stdout.splitlines() if line.startswith(("Thread ", "#")))

    def _proc(self, name):
        return pathlib.Path(f"/proc/{self.pid}/{name}").read_text()

    def rss(self):
        """Resident bytes."""
        return int(re.search(r"VmRSS:\s+(\d+) kB", self._proc("status")).group(1)) * 1024

    def virtual_size(self):
        """Bytes of address space."""
        return int(re.search(r"VmSize:\s+(\d+) kB", self._proc("status")).group(1)) * 1024

    def cpu_seconds(self):
        """User and system time of the process so far (resolution: one clock tick, 10 ms)."""
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def fds(self, directories=True):
        """Its open descriptors; without those of directories, of which the plug-in keeps up to 256."""
        count = 0
        for name in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                count += directories or not stat.S_ISDIR(os.stat(f"/proc/{self.pid}/fd/{name}").st_mode)
            except OSError:                         # closed meanwhile
                continue
        return count

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def metrics(self):
        """{'name{labels}': value} of our plug-in's metrics page."""
        page = urllib.request.urlopen(f"http://127.0.0.1:{self.ports['metrics']}/metrics", timeout=20).read().decode()
        samples = (line.rsplit(" ", 1) for line in page.splitlines() if line and not line.startswith("#"))
        return {name: float(value) for name, value in samples}
