#!/usr/bin/env python3
"""The Python package against a fabricd of its own: bytes in and out of every sort of memory, and safetensors files.

usage: python_test.py FABRICD
The package is found by PYTHONPATH. XDS_TEST_RDMA names the address of an RDMA device, to be used instead of TCP.
"""
import array
import errno
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile
import threading
import unittest

import xds
from xds.safetensors import SafetensorsError, load, parse_header

FABRICD = sys.argv[1]
HOST = os.environ.get("XDS_TEST_RDMA", "127.0.0.1")
DIRECT = "direct_bytes" if "XDS_TEST_RDMA" in os.environ else "tcp_bytes"


class DlpackOnly:
    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack__(self, **_):
        return self._tensor.__dlpack__()


class WithTarget(unittest.TestCase):
    FAULTS = ""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="xds-python-", dir=os.environ.get("TEST_TMPDIR"))
        self.root = os.path.join(self.folder.name, "root")
        os.mkdir(self.root)
        config = os.path.join(self.folder.name, "fabricd.yaml")
        with open(config, "w", encoding="ascii") as file:
            file.write(f"xds:\n  listen: {HOST}:0\n  root: {self.root}\n  lanes: 1\n"
                       f"security:\n  anonymous_uid: {os.geteuid()}\n  anonymous_gid: {os.getegid()}\n")
        self.daemon = subprocess.Popen([FABRICD, "--config", config], stdout=subprocess.PIPE, text=True,
                                       stderr=subprocess.DEVNULL, env=os.environ | {"FABRIC_FAULTS": self.FAULTS})
        self.address = HOST + ":" + self.daemon.stdout.readline().strip().split("=")[1]
        self.context = xds.Context(self.address, verify=True)

    def tearDown(self):
        self.context.close()
        self.daemon.kill()
        self.daemon.wait()
        self.daemon.stdout.close()
        self.folder.cleanup()

    def put(self, name, data):
        with open(os.path.join(self.root, name), "wb") as file:
            file.write(data)

    def content(self, name):
        with open(os.path.join(self.root, name), "rb") as file:
            return file.read()

    def random_file(self, name, length):
        data = random.Random(length).randbytes(length)
        self.put(name, data)
        return data


