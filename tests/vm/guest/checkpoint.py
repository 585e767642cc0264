"""The checkpoint pattern: many writers, each a shard: write, fsync, rename; then one marker file. Restored by as many readers."""
import multiprocessing
import os

from guest import trees

MARKER = "complete"


def _parallel(function, items):
    """Runs function(item) in one process for each item; {item: result}. Any exception is raised here."""
    context = multiprocessing.get_context("fork")
    with context.Pool(len(items)) as pool:
        return dict(zip(items, pool.map(function, items, chunksize=1)))


class Checkpoint:
    def __init__(self, folder, writers=8, shard_bytes=64 << 20, step=1):
        self.folder = folder
        self.writers = writers
        self.shard_bytes = shard_bytes
        self.step = step

    def shard(self, number):
        return os.path.join(self.folder, f"step{self.step}", f"shard{number:02d}")

    def size(self, number):
        return self.shard_bytes + number * 1021      # no two alike, none on a boundary but the first

    def seed(self, number):
        return f"step{self.step}/shard{number}"

    def _write(self, number):
        temporary = self.shard(number) + ".tmp"
        digest = trees.write_file(temporary, self.seed(number), self.size(number), sync=True)
        os.rename(temporary, self.shard(number))
        return digest

    def save(self):
        """Writes all shards and then the marker; {shard number: hash}."""
        os.makedirs(os.path.dirname(self.shard(0)), exist_ok=True)
        hashes = _parallel(self._write, list(range(self.writers)))
        path = os.path.join(self.folder, f"step{self.step}", MARKER)
        descriptor = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.write(descriptor, "".join(f"{n} {h}\n" for n, h in hashes.items()).encode())
        os.fsync(descriptor)
        os.close(descriptor)
        os.rename(path + ".tmp", path)
        return hashes

    def _hash(self, number):
        return trees.hash_file(self.shard(number))

    def restore(self, folder=None):
        """Reads the marker and every shard, as seen under `folder`, and compares all bytes with what was saved."""
        seen = Checkpoint(folder or self.folder, self.writers, self.shard_bytes, self.step)
        with open(os.path.join(seen.folder, f"step{seen.step}", MARKER), encoding="utf-8") as marker:
            promised = {int(number): digest for number, digest in (line.split() for line in marker)}
        found = _parallel(seen._hash, list(range(seen.writers)))
        wrong = [number for number in found if found[number] != promised.get(number)]
        sizes = [number for number in found if os.path.getsize(seen.shard(number)) != seen.size(number)]
        left = [name for name in os.listdir(os.path.join(seen.folder, f"step{seen.step}")) if name.endswith(".tmp")]
        if wrong or sizes or left or len(promised) != self.writers:
            raise AssertionError(f"checkpoint {seen.folder}: shards with wrong bytes {wrong}, wrong sizes {sizes}, "
                                 f"temporary files {left}, {len(promised)} promised")
