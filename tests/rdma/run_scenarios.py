#!/usr/bin/env python3
"""Runs the scenarios of rdma-rogue against servers of its own, in the VM (tests/vm/vm), and prints a line for each.

    run_scenarios.py --rogue PROGRAM [--only [SERVER/]NAME,...] [--fuzz SECONDS [--seed N]]

The servers are on FSAL MEM, which needs no credentials: "at-once", "later", whose reads and writes complete later, so that
requests are suspended, "narrow", which has few workers and whose first connection event is gone when it is read (gone_event.c), and
"scarce", whose device gives it few objects. Exit status: 0 all passed, 1 not all, 77 there are no verbs here.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import gateway  # noqa: E402

SCENARIO_TIMEOUT = 300          # seconds: a generous end for what hangs
LATER = ["reads-in-flight", "writes-in-flight", "more-than-granted", "abrupt-ends", "credits"]
ONLY_LATER = ["more-than-granted"]
FEW_OBJECTS = ["too-many-connections"]
FEW_WORKERS = ["withheld-data"]
CGROUP = pathlib.Path("/sys/fs/cgroup/rogue")


def servers(rogue):
    """(name, arguments of Gateway, does it run the scenario)"""
    limit = {"RPC_Max_RDMA_Connections": 8}
    at_once = {"blocks": {"MEM": {"Inode_Size": 0x200000}}, "core": limit}
    later = {"blocks": {"MEM": {"Inode_Size": 0x200000, "Async_Threads": 8}}, "core": limit,
             "fsal_options": {"Async_Delay": 1000, "Async_Type": "fixed"}}
    in_cgroup = ["sh", "-c", f'echo $$ > {CGROUP}/cgroup.procs && exec "$@"', "sh"]
    scarce = {"blocks": {"MEM": {"Inode_Size": 0x200000}}, "wrapper": in_cgroup}
    narrow = {"blocks": {"MEM": {"Inode_Size": 0x200000}}, "core": {**limit, "RPC_Ioq_ThrdMax": 16},
              "environment": {"LD_PRELOAD": str(pathlib.Path(rogue).resolve().parent / "libgone_event.so")}}
    return [("at-once", at_once, lambda name: name not in ONLY_LATER + FEW_WORKERS),
            ("later", later, lambda name: name in LATER), ("narrow", narrow, lambda name: name in FEW_WORKERS),
            ("scarce", scarce, lambda name: name in FEW_OBJECTS)]


def make_scarce():
    """A control group in which a process gets few verbs objects: a protection domain, three connections' worth (queue,
    queue pair, memory region), and then a queue and a queue pair, so that it is the memory that cannot be registered."""
    if not (CGROUP.parent / "cgroup.controllers").exists():
        subprocess.run(["mount", "-t", "cgroup2", "none", str(CGROUP.parent)], check=True)
    (CGROUP.parent / "cgroup.subtree_control").write_text("+rdma")
    CGROUP.mkdir(exist_ok=True)
    device = os.listdir("/sys/class/infiniband")[0]
    (CGROUP / "rdma.max").write_text(f"{device} hca_object=12")


class Server:
    """A gateway that is started again when a scenario has ended it."""

    def __init__(self, arguments, versions):
        self.arguments = dict(arguments)
        self.export = gateway.Export(tempfile.mkdtemp(prefix="rogue-"), fsal_options=self.arguments.pop("fsal_options", {}))
        self.versions = versions
        self.gateway = None

    def running(self):
        if self.gateway is None or not self.gateway.alive():
            self.close()
            self.gateway = gateway.Gateway([self.export], fsal="MEM", versions=self.versions, rdma=True, metrics=False,
                                           strict=False, **self.arguments).start()
        return self.gateway

    def close(self):
        if self.gateway is not None:
            self.gateway.close()
            self.gateway = None


def sanitizer_report(server):
    console = server.work / "console"
    text = console.read_text(errors="replace") if console.exists() else ""
    found = re.search(r"(ERROR: \w+Sanitizer.*|runtime error:.*)", text)
    return (found.group(1), text[found.start():found.start() + 6000]) if found else None


def tell_of(server, verbose):
    """What can be known of a failure afterwards: the end of the log, what each thread does, the last words of the kernel."""
    kernel = subprocess.run(["dmesg"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.splitlines()[-5:]
    parts = [("log", server.log_tail(60 if verbose else 15)), ("stacks", server.stacks() if server.alive() else ""),
             ("kernel", "\n".join(kernel))]
    for name, text in parts:
        for line in text.splitlines():
            print(f"     {name}: {line}")
    sys.stdout.flush()


def run(options, server, name, extra=()):
    """An empty string when the scenario passed, else why not."""
    address = os.environ.get("VM_ADDRESS", "127.0.0.1")
    running = server.running()
    command = [options.rogue, "--server", address, "--port", str(running.rdma_port), "--mount-port",
               str(running.mount_port), "--path", "/export", "--pid", str(running.pid), *extra, name]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=SCENARIO_TIMEOUT + options.fuzz)
        trouble = "" if done.returncode == 0 else done.stdout.strip() or f"exit status {done.returncode}"
        if done.returncode == 0 and done.stdout:
            print(done.stdout.strip())
    except subprocess.TimeoutExpired:
        trouble = f"no end within {SCENARIO_TIMEOUT + options.fuzz} s"
    if not running.alive():
        trouble = f"the server died ({running.process.returncode}); {trouble}"
    report = sanitizer_report(running)
    if report:
        trouble = f"{report[0]}; {trouble}"
        print(report[1])
        server.close()
    if trouble:
        tell_of(running, options.verbose)
        server.close()          # the next scenario gets a server that nobody has touched
    return trouble


def names_of(options):
    listed = subprocess.run([options.rogue, "list"], check=True, stdout=subprocess.PIPE, text=True).stdout
    names = [line.split()[0] for line in listed.splitlines()]
    wanted = options.only.split(",") if options.only else []
    unknown = [name for name in wanted if name.split("/")[-1] not in names]
    if unknown:
        sys.exit(f"run_scenarios.py: no scenario is named {unknown[0]}")
    return names, wanted


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rogue", required=True, help="the program rdma-rogue")
    parser.add_argument("--only", help="scenarios, as NAME or SERVER/NAME, separated by commas")
    parser.add_argument("--servers", default="at-once,later,narrow,scarce", help="which servers to run against")
    parser.add_argument("--fuzz", type=int, default=0, metavar="SECONDS", help="fuzz for so long, and do nothing else")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--versions", default="3,4.0", help="NFS versions of the servers")
    parser.add_argument("--verbose", action="store_true", help="the server's log with each failure")
    return parser.parse_args()


def main():
    options = parse()
    if not os.path.isdir("/sys/class/infiniband") or not os.listdir("/sys/class/infiniband"):
        print("SKIP rdma: no RDMA device here; run it in the VM")
        return 77
    names, wanted = names_of(options)
    passed = failed = 0
    for kind, arguments, runs in servers(options.rogue):
        if kind not in options.servers.split(","):
            continue
        jobs = [("fuzz", ["--seed", str(options.seed), "--seconds", str(options.fuzz)])] if options.fuzz else \
               [(name, []) for name in names
                if runs(name) and (not wanted or name in wanted or f"{kind}/{name}" in wanted)]
        if not jobs:
            continue
        if kind == "scarce":
            make_scarce()
        server = Server(arguments, options.versions.split(","))
        try:
            for name, extra in jobs:
                begin = time.monotonic()
                trouble = run(options, server, name, extra)
                print(f"{'FAIL' if trouble else 'ok  '} {kind:8} {time.monotonic() - begin:6.1f} s  {name}"
                      f"{': ' + trouble if trouble else ''}", flush=True)
                failed += bool(trouble)
                passed += not trouble
        finally:
            server.close()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
