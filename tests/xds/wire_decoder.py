#!/usr/bin/env python3
"""A second reading of WIRE.md: decodes the committed vectors without any of the C++ and compares every field.

usage: wire_decoder.py VECTORS [RDMA_VECTORS]   check the vectors, exit status 1 at the first difference
       wire_decoder.py --hex HEX                print the fields of one message
"""
import struct
import sys

FILE_ID = [("file_system", "16"), ("handle_type", "i32"), ("file_handle", "t16")]
ATTRIBUTES = [("size", "u64"), ("inode", "u64"), ("mtime_ns", "i64"), ("ctime_ns", "i64"),
              ("mode", "u32"), ("uid", "u32"), ("gid", "u32"), ("links", "u32")]
SEGMENT = [("address", "u64"), ("rkey", "u32"), ("length", "u32")]
MEMBER = [("text_at", "u32"), ("node_length", "u16"), ("address_length", "u16"), ("weight", "u32"),
          ("reserved", "u32")]
ENTRY = [("name_at", "u32"), ("name_length", "u16"), ("reserved", "u16"), ("length", "u32"),
         ("reserved2", "u32"), ("placement", "u64")]
RESULT = [("error", "u32"), ("length", "u32"), ("size", "u64"), ("data_crc", "u32"), ("cause", "u16"),
          ("reserved", "u16")]

MESSAGES = {
    1: ("hello", [("version_min", "u16"), ("version_max", "u16"), ("features", "u32"), ("max_data", "u32"),
                  ("cluster", "16"), ("nonce", "16"), ("time_ns", "u64"), ("ticket", "t16"), ("proof", "32")]),
    2: ("hello_reply", [("version", "u16"), ("reserved", "u16"), ("features", "u32"), ("max_data", "u32"),
                        ("instance", "u64"), ("map_epoch", "u64"), ("nonce", "16"), ("proof", "32"),
                        ("node", "t16")]),
    3: ("open", [("flags", "u32"), ("mode", "u32"), ("path", "t16")] + FILE_ID + [("capability", "t16")]),
    4: ("open_reply", [("handle", "u32"), ("reserved", "u32")] + ATTRIBUTES + FILE_ID + [("capability", "t16")]),
    5: ("close", [("handle", "u32")]),
    6: ("close_reply", []),
    7: ("layout", [("handle", "u32"), ("map_epoch", "u64")]),
    8: ("layout_reply", [("map_epoch", "u64"), ("chunk_size", "u64"), ("members", MEMBER), ("texts", "t32")]),
    9: ("read", [("handle", "u32"), ("flags", "u32"), ("offset", "u64"), ("length", "u64"), ("map_epoch", "u64"),
                 ("deadline_ms", "u32"), ("segments", SEGMENT)]),
    10: ("read_reply", [("flags", "u32"), ("data_crc", "u32"), ("length", "u64"), ("copied", "u64")]),
    11: ("write", [("handle", "u32"), ("flags", "u32"), ("offset", "u64"), ("length", "u64"), ("map_epoch", "u64"),
                   ("deadline_ms", "u32"), ("data_crc", "u32"), ("segments", SEGMENT)]),
    12: ("write_reply", [("flags", "u32"), ("reserved", "u32"), ("length", "u64"), ("instance", "u64")]),
    13: ("flush", [("handle", "u32"), ("flags", "u32")]),
    14: ("flush_reply", [("instance", "u64")]),
    15: ("stat", [("handle", "u32"), ("path", "t16")]),
    16: ("stat_reply", ATTRIBUTES + FILE_ID),
    17: ("read_many", [("flags", "u32"), ("deadline_ms", "u32"), ("entries", ENTRY), ("names", "t32"),
                       ("segments", SEGMENT)]),
    18: ("read_many_reply", [("flags", "u32"), ("results", RESULT)]),
    19: ("cancel", [("victim", "u64")]),
    20: ("layout_recall", [("map_epoch", "u64")]),
    21: ("recall_done", [("map_epoch", "u64")]),
    22: ("credit", []),
    23: ("goodbye", [("cause", "u16"), ("text", "t16")]),
    24: ("error", [("error", "u32"), ("cause", "u16"), ("reserved", "u16"), ("retry_after_ms", "u32"),
                   ("map_epoch", "u64"), ("node", "t16"), ("text", "t16")]),
}
HANDSHAKE = [("magic", "u32"), ("version", "u8"), ("queues", "u8"), ("flags", "u16"), ("receive_size", "u32"),
             ("first_psn", "u32")] + [(f"number[{i}]", "u32") for i in range(1, 8)]
