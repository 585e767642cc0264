"""Which way file data goes, by the gateway's own counters, with exact bytes at every alignment: cold reads over RDMA move
without a copy, warm ones come from the page cache, ends of files and unaligned ranges are right in both."""
import mmap
import os
import random

from cases import faults
from guest.backing import Backing
from guest.mounts import Mount
from guest.servers import drain, make_server, writes_back
from guest.suite import Suite, expect, expect_equal

MIB = 1 << 20
COPIED_READ = 'fabric_copied_bytes_total{direction="read",path="page_cache"}'
DIRECT_READ = 'fabric_bytes_total{direction="read",path="direct"}'
BUFFERED_READ = 'fabric_bytes_total{direction="read",path="burst_buffer"}'
DIRECT_WRITE = 'fabric_bytes_total{direction="write",path="direct"}'


def drop_page_cache():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as control:
        control.write("3\n")


def direct_read(path, offset, length):
    """Exactly one READ of the client for each MiB: O_DIRECT goes past its cache. The offset may be unaligned on NFS."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        memory = mmap.mmap(-1, max(length, 1))
        moved = os.preadv(descriptor, [memory], offset)
        return memory[:moved]
    finally:
        os.close(descriptor)


class DataPath:
    def __init__(self, server, backing, version, protocol, seed):
        self.server, self.backing, self.protocol = server, backing, protocol
        self.mount = Mount(server, version, protocol)
        self.random = random.Random(seed)
        self.content = self.random.randbytes(8 * MIB + 1234)
        self.made = 0

    def new_file(self):
        self.made += 1
        name = f"file{self.made}"
        with open(os.path.join(self.backing.path, name), "wb") as file:
            file.write(self.content)
        drop_page_cache()
        return os.path.join(self.mount.path, name)

    def spent(self, before, name):
        return self.server.metrics().get(name, 0) - before.get(name, 0)

    def cold_aligned(self):
        path = self.new_file()
        before = self.server.metrics()
        for offset in range(0, 8 * MIB, MIB):
            expect_equal(direct_read(path, offset, MIB) == self.content[offset:offset + MIB], True, f"bytes at {offset}")
        if self.protocol == "rdma":
            expect_equal(self.spent(before, COPIED_READ), 0, "bytes copied by cold aligned reads over RDMA")
            direct = self.spent(before, DIRECT_READ) + self.spent(before, BUFFERED_READ)
            expect_equal(direct, 8 * MIB, "bytes that went direct, from the file or from the burst buffer")

    def warm(self):
        path = self.new_file()
        with open(os.path.join(self.backing.path, os.path.basename(path)), "rb") as file:
            file.read()
        before = self.server.metrics()
        expect(direct_read(path, MIB, MIB) == self.content[MIB:2 * MIB], "warm bytes")
        expect_equal(self.spent(before, DIRECT_READ), 0, "bytes read from the device though the page cache has them")

    def edges(self):
        """Offsets and lengths around pages and the end of the file, all cold."""
        size = len(self.content)
        path = self.new_file()
        wrong = []
        for base in (0, 4096, 65536, MIB, size - MIB, size - 4096, size):
            for shift in (-513, -1, 0, 1, 512):
                for length in (1, 4095, 65536, 65537, 300000, MIB - 1, MIB):
                    offset = base + shift
                    if offset < 0:
                        continue
                    if self.random.random() < 0.1:
                        drop_page_cache()
                    if direct_read(path, offset, length) != self.content[offset:offset + length]:
                        wrong.append((offset, length))
        expect_equal(wrong, [], "ranges with wrong bytes")

    def writes(self):
        """Direct writes of the client at every alignment, beside buffered reads on the server, against a shadow copy."""
        path = self.new_file()
        shadow = bytearray(self.content)
        before = self.server.metrics()
        descriptor = os.open(path, os.O_RDWR | os.O_DIRECT)
        local = os.open(os.path.join(self.backing.path, os.path.basename(path)), os.O_RDONLY)
        for number in range(60):
            aligned = number % 2 == 0
            length = self.random.choice((MIB, 512 << 10, 256 << 10)) if aligned else self.random.randint(1, MIB)
            offset = self.random.randrange(0, 8 * MIB, 4096) if aligned else self.random.randrange(0, 9 * MIB)
            data = self.random.randbytes(length)
            memory = mmap.mmap(-1, length)
            memory[:] = data
            done = 0
            while done < length:
                done += os.pwritev(descriptor, [memoryview(memory)[done:]], offset + done)
            if offset + length > len(shadow):
                shadow.extend(bytes(offset + length - len(shadow)))
            shadow[offset:offset + length] = data
            if number % 5 == 0:
                drain(self.server)
                expect(os.pread(local, length, offset) == data, f"the server's page cache is old at {offset}+{length}")
            if number % 7 == 0:
                os.fsync(descriptor)
        os.fsync(descriptor)
        os.close(descriptor)
        drain(self.server)
        drop_page_cache()
        expect(os.pread(local, len(shadow) + 1, 0) == bytes(shadow), "the file on the server differs from the shadow")
        os.close(local)
        if self.protocol == "rdma" and not writes_back(self.server):
            expect(self.spent(before, DIRECT_WRITE) > 0, "no aligned write over RDMA went direct")

    def growing(self):
        """A reader follows a writer on the server: the end of the file is where it is at that moment."""
        path = self.new_file()
        local = os.path.join(self.backing.path, os.path.basename(path))
        shadow = bytearray(self.content)
        for _ in range(20):
            more = self.random.randbytes(self.random.randint(1, 200000))
            with open(local, "ab") as file:
                file.write(more)
            shadow += more
            if self.random.random() < 0.5:
                drop_page_cache()
            offset = max(0, len(shadow) - self.random.randint(1, MIB))
            os.stat(path)
            got = direct_read(path, offset, MIB)
            expect(bytes(shadow[offset:offset + MIB]).startswith(got) and got, f"bytes at {offset} of {len(shadow)}")


def run(options):
    backing = Backing(options.backing, size_mb=400)
    suite = Suite(options.only)
    server = make_server(options.server, backing.path).start()
    for version in options.versions:
        for protocol in options.protocols:
            name = f"v{version} {protocol}"
            data = DataPath(server, backing, version, protocol, options.seed)
            if suite.case(f"mount {name}", data.mount.mount) is False:
                continue
            for case in (data.cold_aligned, data.warm, data.edges, data.writes, data.growing):
                suite.case(f"{case.__name__} {name}", case)
            suite.case(f"unmount {name}", data.mount.unmount)
            for file in os.listdir(backing.path):
                if file.startswith("file"):
                    os.unlink(os.path.join(backing.path, file))
    faults.run_cases(suite, server, backing, options)
    suite.case("stop", server.stop)
    suite.finish()
