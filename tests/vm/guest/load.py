"""Clients at work in the background: every acknowledged write is remembered and can be demanded back, every read is checked."""
import multiprocessing
import os
import time

from guest import trees

CONTEXT = multiprocessing.get_context("fork")


def _record(writer, number, size):
    return trees.content(f"{writer}/{number}", size)


class Writer:
    """Appends records to a file, each with fsync, and counts those that fsync acknowledged."""

    def __init__(self, path, record_bytes, keep=1 << 26):
        self.path = path
        self.record_bytes = record_bytes
        self.slots = max(1, keep // record_bytes)   # the file is a ring, so that a long run needs no more room
        self.acknowledged = CONTEXT.Value("q", 0)
        self.error = CONTEXT.Array("c", 200)
        self.stopping = CONTEXT.Event()
        self.process = CONTEXT.Process(target=self._work, daemon=True)

    def _work(self):
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            number = 0
            while not self.stopping.is_set():
                data = _record(self.path, number, self.record_bytes)
                place = number % self.slots * self.record_bytes
                while data:
                    written = os.pwrite(descriptor, data, place)
                    data, place = data[written:], place + written
                os.fsync(descriptor)
                number += 1
                self.acknowledged.value = number
            os.close(descriptor)
        except OSError as error:
            self.error.value = str(error).encode()[:199]

    def start(self):
        self.process.start()
        return self

    def stop(self, timeout=240):
        self.stopping.set()
        self.process.join(timeout)
        if self.process.is_alive():
            self.process.kill()
            raise AssertionError(f"{self.path}: the writer hangs after {self.acknowledged.value} records")
        if self.error.value:
            raise AssertionError(f"{self.path}: after {self.acknowledged.value} records: {self.error.value.decode()}")

    def verify(self, path=None):
        """Every acknowledged record that was not overwritten since is there."""
        count = self.acknowledged.value
        with open(path or self.path, "rb", buffering=0) as file:
            for number in range(max(0, count - self.slots), count):
                file.seek(number % self.slots * self.record_bytes)
                data = b""
                while len(data) < self.record_bytes and (part := file.read(self.record_bytes - len(data))):
                    data += part
                if data != _record(self.path, number, self.record_bytes):
                    # The one slot that may hold a newer, not yet acknowledged record.
                    if number == count - self.slots and data == _record(self.path, count, self.record_bytes):
                        continue
                    raise AssertionError(f"{self.path}: record {number} of {count} acknowledged ones is not there")
        return count


class Reader:
    """Reads a file over and over past the client's cache and compares every byte."""

    def __init__(self, path, seed, size, block=1 << 20):
        self.path = path
        self.seed, self.size, self.block = seed, size, block
        self.rounds = CONTEXT.Value("q", 0)
        self.error = CONTEXT.Array("c", 300)
        self.stopping = CONTEXT.Event()
        self.process = CONTEXT.Process(target=self._work, daemon=True)

    def _work(self):
        expected = trees.content(self.seed, self.size)
        try:
            with open(self.path, "rb", buffering=0) as file:
                while not self.stopping.is_set():
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                    file.seek(0)
                    place = 0
                    while data := file.read(self.block):
                        if data != expected[place:place + len(data)]:
                            raise OSError(f"wrong bytes between {place} and {place + len(data)}")
                        place += len(data)
                    if place != self.size:
                        raise OSError(f"end of file at {place} of {self.size}")
                    self.rounds.value += 1
        except OSError as error:
            self.error.value = str(error).encode()[:299]

    def start(self):
        self.process.start()
        return self

    def stop(self, timeout=240):
        self.stopping.set()
        self.process.join(timeout)
        if self.process.is_alive():
            self.process.kill()
            raise AssertionError(f"{self.path}: the reader hangs after {self.rounds.value} rounds")
        if self.error.value:
            raise AssertionError(f"{self.path}: after {self.rounds.value} rounds: {self.error.value.decode()}")


class OpenFile:
    """A file that a process of its own holds open. Who starts a server must not: what it forks closes its copies of open files
    first, and the last words of a client's file wait for the server that is to be started."""

    def __init__(self, path, flags):
        self.path = path
        self.pipe, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=self._work, args=(flags, theirs), daemon=True)
        self.process.start()

    def _work(self, flags, pipe):
        descriptor = os.open(self.path, flags, 0o644)
        while True:
            name, arguments = pipe.recv()
            try:
                pipe.send((getattr(os, name)(descriptor, *arguments), 0))
            except OSError as error:
                pipe.send((None, error.errno))

    def call(self, name, *arguments, timeout=240):
        """os.NAME(descriptor, *arguments), in that process."""
        self.pipe.send((name, arguments))
        if not self.pipe.poll(timeout):
            raise AssertionError(f"{self.path}: {name} has not returned after {timeout} s")
        result, error = self.pipe.recv()
        if error:
            raise OSError(error, f"{name} of {self.path}: {os.strerror(error)}")
        return result

    def close(self):
        self.call("close")
        self.process.kill()
        self.process.join()


def progress(worker_count, timeout, what):
    """Waits until the counter has grown twice: once may be a call that was under way already."""
    start = worker_count.value
    end = time.monotonic() + timeout
    while worker_count.value < start + 2:
        if time.monotonic() > end:
            raise AssertionError(f"{what}: no progress within {timeout} s (counter at {worker_count.value})")
        time.sleep(0.05)
