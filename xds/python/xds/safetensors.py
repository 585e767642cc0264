"""Loads safetensors files (https://huggingface.co/docs/safetensors) over XDS, and checks every tensor's bytes.

    import xds, xds.safetensors
    context = xds.Context("storage-1:20053", verify=True)
    tensors = xds.safetensors.load(context, "model.safetensors")

The storage node sends a CRC32C of what it read from its disk; it is compared with what lies in the tensor's memory. The
file itself has no checksums: that the node's disk holds what was once saved, nobody can tell from the file.
"""
import json
import math
import struct

from ._xds import Tensor, itemsize

MAX_HEADER = 100 * 1000 * 1000      # bytes: the format's own limit
MAX_DIMENSIONS = 64


class SafetensorsError(ValueError):
    """The file is not a proper safetensors file; the text names the file, the tensor and what is wrong."""


class Entry:
    """A tensor of the header: where its bytes lie, counted from the file's start."""

    def __init__(self, name, dtype, shape, begin, end):
        self.name, self.dtype, self.shape, self.begin, self.end = name, dtype, shape, begin, end

    @property
    def nbytes(self):
        return self.end - self.begin


class Header:
    """All tensors of a file, in the order of their bytes, and the file's own metadata."""

    def __init__(self, entries, metadata):
        self.entries, self.metadata = entries, metadata


def _once(pairs):
    result = {}
    for name, value in pairs:
        if name in result:
            raise ValueError(f"the name {name!r} occurs twice")
        result[name] = value
    return result


def _no_constant(name):
    raise ValueError(f"{name} is not JSON")


def _natural(value):
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _entry(name, value, data_begin, data_size):
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise ValueError("has not exactly dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    size = itemsize(dtype) if isinstance(dtype, str) else None
    if size is None:
        raise ValueError(f"unknown dtype {dtype!r}")
    if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS or not all(map(_natural, shape)):
        raise ValueError("shape is not a list of natural numbers")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_natural, offsets)):
        raise ValueError("data_offsets are not two natural numbers")
    begin, end = offsets
    if begin > end or end > data_size:
        raise ValueError(f"data_offsets {begin} to {end} are not within the file's {data_size} bytes of data")
    if math.prod(shape) * size != end - begin:
        raise ValueError(f"data_offsets span {end - begin} bytes, dtype and shape {math.prod(shape) * size}")
    return Entry(name, dtype, tuple(shape), data_begin + begin, data_begin + end)


def parse_header(length, text, file_size):
    """The header whose bytes are `text`, of a file of `file_size` bytes. ValueError names what is wrong."""
    try:
        values = json.loads(text.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("the header is nested too deeply") from None
    except ValueError as error:         # of UTF-8 and of JSON alike
        raise ValueError(f"the header is not JSON: {error}") from None
    if not isinstance(values, dict):
        raise ValueError("the header is not a JSON object")
    metadata = values.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("__metadata__ is not an object of texts")
    data_begin = 8 + length
    entries = []
    for name, value in values.items():
        try:
            entries.append(_entry(name, value, data_begin, file_size - data_begin))
        except ValueError as error:
            raise ValueError(f"tensor {name!r}: {error}") from None
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    at = data_begin
    for entry in entries:
        if entry.begin != at:
            what = "overlaps the one before it" if entry.begin < at else "leaves a hole before it"
            raise ValueError(f"tensor {entry.name!r}: its data {what}")
        at = entry.end
    if at != file_size:
        raise ValueError(f"{file_size - at} bytes behind the last tensor")
    return Header(entries, metadata)


def read_header(file, name="file"):
    """The header of an open file; SafetensorsError says what is wrong with it."""
    size = file.size
    try:
        if size < 8:
            raise ValueError(f"{size} bytes are too few")
        length, = struct.unpack("<Q", file.read(8))
        if length > MAX_HEADER:
            raise ValueError(f"a header of {length} bytes: {MAX_HEADER} is the most")
        if length > size - 8:
            raise ValueError(f"a header of {length} bytes in a file of {size}")
        text = file.read(length, 8)
        if len(text) != length:
            raise ValueError("the file became shorter while it was read")
        return parse_header(length, text, size)
    except ValueError as error:
        raise SafetensorsError(f"{name}: {error}") from None


def load(context, path, allocate=None, names=None):
    """A dict of the file's tensors by name, all of them or those of `names`.

    `allocate(dtype, shape, nbytes)` gives the memory for a tensor, and what the dict holds for it: for example a tensor
    on an accelerator. dtype is safetensors' name of it. Without it: xds.Tensor, in host memory.
    The context must verify (ValueError): otherwise nobody would have checked the bytes.
    """
    if not context.verify:
        raise ValueError("xds.safetensors.load: open the context with verify=True, so that the bytes are checked")
    allocate = allocate or (lambda dtype, shape, nbytes: Tensor(dtype, shape))
    with context.open(path) as file:
        entries = read_header(file, path).entries
        if names is not None:
            missing = set(names) - {entry.name for entry in entries}
            if missing:
                raise KeyError(f"{path} has no tensors {sorted(missing)}")
            entries = [entry for entry in entries if entry.name in set(names)]
        tensors = {entry.name: allocate(entry.dtype, entry.shape, entry.nbytes) for entry in entries}
        filled = [entry for entry in entries if entry.nbytes > 0]
        got = file.read_batch([(tensors[entry.name], entry.begin) for entry in filled])
        for entry, count in zip(filled, got):
            if count != entry.nbytes:
                raise SafetensorsError(
                    f"{path}: tensor {entry.name!r}: {count} bytes were read, and it has {entry.nbytes}: the memory has "
                    "another size, or the file became shorter")
    return tensors
