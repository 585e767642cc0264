"""Locks that reach the end of the file, as an owner narrows, widens and changes them, and as other clients see them."""
import fcntl
import os
import shutil
import subprocess

import case
import gateway as gw
import nfs4_ops as ops
from nfs3 import NfsError

READ_LOCK, WRITE_LOCK = 1, 2                        # nfs_lock_type4
TO_THE_END = 2**64 - 1


class Locks(case.GatewayCase):
    def setUp(self):
        self.one, self.two = self.v41(), self.v41()

    def opened(self, name):
        return [client.open(client.handle(), name, how=ops.UNCHECKED) for client in (self.one, self.two)]

    def lock(self, client, opened, kind, offset, length):
        return client.run(ops.putfh(opened.handle),
                          ops.lock_new(kind, offset, length, opened.stateid, "locker", client.clientid))[-1]

    def conflict(self, kind, offset, length, opened):
        """What stands in the way of the second client's lock: (kind, offset, length) or None."""
        status, results = self.two.compound([ops.sequence(self.two.session, self.next_sequence(), 0, 0),
                                             ops.putfh(opened.handle),
                                             ops.lockt(kind, offset, length, "tester", self.two.clientid)])
        if status == 0:
            return None
        denied = results[-1][2]
        self.assertIsNotNone(denied, status)
        return denied.kind, denied.offset, denied.length

    def next_sequence(self):
        self.two.sequences[0] = self.two.sequences.get(0, 0) + 1
        return self.two.sequences[0]

    def test_a_shared_lock_of_all_replaces_an_exclusive_one_of_a_part(self):
        mine, theirs = self.opened("narrowed")
        state = self.lock(self.one, mine, WRITE_LOCK, 10, 20)
        state = self.one.run(ops.putfh(mine.handle), ops.locku(WRITE_LOCK, 15, 10, state))[-1]
        state = self.one.run(ops.putfh(mine.handle), ops.lock_more(READ_LOCK, 0, TO_THE_END, state))[-1]
        self.assertIsNone(self.conflict(READ_LOCK, 0, TO_THE_END, theirs))
        self.lock(self.two, theirs, READ_LOCK, 0, TO_THE_END)
        self.assertRaises(NfsError, self.lock, self.one, mine, WRITE_LOCK, 10, 5)

    def test_an_exclusive_lock_splits_a_shared_one_to_the_end(self):
        mine, theirs = self.opened("split")
        state = self.lock(self.one, mine, READ_LOCK, 50, TO_THE_END)
        state = self.one.run(ops.putfh(mine.handle), ops.lock_more(WRITE_LOCK, 60, 10, state))[-1]
        self.assertIsNone(self.conflict(READ_LOCK, 50, 10, theirs))
        self.assertEqual(self.conflict(READ_LOCK, 0, TO_THE_END, theirs), (WRITE_LOCK, 60, 10))
        self.assertEqual(self.conflict(WRITE_LOCK, 0, 60, theirs), (READ_LOCK, 50, 10))
        self.assertEqual(self.conflict(WRITE_LOCK, 70, 1, theirs), (READ_LOCK, 70, TO_THE_END))
        self.one.run(ops.putfh(mine.handle), ops.locku(WRITE_LOCK, 60, TO_THE_END, state))
        self.assertIsNone(self.conflict(WRITE_LOCK, 60, TO_THE_END, theirs))
        self.assertEqual(self.conflict(WRITE_LOCK, 59, 1, theirs), (READ_LOCK, 50, 10))

    def test_a_lock_behind_any_file_s_end(self):
        mine, theirs = self.opened("far")
        far = 2**62
        self.lock(self.one, mine, WRITE_LOCK, far, 10)
        self.assertIsNone(self.conflict(WRITE_LOCK, far + 10, 10, theirs))
        self.assertEqual(self.conflict(READ_LOCK, far + 9, 1, theirs), (WRITE_LOCK, far, 10))
        with open(self.backing / "far", "r+b") as file:
            self.assertRaises(BlockingIOError, fcntl.lockf, file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, far)
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, far + 10)

    def test_a_lock_that_ends_behind_any_file_s_end(self):
        """It keeps the end that it was given, and does not reach to the end of all offsets."""
        mine, theirs = self.opened("beyond")
        end = 2**61
        self.lock(self.one, mine, WRITE_LOCK, 0, end)
        self.assertIsNone(self.conflict(WRITE_LOCK, end, 10, theirs))
        self.assertEqual(self.conflict(READ_LOCK, end - 1, 1, theirs), (WRITE_LOCK, 0, end))


class ReadOnly(case.GatewayCase):
    """The backing file system is mounted read-only, as a dataset may be."""

    @classmethod
    def make_backing(cls):
        cls.source = gw.backing_dir()
        cls.addClassCleanup(shutil.rmtree, cls.source, True)
        with open(os.path.join(cls.source, "dataset"), "wb") as file:
            file.write(b"data")
        path = gw.backing_dir()
        for arguments in (["--bind", cls.source, path], ["-o", "remount,ro,bind", path]):
            if subprocess.run(["mount", *arguments], stderr=subprocess.DEVNULL, check=False).returncode != 0:
                raise gw.NoHandles("nothing can be mounted here")
        cls.addClassCleanup(shutil.rmtree, path, True)      # cleanups run from the last to the first
        cls.addClassCleanup(subprocess.run, ["umount", "-l", path], check=False)
        return path

    def test_locks_for_reading(self):
        one, two = self.v41(), self.v40()
        opened = [client.open(client.handle(), "dataset", share=ops.READ_ACCESS) for client in (one, two)]
        for client, file in zip((one, two), opened):
            client.run(ops.putfh(file.handle), ops.lock_new(READ_LOCK, 0, TO_THE_END, file.stateid, "reader", client.clientid,
                                                            *((file.owner[1], 0) if client is two else ())))
        path = os.path.join(self.source, "dataset")
        with open(path, "r+b") as file:
            self.assertRaises(BlockingIOError, fcntl.lockf, file, fcntl.LOCK_EX | fcntl.LOCK_NB, 0, 0)


if __name__ == "__main__":
    case.main()
