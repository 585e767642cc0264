"""A tree of files copied in and out by libnfs over v3 and v4.0, and by our own client over every version: the same hashes."""
import hashlib
import os
import pathlib
import random
import shutil
import subprocess

import case
import gateway as gw
import nfs4_ops as ops

SIZES = [0, 1, 2, 3, 4, 5, 7, 8, 9, 511, 512, 513, 4095, 4096, 4097, 65535, 65537, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5000000]


def program():
    for path in (os.environ.get("FABRIC_NFS_TREE"), os.path.join(os.environ.get("FABRIC_BUILD_DIR", ""), "tests/host/nfs_tree"),
                 gw.ROOT / "build/tests/host/nfs_tree"):
        if path and os.path.exists(path):
            return str(path)
    raise AssertionError("nfs_tree is not built: cmake --build build --target nfs_tree, or name it by FABRIC_NFS_TREE")


def make_tree(folder, seed=1):
    choice = random.Random(seed)
    for depth in ("", "a", "a/b", "a/b/c", "with blank", "ünï"):
        (folder / depth).mkdir(parents=True, exist_ok=True)
        for number, size in enumerate(SIZES):
            (folder / depth / f"file {number}-{size}").write_bytes(choice.randbytes(size))
    for number in range(300):
        (folder / "a" / f"small-{number}").write_bytes(choice.randbytes(choice.randrange(3000)))
    (folder / "link").symlink_to("a/b/c")
    (folder / "dangling").symlink_to("x" * 200)


def digest(folder):
    """{relative path: kind and hash} of a tree."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in folders + files:
            path = pathlib.Path(root, name)
            key = str(path.relative_to(folder))
            if path.is_symlink():
                found[key] = ("link", os.readlink(path))
            elif path.is_dir():
                found[key] = ("dir", "")
            else:
                found[key] = ("file", hashlib.sha256(path.read_bytes()).hexdigest())
    return found


class Trees(case.GatewayCase):
    @classmethod
    def prepare(cls):
        cls.local = pathlib.Path(gw.backing_dir())
        cls.addClassCleanup(shutil.rmtree, cls.local, True)
        (cls.local / "source").mkdir()
        make_tree(cls.local / "source")
        cls.expected = digest(cls.local / "source")

    def libnfs(self, version, *arguments):
        url = f"nfs://127.0.0.1/export?version={version}&nfsport={self.gateway.nfs_port}&mountport={self.gateway.mount_port}"
        done = subprocess.run([program(), arguments[0], url, *map(str, arguments[1:])], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_libnfs_in_and_out_and_v4_reads_it(self):
        """libnfs by v3 alone: release 4.0 cannot encode NFSv4 WRITEs of more than some hundred bytes."""
        self.libnfs(3, "in", self.local / "source", "tree")
        self.assertEqual(digest(self.backing / "tree"), self.expected)
        self.gateway.restart()                      # nothing is read from what the server still remembers
        self.libnfs(3, "out", "tree", self.local / "out")
        self.assertEqual(digest(self.local / "out"), self.expected)
        for client in (self.v40(), self.v41(2)):
            self.gateway.restart()
            client = type(client)(self.gateway)
            self.addCleanup(client.connection.close)
            self.assertEqual(self.digest4(client, client.handle("tree")), self.expected)

    def digest4(self, client, folder, prefix=""):
        found = {}
        for entry in client.list(folder, (ops.RDATTR_ERROR, ops.TYPE, ops.FILEHANDLE)):
            key, handle = prefix + entry.name.decode(), entry.attributes[ops.FILEHANDLE]
            kind = entry.attributes[ops.TYPE]
            if kind == ops.DIR:
                found[key] = ("dir", "")
                found.update(self.digest4(client, handle, key + "/"))
            elif kind == ops.LNK:
                found[key] = ("link", client.run(ops.putfh(handle), ops.readlink())[-1].decode())
            else:
                found[key] = ("file", hashlib.sha256(client.read_all(handle)).hexdigest())
        return found

    def test_what_one_version_wrote_the_others_read(self):
        content = random.Random(3).randbytes(3 << 20)
        for writer_name, writer in self.clients():
            root = writer.root if hasattr(writer, "root") else writer.handle()
            writer.put(root, f"by-{writer_name}", content)
            for reader_name, reader in self.clients():
                if hasattr(reader, "root"):
                    handle = reader.lookup(reader.root, f"by-{writer_name}").handle
                else:
                    handle = reader.handle(f"by-{writer_name}")
                self.assertEqual(reader.read_all(handle), content, (writer_name, reader_name))

    def test_a_write_through_one_connection_is_read_through_another_at_once(self):
        first, second = self.v3(), self.v41()
        file = first.create(first.root, "shared").handle
        handle = second.handle("shared")
        for turn in range(200):
            block = turn.to_bytes(4, "big") * 2048
            first.write(file, turn % 7 * 8192, block)
            part = second.run(ops.putfh(handle), ops.read(ops.ANONYMOUS, turn % 7 * 8192, 8192))[-1]
            self.assertEqual(part.data, block)


if __name__ == "__main__":
    case.main()