INTEGERS = {"u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q", "i32": "<i", "i64": "<q"}


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, length):
        if self.at + length > len(self.data):
            raise ValueError("message ends too early")
        self.at += length
        return self.data[self.at - length:self.at]

    def number(self, kind):
        return struct.unpack(INTEGERS[kind], self.take(struct.calcsize(INTEGERS[kind])))[0]


def decode_fields(cursor, description, prefix=""):
    lines = []
    for name, kind in description:
        if isinstance(kind, list):
            count = cursor.number("u16")
            lines.append(f"{prefix}{name}={count}")
            for index in range(count):
                lines += decode_fields(cursor, kind, f"{prefix}{name}[{index}].")
        elif kind in INTEGERS:
            lines.append(f"{prefix}{name}={cursor.number(kind)}")
        elif kind[0] == "t":
            lines.append(f"{prefix}{name}={cursor.take(cursor.number('u' + kind[1:])).hex()}")
        else:
            lines.append(f"{prefix}{name}={cursor.take(int(kind)).hex()}")
    return lines


def decode(message):
    """The message's name, header fields and body lines; ValueError when it breaks a rule of WIRE.md."""
    magic, kind, flags, credits, body_length, data_length, request, reserved, checksum = \
        struct.unpack("<4sBBHIIQII", message[:32])
    body = message[32:]
    if magic != b"XDS1" or kind not in MESSAGES:
        raise ValueError("not an XDS message")
    if body_length != len(body) or flags or reserved:
        raise ValueError("wrong header")
    if checksum != crc32c(message[:28] + body):
        raise ValueError("wrong checksum")
    name, description = MESSAGES[kind]
    cursor = Cursor(body)
    lines = decode_fields(cursor, description)
    if cursor.at != len(body):
        raise ValueError("bytes left over")
    header = [f"header.request={request}", f"header.credits={credits}", f"header.data_length={data_length}"]
    return name, header, lines


def check(path):
    seen = set()
    with open(path, encoding="ascii") as file:
        blocks = file.read().strip("\n").split("\n\n")
    for block in blocks:
        lines = block.split("\n")
        title = lines[0].split(" ", 1)[1]
        position = next(i for i, line in enumerate(lines) if line.startswith("bytes "))
        name, header, fields = decode(bytes.fromhex(lines[position].split(" ", 1)[1]))
        if header != lines[1:position] or fields != lines[position + 1:]:
            sys.exit(f"{path}: vector {title}: the fields differ\n" + "\n".join(header + fields))
        seen.add(name)
    missing = {name for name, _ in MESSAGES.values()} - seen
    if missing:
        sys.exit(f"{path}: no vector for {', '.join(sorted(missing))}")
    print(f"{len(blocks)} vectors agree")


def check_handshakes(path):
    """Section 5: what goes with the connection manager's request and acceptance."""
    with open(path, encoding="ascii") as file:
        blocks = file.read().strip("\n").split("\n\n")
    for block in blocks:
        title, data, *fields = block.split("\n")
        message = bytes.fromhex(data.split(" ", 1)[1])
        cursor = Cursor(message)
        lines = decode_fields(cursor, HANDSHAKE)
        if lines != fields or cursor.at != len(message) or message[:4] != b"XDSR":
            sys.exit(f"{path}: {title}: the fields differ\n" + "\n".join(lines))
    print(f"{len(blocks)} handshakes agree")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--hex":
        message_name, head, body_lines = decode(bytes.fromhex(sys.argv[2]))
        print("\n".join([message_name] + head + body_lines))
    elif len(sys.argv) in (2, 3) and sys.argv[1] not in ("--help", "-h"):
        check(sys.argv[1])
        for rdma_vectors in sys.argv[2:]:
            check_handshakes(rdma_vectors)
    else:
        print(__doc__)
