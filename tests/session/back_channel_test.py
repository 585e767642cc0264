#!/usr/bin/python3
"""The back channel of a session over RDMA (RFC 8167), with the kernel's client.

bound    many operations, and the client has no reason to bind its connection again
notify   a lock that the kernel waits for comes free: CB_SEQUENCE and CB_NOTIFY_LOCK reach it over RDMA, many times
lost     the connection goes while the server waits for answers: the calls end, the client comes back and is called again
"""
import pathlib
import subprocess
import sys
import time

import guest
import nfs4
import nfs4_ops as ops

TRACING = pathlib.Path("/sys/kernel/tracing")
ROUNDS = 10


def bound(gateway):
    with guest.mounted(gateway, "4.1") as folder:
        for number in range(200):
            (folder / f"file-{number}").write_bytes(b"x")
        binds = guest.operation_count(folder, "BIND_CONN_TO_SESSION")
        operations = guest.operation_count(folder, "OPEN")
        assert operations >= 200, f"{operations} OPENs seen"
        assert binds == 0, f"{binds} BIND_CONN_TO_SESSION among {operations} OPENs: the client thinks its path is down"
    print("bound: 200 files, no BIND_CONN_TO_SESSION", flush=True)


def trace(on):
    if not (TRACING / "events").is_dir():
        guest.run("mount", "-t", "tracefs", "tracefs", TRACING)
    for event in ("nfs4_cb_sequence", "nfs_cb_badprinc"):
        path = TRACING / "events/nfs4" / event / "enable"
        if path.exists():
            path.write_text("1" if on else "0")


def traced_callbacks():
    lines = (TRACING / "trace").read_text().splitlines()
    return [line for line in lines if "nfs4_cb_sequence:" in line]


class Holder:
    """A client of ours over TCP that holds a lock on the whole file, and lets go of it."""

    WHOLE = 0, 0xFFFFFFFFFFFFFFFF

    def __init__(self, gateway):
        self.client = nfs4.Client40(gateway)
        self.opened = self.client.open(self.client.handle(), "file", how=ops.UNCHECKED)
        self.rounds = 0

    def lock(self):
        lock = ops.lock_new(ops.WRITE_LT, *self.WHOLE, self.opened.stateid, f"holder {self.rounds}", self.client.clientid,
                            self.opened.owner[1] + self.rounds)
        self.rounds += 1
        self.held = self.client.run(ops.putfh(self.opened.handle), lock)[-1]

    def unlock(self):
        self.client.run(ops.putfh(self.opened.handle), ops.locku(ops.WRITE_LT, *self.WHOLE, self.held, 1))


def waiting_process(path):
    """Another process, since a lock is a process's: blocks in fcntl(F_SETLKW)."""
    script = "import fcntl,sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX); print('locked', flush=True)"
    return subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE, text=True)


def wait_for(condition, failure, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, failure
        time.sleep(0.05)


def one_round(folder, holder):
    holder.lock()
    before = guest.operation_count(folder, "LOCK")
    waiter = waiting_process(str(folder / "file"))
    wait_for(lambda: guest.operation_count(folder, "LOCK") > before, "the kernel did not ask for the lock")
    holder.unlock()
    assert waiter.communicate(timeout=90)[0] == "locked\n"


def notify(gateway):
    holder = Holder(gateway)
    with guest.mounted(gateway, "4.1") as folder:
        trace(True)
        for _ in range(ROUNDS):
            one_round(folder, holder)
        calls = traced_callbacks()
        assert len(calls) >= ROUNDS, f"{len(calls)} callbacks reached the kernel in {ROUNDS} rounds"
        failed = [line for line in calls if "error=0 " not in line]
        assert not failed, "\n".join(failed)
        assert guest.operation_count(folder, "BIND_CONN_TO_SESSION") == 0
    print(f"notify: {len(calls)} callbacks over RDMA in {ROUNDS} rounds", flush=True)


def lost(gateway):
    holder = Holder(gateway)
    with guest.mounted(gateway, "4.1") as folder:
        trace(True)
        one_round(folder, holder)
        before = len(traced_callbacks())
        # The card goes away under both ends, while a lock is waited for, and comes back.
        holder.lock()
        asked = guest.operation_count(folder, "LOCK")
        waiter = waiting_process(str(folder / "file"))
        wait_for(lambda: guest.operation_count(folder, "LOCK") > asked, "the kernel did not ask for the lock")
        guest.run("iptables", "-I", "INPUT", "-p", "udp", "--dport", "4791", "-j", "DROP")
        holder.unlock()
        time.sleep(5)
        guest.run("iptables", "-D", "INPUT", "-p", "udp", "--dport", "4791", "-j", "DROP")
        assert waiter.communicate(timeout=120)[0] == "locked\n"
        one_round(folder, holder)
        assert len(traced_callbacks()) > before, "no callback after the connection came back"
        assert gateway.alive()
    print("lost: called again on the new connection", flush=True)


def main(names):
    with guest.rdma_gateway(versions=("4.0", "4.1", "4.2"), nfsv4={"Lease_Lifetime": 60}) as gateway:
        for name in names:
            globals()[name](gateway)
            assert gateway.alive()


if __name__ == "__main__":
    main(sys.argv[1:] or ["bound", "notify"])
