"""Sends damaged RPC to a gateway for a while and watches that it lives, serves others right bytes, and stays small.

    fuzz_nfs.py [--seconds 60] [--seed N] [--burst K] [--fsal FABRIC] [--keep-going] [--gdb]
    fuzz_nfs.py --replay FILE [--fsal FABRIC]

Work goes in bursts: fresh valid calls (corpus.py), damaged (mutate.py), over a few connections. After each burst a fresh
client reads a file of another export and compares. When the server dies or stops answering, the bytes of the burst are
written to fuzz-SEED-BURST.json; --replay sends them again, and --seed N --burst K makes that burst anew. A handle or a
stateid differs from run to run, so the replay is exact in the bytes, the seed in the choices.
"""
import argparse
import base64
import collections
import json
import os
import pathlib
import random
import select
import sys
import time

import corpus
import gateway as gw
import image
import mutate
import nfs3
import nfs4
import rpc

RSS_BOUND = 1 << 30                                 # far above the use seen (under 200 MB), far below "without bound"
WITNESS = os.urandom(300000)
LANES = 4                                           # connections a burst goes over, per port


ERRORS = (OSError, rpc.Timeout, rpc.Closed, rpc.RpcError, rpc.XdrError, nfs3.NfsError)


class Failure(Exception):
    pass


class Lane:
    """One connection that takes whatever comes back and is opened anew when the server closes it."""

    def __init__(self, port, counts):
        self.port, self.counts = port, counts
        self.connection = None

    def send(self, data):
        """Sends without ever waiting for a server that does not read: a damaged mark makes it wait for more."""
        if self.connection is None:
            self.connection = rpc.Connection(self.port, timeout=20)
            self.connection.socket.setblocking(False)
        view = memoryview(data)
        patience = time.monotonic() + 2
        while view:
            self.drain()
            if self.connection is None:
                return
            try:
                view = view[self.connection.socket.send(view):]
            except BlockingIOError:
                select.select([self.connection.socket], [self.connection.socket], [], 0.05)
                if time.monotonic() > patience:
                    self.close("not read")
                    return
            except OSError:
                self.close("closed")
                return

    def drain(self):
        try:
            while True:
                part = self.connection.socket.recv(1 << 18)
                if not part:
                    self.close("closed")
                    return
                self.counts["reply bytes"] += len(part)
        except BlockingIOError:
            return
        except OSError:
            self.close("closed")

    def close(self, why=None):
        if self.connection is not None:
            self.connection.close()
            self.connection = None
            if why:
                self.counts[why] += 1


class Fuzzer:
    def __init__(self, gateway, seed):
        self.gateway, self.seed = gateway, seed
        self.counts = collections.Counter()
        self.peak = 0

    def burst(self, number):
        """[(port, lane, bytes)] of one burst, made from seed and number."""
        choice = random.Random(f"{self.seed}/{number}")
        try:
            source = corpus.Corpus(self.gateway, choice)
        except ERRORS as error:
            raise Failure(f"a good client fails: {type(error).__name__} {error}") from error
        try:
            calls = list(source.messages())
        finally:
            source.close()
        mutator = mutate.Mutator(choice)
        made = []
        for _ in range(2):
            for port, name, message in calls:
                self.counts[name.split(".")[0]] += 1
                made.append((port, choice.randrange(LANES), mutator.marked(mutator.message(message))))
        choice.shuffle(made)
        return made

    def send(self, made):
        lanes = {}
        for port, lane, data in made:
            key = port, lane
            if key not in lanes:
                lanes[key] = Lane(port, self.counts)
            try:
                lanes[key].send(data)
            except OSError as error:
                raise Failure(f"the server takes no connection: {error}") from error
            self.counts["sent"] += 1
        for lane in lanes.values():
            if lane.connection:
                lane.drain()
            lane.close()

    def check(self):
        """Lives, serves, is small."""
        if not self.gateway.alive():
            raise Failure(f"the server ended with {self.gateway.process.returncode}")
        try:
            with nfs3.Client.mount(self.gateway, "/witness", timeout=30) as client:
                content = client.read_all(client.lookup(client.root, "witness").handle)
            with nfs4.Client40(self.gateway, export="/witness", timeout=30) as client:
                content4 = client.read_all(client.handle("witness"))
        except ERRORS as error:
            raise Failure(f"a good client fails: {type(error).__name__} {error}") from error
        if content != WITNESS or content4 != WITNESS:
            raise Failure("a good client read wrong bytes")
        self.peak = max(self.peak, self.gateway.rss())
        if self.peak > RSS_BOUND:
            raise Failure(f"the server's RSS is {self.peak >> 20} MiB")


