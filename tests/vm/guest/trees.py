"""Trees of files whose bytes follow from a seed, so that any reader can tell every byte without a second copy."""
import hashlib
import os
import random

BLOCK = 1 << 20


NOISE = hashlib.shake_128(b"noise").digest(3 * BLOCK)


def content_blocks(seed, size):
    """Pieces that make `size` bytes, which depend on the seed and on every position and are never zeros for long.

    Cheap, since the guest is emulated: each MiB is a piece of one fixed noise, cut at a place that the seed and the
    block's number choose, behind 16 bytes of their digest.
    """
    noise = memoryview(NOISE)
    for block in range((size + BLOCK - 1) // BLOCK):
        length = min(BLOCK, size - block * BLOCK)
        mark = hashlib.blake2b(f"{seed}/{block}".encode(), digest_size=16).digest()
        start = int.from_bytes(mark[:4], "little") % (2 * BLOCK)
        yield [mark[:length], noise[start:start + max(0, length - 16)]]


def content(seed, size):
    return b"".join(piece for block in content_blocks(seed, size) for piece in block)


def write_file(path, seed, size, sync=False):
    """Writes the content; its hash."""
    digest = new_digest()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        for pieces in content_blocks(seed, size):
            for piece in pieces:
                digest.update(piece)
            wanted = sum(map(len, pieces))
            written = os.writev(descriptor, pieces)
            if written != wanted:
                raise OSError(f"{path}: short write, {written} of {wanted}")
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return digest.hexdigest()


def new_digest():
    return hashlib.md5(usedforsecurity=False)       # five times faster than the others under emulation


def hash_file(path, block=BLOCK):
    digest = new_digest()
    with open(path, "rb", buffering=0) as file:
        while data := file.read(block):
            digest.update(data)
    return digest.hexdigest()


def dataset_sizes(total, small_count, seed=1):
    """Sizes of a dataset: `small_count` files of 0 bytes to 48 KiB, the rest in files of up to 64 MiB."""
    chance = random.Random(seed)
    edges = [0, 1, 2, 3, 4, 5, 7, 9, 1023, 1024, 1025, 4095, 4096, 4097, 8192, 65535, 65536, 65537]
    sizes = {}
    for number in range(small_count):
        size = edges[number] if number < len(edges) else chance.randrange(1, 48 << 10)
        sizes[f"small/{number % 16:02d}/s{number:05d}"] = size
    left = total - sum(sizes.values())
    number = 0
    while left > 0:
        size = min(left, (64 << 20) - number * 4099)  # sizes that end on no boundary
        sizes[f"large/l{number:02d}"] = size
        left -= size
        number += 1
    return sizes


def write_dataset(root, sizes):
    """Writes the tree; {relative path: hash}."""
    hashes = {}
    for path, size in sizes.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        hashes[path] = write_file(full, path, size)
    return hashes


def compare_tree(root, hashes):
    """Checks names and bytes of the whole tree; raises with the first differences."""
    wrong = []
    found = set()
    for folder, _, files in os.walk(root):
        for name in files:
            path = os.path.relpath(os.path.join(folder, name), root)
            found.add(path)
            if path not in hashes:
                wrong.append(f"{path}: not in the dataset")
            elif hash_file(os.path.join(folder, name)) != hashes[path]:
                wrong.append(f"{path}: bytes differ (size {os.path.getsize(os.path.join(folder, name))})")
    wrong += [f"{path}: missing" for path in hashes if path not in found]
    if wrong:
        raise AssertionError(f"{len(wrong)} of {len(hashes)} files wrong: " + "; ".join(wrong[:5]))
