"""Damages RPC calls. All choices come from the Random given, so a seed repeats a run (against the same server answers)."""
import struct

import rpc

WORDS = [0, 1, 2, 3, 4, 8, 0x10, 0x3F, 0x40, 0x41, 0x80, 0xFF, 0x100, 0x3FF, 0x400, 0x401, 0xFFF, 0x1000, 0x2000, 0x2001, 0xFFFF,
         0x10000, 0xFFFFF, 0x100000, 0x100001, 0x4000000, 0x4000001, 0x7FFFFFFC, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFF0,
         0xFFFFFFFC, 0xFFFFFFFD, 0xFFFFFFFE, 0xFFFFFFFF]
LONGS = [0, 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 4096, 2**63 - 1, 2**63, 2**64 - 4096, 2**64 - 2, 2**64 - 1]
HEADER = 24                                         # xid to procedure


class Mutator:
    def __init__(self, random):
        self.random = random

    def message(self, message):
        """A damaged copy of an RPC message; now and then an undamaged one, to keep the state machines going."""
        data = bytearray(message)
        for _ in range(self.random.choice([0, 1, 1, 1, 2, 2, 3, 6])):
            change = self.random.choices(
                [self.word, self.bits, self.long, self.truncate, self.extend, self.cut, self.repeat, self.header,
                 self.bytes_anywhere, self.swap],
                [10, 6, 6, 4, 2, 3, 3, 1, 2, 2])[0]
            data = change(data)
        return bytes(data)

    def position(self, data, step=4):
        return self.random.randrange(0, max(len(data) - step, 0) + 1, 4) if len(data) >= step else 0

    def word(self, data):
        at = max(self.position(data), min(HEADER, len(data)))
        value = self.random.choice(WORDS)
        if self.random.random() < 0.3 and at + 4 <= len(data):
            value = struct.unpack(">I", data[at:at + 4])[0] + self.random.choice([-4, -1, 1, 3, 4, 1024])
        data[at:at + 4] = struct.pack(">I", value & 0xFFFFFFFF)
        return data

    def long(self, data):
        at = max(self.position(data, 8), min(HEADER, len(data)))
        data[at:at + 8] = struct.pack(">Q", self.random.choice(LONGS))
        return data

    def bits(self, data):
        if data:
            data[self.random.randrange(len(data))] ^= 1 << self.random.randrange(8)
        return data

    def bytes_anywhere(self, data):
        at = self.random.randrange(len(data) + 1)
        data[at:at + self.random.randrange(40)] = self.random.randbytes(self.random.randrange(40))
        return data

    def truncate(self, data):
        return data[:self.random.randrange(len(data) + 1)]

    def extend(self, data):
        return data + self.random.randbytes(self.random.choice([1, 3, 4, 100, 5000, 70000]))

    def cut(self, data):
        at = self.position(data)
        del data[at:at + 4 * self.random.randrange(1, 9)]
        return data

    def repeat(self, data):
        at = self.position(data)
        part = data[at:at + 4 * self.random.randrange(1, 33)]
        return data[:at] + part * self.random.choice([2, 3, 50]) + data[at:]

    def swap(self, data):
        first, second = sorted((self.position(data), self.position(data)))
        return data[:first] + data[second:second + 16] + data[first + 16:second] + data[first:first + 16] + data[second + 16:]

    def header(self, data):
        """The RPC header itself: message type, RPC version, program, version, procedure, credential."""
        at = 4 * self.random.randrange(0, 10)
        if at + 4 <= len(data):
            data[at:at + 4] = struct.pack(">I", self.random.choice(WORDS))
        return data

    def marked(self, message):
        """The message as records on the wire, the marking sometimes damaged (RFC 5531 §11)."""
        kind = self.random.random()
        if kind < 0.8:
            return rpc.record(message)
        if kind < 0.9:
            return rpc.record(message, self.random.choice([1, 3, 4, 5, 24, 100, 1000]))
        length = len(message)
        mark = self.random.choice([0, rpc.LAST_FRAGMENT, length, rpc.LAST_FRAGMENT | length + 4, rpc.LAST_FRAGMENT | max(length - 4, 0),
                                   0x7FFFFFFF, 0xFFFFFFFF, rpc.LAST_FRAGMENT | 0x4000000, 0x100000])
        return struct.pack(">I", mark & 0xFFFFFFFF) + message