def save(made, gateway, seed, number, why):
    path = pathlib.Path(f"fuzz-{seed}-{number}.json").resolve()
    names = {port: name for name, port in gateway.ports.items()}
    path.write_text(json.dumps({"why": why, "messages": [[names[port], lane, base64.b64encode(data).decode()]
                                                         for port, lane, data in made]}))
    return path


def start(fsal, folder, gdb=False):
    exports = []
    for name, options in (("export", {}), ("witness", {"Access_Type": "RO"})):
        (folder / name).mkdir(exist_ok=True)
        os.chmod(folder / name, 0o777)
        exports.append(gw.Export(str(folder / name), pseudo=f"/{name}", options=options))
    (folder / "witness/witness").write_bytes(WITNESS)
    return gw.Gateway(exports, fsal=fsal, log_level="MAJ", core={"Enable_NLM": "true"}, nfsv4={"Lease_Lifetime": 10}, wrapper=gw.GDB if gdb else ()).start()


def let_go(gateway, descriptors):
    """The clients of the bursts are gone without a word: when their leases are over, nothing of theirs is open."""
    deadline = time.monotonic() + 120
    while gateway.fds(directories=False) > descriptors + 20:
        if time.monotonic() > deadline:
            raise Failure(f"{gateway.fds(directories=False)} descriptors are open long after all clients went, {descriptors} before them")
        time.sleep(0.5)


def run(arguments, folder):
    gateway = start(arguments.fsal, folder, arguments.gdb)
    fuzzer = Fuzzer(gateway, arguments.seed)
    failures = 0
    try:
        fuzzer.check()
        descriptors = gateway.fds(directories=False)
        deadline = time.monotonic() + arguments.seconds
        number = arguments.burst or 0
        while time.monotonic() < deadline or number == (arguments.burst or 0):
            made = []
            try:
                made = fuzzer.burst(number)
                fuzzer.send(made)
                fuzzer.check()
            except Failure as failure:
                failures += 1
                ended = gateway.ends_within(20)     # a crash closes connections before its core is written
                state = f"the server ended with {gateway.process.returncode}" if ended else f"the server lives, {gateway.fds()} fds"
                path = save(made, gateway, arguments.seed, number, str(failure))
                print(f"FAILED in burst {number}: {failure}; {state}\n  input kept: {path}\n  again: fuzz_nfs.py --replay {path}\n"
                      f"{gateway.backtrace() or gateway.log_tail()}", flush=True)
                if not arguments.keep_going:
                    return 1
                gateway.kill9()
                gateway.restart()
            number += 1
            if arguments.burst is not None:
                break
        print(f"seed {arguments.seed}: {number - (arguments.burst or 0)} bursts, RSS peak {fuzzer.peak >> 20} MiB, "
              f"{gateway.fds()} fds, "
              f"{dict(fuzzer.counts)}, {failures} failures")
        if arguments.stop:
            let_go(gateway, descriptors)
            if gateway.stop(30) != 0:
                raise Failure(f"the server ended with {gateway.process.returncode} when told to end")
        else:
            gateway.kill9()
        return 1 if failures else 0
    except Failure as failure:
        print(f"FAILED: {failure}\n{gateway.backtrace() or gateway.log_tail()}", flush=True)
        return 1
    finally:
        gateway.close()


def replay(arguments, folder):
    saved = json.loads(pathlib.Path(arguments.replay).read_text())
    gateway = start(arguments.fsal, folder, arguments.gdb)
    try:
        fuzzer = Fuzzer(gateway, 0)
        corpus.Corpus(gateway, random.Random(0)).close()
        fuzzer.send([(gateway.ports[name], lane, base64.b64decode(data)) for name, lane, data in saved["messages"]])
        fuzzer.check()
        print("the server lives")
        return 0
    except Failure as failure:
        print(f"FAILED: {failure}\n{gateway.log_tail()}")
        return 1
    finally:
        gateway.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("FABRIC_FUZZ_SECONDS", "60")))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("FABRIC_FUZZ_SEED", "0")) or random.randrange(1 << 30))
    parser.add_argument("--burst", type=int)
    parser.add_argument("--fsal", default=gw.default_fsal())
    parser.add_argument("--keep-going", action="store_true")
    parser.add_argument("--stop", action="store_true", help="the server must also end in time when told to")
    parser.add_argument("--replay")
    parser.add_argument("--gdb", action="store_true", help="run the server under gdb and print where it crashes")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, {arguments.seconds:.0f} s", flush=True)
    try:
        disk = image.Image(512)                     # damaged calls allocate what they can get
    except (image.NoImage, gw.NoHandles) as error:
        print(f"SKIPPED fuzz: {error}")
        return 77
    try:
        return (replay if arguments.replay else run)(arguments, disk.path)
    finally:
        disk.close()


if __name__ == "__main__":
    sys.exit(main())