class Memory(WithTarget):
    def test_bytes_into_every_sort_of_memory(self):
        data = self.random_file("f", 1_000_008)
        with self.context.open("f") as file:
            self.assertEqual(file.size, len(data))
            for memory in bytearray(len(data)), array.array("B", bytes(len(data))), memoryview(bytearray(len(data))), \
                    xds.Tensor("U8", [len(data)]), xds.Tensor("F32", [len(data) // 8, 2]):
                self.assertEqual(file.read_into(memory), len(data))
                self.assertEqual(bytes(memoryview(memory).cast("B")), data)
            tensor = xds.Tensor("BF16", [2, len(data) // 4])
            self.assertEqual(file.read_into(DlpackOnly(tensor)), len(data))
            self.assertEqual(memoryview(tensor).tobytes(), data)
            device = xds.SimMemory(len(data))
            self.assertEqual(file.read_into(device), len(data))
            self.assertEqual(device.bytes(), data)
            self.assertTrue(file.explain(device).startswith("staged: sim memory"))
        stats = self.context.stats()
        self.assertEqual(stats["staged_bytes"], len(data))
        self.assertEqual(stats[DIRECT], 6 * len(data))
        self.assertEqual(stats["verified_bytes"], 7 * len(data))
        self.assertEqual(stats["checksum_errors"], 0)

    def test_offsets_lengths_and_the_end_of_the_file(self):
        data = self.random_file("f", 10_000)
        with self.context.open("f") as file:
            for offset in 0, 1, 4095, 4096, 4097, 9_999, 10_000, 20_000:
                for length in 0, 1, 4096, 4097, 20_000:
                    memory = bytearray(b"#" * length)
                    expected = data[offset:offset + length]
                    self.assertEqual(file.read_into(memory, offset), len(expected))
                    self.assertEqual(bytes(memory), expected + b"#" * (length - len(expected)))
                    self.assertEqual(file.read(length, offset), expected)
            self.assertEqual(file.read(1 << 60), data)

    def test_writes(self):
        with self.context.open("w", "w+") as file:
            self.assertEqual(file.write(b"0123456789"), 10)
            device = xds.SimMemory(5)
            device.fill(b"abcde")
            self.assertEqual(file.write(device, 5), 5)
            self.assertEqual(file.write(DlpackOnly(xds.Tensor("U8", [0])), 5), 0)
            file.sync()
        self.assertEqual(self.content("w"), b"01234abcde")
        with self.assertRaises(FileExistsError):
            self.context.open("w", "x")

    def test_memory_that_will_not_do(self):
        self.put("f", bytes(100))
        with self.context.open("f") as file:
            self.assertRaises(ValueError, file.read_into, bytes(10))                       # read only
            self.assertRaises(ValueError, file.read_into, memoryview(bytearray(10))[::2])  # not contiguous
            self.assertRaises(TypeError, file.read_into, 17)
            array_interface = xds.SimMemory(16).__cuda_array_interface__

            class Device:
                def __init__(self, **changes):
                    self.__cuda_array_interface__ = array_interface | changes

            pointer = array_interface["data"][0]
            self.assertRaises(ValueError, file.read_into, Device(data=(pointer, True)))
            self.assertRaises(ValueError, file.read_into, Device(shape=(4, 2), strides=(4, 1)))
            self.assertRaises(ValueError, xds.Tensor, "F31", [1])
            self.assertRaises(ValueError, xds.Tensor, "F32", [-1])
            self.assertRaises(ValueError, xds.Tensor, "F32", [1 << 62, 1 << 62])
            self.assertRaises(ValueError, xds.Tensor("F8_E4M3", [1]).__dlpack__)

    def test_errors_have_their_number_and_text(self):
        with self.assertRaises(FileNotFoundError) as caught:
            self.context.open("none")
        self.assertIn("none", str(caught.exception))
        self.put("f", b"data")
        file = self.context.open("f")
        with self.assertRaises(OSError) as caught:
            file.write(b"x")
        self.assertEqual(caught.exception.errno, errno.EBADF)
        file.close()
        with self.assertRaises(OSError) as caught:
            file.read(1)
        self.assertEqual(caught.exception.errno, errno.EBADF)
        self.assertRaises(ValueError, self.context.open, "f", "a")
        self.assertRaises(ValueError, xds.Context, self.address, mode="fast")

    def test_small_files_and_files_of_this_machine(self):
        files = {f"s{i}": self.random_file(f"s{i}", 100 + i) for i in range(300)}
        memories = {name: bytearray(500) for name in files}
        results = self.context.read_many([("none", bytearray(1)), *memories.items()])
        self.assertIsInstance(results[0], FileNotFoundError)
        self.assertEqual(results[0].filename, "none")
        self.assertEqual(results[1:], [len(data) for data in files.values()])
        for name, data in files.items():
            self.assertEqual(bytes(memories[name][:len(data)]), data)
        with open(os.path.join(self.root, "s7"), "rb") as own, self.context.open_fd(own.fileno()) as file:
            self.assertEqual(file.read(1000), files["s7"])
        self.assertGreater(self.context.stats()["local_bytes"], 0)

    def test_a_tensor_outlives_what_shares_it(self):
        tensor = xds.Tensor("I64", [3])
        memoryview(tensor)[:] = memoryview(array.array("q", [5, 6, 7]))
        proxy = DlpackOnly(tensor)
        capsule = tensor.__dlpack__()
        view = memoryview(tensor)
        self.assertEqual(tensor.__dlpack_device__(), (1, 0))
        self.assertEqual((tensor.dtype, tensor.shape, tensor.nbytes), ("I64", (3,), 24))
        del tensor, capsule
        self.assertEqual(view.tolist(), [5, 6, 7])
        with self.context.open("t", "w") as file:
            self.assertEqual(file.write(proxy), 24)
        self.assertEqual(struct.unpack("<3q", self.content("t")), (5, 6, 7))


class OtherThreads(WithTarget):
    FAULTS = "backing.read=delay:1500*1"

    def test_run_while_one_reads(self):
        self.put("f", bytes(1 << 20))
        file = self.context.open("f")
        begun, ended = threading.Event(), threading.Event()

        def read():
            begun.set()
            file.read_into(bytearray(1 << 20))
            ended.set()

        reader = threading.Thread(target=read)
        reader.start()
        begun.wait()
        turns = 0
        while not ended.wait(0.001):
            turns += 1
        reader.join()
        self.assertGreater(turns, 10)


def tensors_file(tensors, metadata=None, **changes):
    """The bytes of a safetensors file of {name: (dtype, shape, bytes)}; `changes` replace entries of the header."""
    header, data = {} if metadata is None else {"__metadata__": metadata}, b""
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header | changes).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


class Streams(WithTarget):
    def test_keep_the_order_and_what_they_use(self):
        data = self.random_file("f", 1_000_001)
        gate, seen = threading.Event(), []
        with self.context.open("f", "r+") as file, xds.Stream("sim") as stream:
            device = xds.SimMemory(1_000_001)
            stream.call(gate.wait)
            loaded = file.read_into_stream(device, stream)
            stream.call(lambda: seen.append(loaded.result))
            saved = file.write_from_stream(bytes(b"new"), stream, 500_000)
            late = file.read_into_stream(bytearray(10), stream)
            late.offset, late.length = 500_000, 3
            self.assertEqual([loaded.result, saved.result, seen], [0, 0, []])
            gate.set()
            stream.sync()
            self.assertEqual([loaded.result, seen, saved.result, late.result], [1_000_001, [1_000_001], 3, 3])
            self.assertEqual(device.bytes(), data)
        with open(os.path.join(self.root, "f"), "rb") as file:
            self.assertEqual(file.read(), data[:500_000] + b"new" + data[500_003:])

    def test_errors(self):
        self.put("f", b"bytes")
        unraisable = []
        sys.unraisablehook = unraisable.append
        self.addCleanup(setattr, sys, "unraisablehook", sys.__unraisablehook__)
        with self.context.open("f") as file, xds.Stream() as stream:
            wrong = file.write_from_stream(b"x", stream)
            stream.call(lambda: 1 / 0)
            with self.assertRaises(OSError) as raised:
                stream.sync()
            self.assertEqual((raised.exception.errno, wrong.result), (errno.EBADF, -errno.EBADF))
            stream.sync()
            self.assertIs(unraisable[0].exc_type, ZeroDivisionError)
            unraisable.clear()
        with self.assertRaises(OSError):
            xds.Stream("abacus")


class Safetensors(WithTarget):
    SIZES = {"F32": 4, "BF16": 2, "I64": 8, "F8_E4M3": 1, "BOOL": 1}

    def tensors(self):
        source = random.Random(4)
        shapes = {"big": ("F32", [1200, 701]), "odd": ("BF16", [3, 5, 7]), "scalar": ("I64", []), "bytes": ("F8_E4M3", [13]),
                  "none": ("BOOL", [0, 4])} | {f"small.{i}": ("BF16", [i + 1]) for i in range(150)}
        return {name: (dtype, shape, source.randbytes(math.prod(shape) * self.SIZES[dtype]))
                for name, (dtype, shape) in shapes.items()}

    def test_every_tensor_has_its_bytes(self):
        tensors = self.tensors()
        self.put("model.safetensors", tensors_file(tensors, {"format": "pt"}))
        before = self.context.stats()["verified_bytes"]
        loaded = load(self.context, "model.safetensors")
        self.assertEqual(set(loaded), set(tensors))
        for name, (dtype, shape, content) in tensors.items():
            self.assertEqual((loaded[name].dtype, list(loaded[name].shape)), (dtype, shape))
            self.assertEqual(memoryview(loaded[name]).tobytes(), content, name)
        self.assertGreaterEqual(self.context.stats()["verified_bytes"] - before,
                                sum(len(content) for _, _, content in tensors.values()))

    def test_into_device_memory_and_by_name(self):
        tensors = self.tensors()
        self.put("model.safetensors", tensors_file(tensors))
        loaded = load(self.context, "model.safetensors", names=["odd", "big"],
                      allocate=lambda dtype, shape, nbytes: xds.SimMemory(nbytes))
        self.assertEqual(set(loaded), {"odd", "big"})
        for name, memory in loaded.items():
            self.assertEqual(memory.bytes(), tensors[name][2])
        with self.assertRaises(KeyError):
            load(self.context, "model.safetensors", names=["absent"])
        with self.assertRaises(SafetensorsError):
            load(self.context, "model.safetensors", allocate=lambda dtype, shape, nbytes: bytearray(nbytes + 1))

    def test_without_verification_it_refuses(self):
        self.put("model.safetensors", tensors_file(self.tensors()))
        with xds.Context(self.address) as context, self.assertRaises(ValueError):
            load(context, "model.safetensors")

    def test_hostile_files_are_named_errors(self):
        good = {"a": ("F32", [2], bytes(8)), "b": ("F32", [2], bytes(8))}

        def entry(**changes):
            return {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]} | changes

        def raw(text, data=b""):
            return struct.pack("<Q", len(text)) + text + data

        cases = {
            "too few": b"\0\0\0",
            "is the most": struct.pack("<Q", (1 << 63) + 5) + b"{}",
            "in a file of": struct.pack("<Q", 1000) + b"{}",
            "not JSON": raw(b"{'a': 1}"),
            "NaN is not JSON": raw(b'{"a": NaN}'),
            "nested too deeply": raw(b"[" * 200_000),
            "can't decode": raw(b'{"\xff": 1}'),
            "not a JSON object": raw(b"[]"),
            "occurs twice": raw(b'{"a": 1, "a": 2}'),
            "object of texts": tensors_file(good, {"a": 5}),
            "has not exactly": tensors_file(good, b={"dtype": "F32"}),
            "unknown dtype": tensors_file(good, b=entry(dtype="F31")),
            "unknown dtype ['F32']": tensors_file(good, b=entry(dtype=["F32"])),
            "shape is not": tensors_file(good, b=entry(shape=[-2])),
            "list of natural": tensors_file(good, b=entry(shape=[True, 2])),
            "natural numbers": tensors_file(good, b=entry(shape=[1] * 65)),
            "are not two": tensors_file(good, b=entry(data_offsets=[-8, 16])),
            "are not two natural": tensors_file(good, b=entry(data_offsets=[8.0, 16])),
            "are not within": tensors_file(good, b=entry(data_offsets=[16, 8])),
            "not within the file's": tensors_file(good, b=entry(data_offsets=[8, 1 << 62])),
            "dtype and shape": tensors_file(good, b=entry(shape=[3])),
            "shape 0": tensors_file(good, b=entry(shape=[1 << 62, 1 << 62, 0])),
            "overlaps": tensors_file(good, b=entry(data_offsets=[4, 12])),
            "leaves a hole": tensors_file(good | {"c": ("F32", [1], bytes(4))}, b=entry(data_offsets=[12, 20])),
            "behind the last tensor": tensors_file(good) + b"x",
        }
        for expected, content in cases.items():
            self.put("hostile", content)
            with self.subTest(expected), self.assertRaises(SafetensorsError) as caught:
                load(self.context, "hostile")
            self.assertIn(expected, str(caught.exception))
            self.assertTrue(str(caught.exception).startswith("hostile: "))

    def test_random_headers_are_headers_or_errors(self):
        source, proper = random.Random(9), tensors_file(self.tensors())
        length = struct.unpack("<Q", proper[:8])[0]
        refused = 0
        for _ in range(2000):
            text = bytearray(proper[8:8 + length])
            for _ in range(source.randrange(1, 4)):
                text[source.randrange(length)] = source.choice(b'0123456789-.,:[]{}"abFe \\')
            try:
                parse_header(length, bytes(text), len(proper))
            except ValueError as error:
                self.assertNotEqual(str(error), "")
                refused += 1
        self.assertGreater(refused, 100)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[2:]])
