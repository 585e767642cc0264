"""The data path's limits and promises: descriptors that run out, a flood of reads, lost writes, locks against
other processes, the modes that a write takes away, and the counters."""
import fcntl
import os
import resource
import socket
import struct
import time

import case
import gateway as gw
import nfs3
import nfs4_ops as ops
import rpc

READ_LOCK, WRITE_LOCK = 1, 2                        # nfs_lock_type4


def retried(test, function, *arguments):
    """A client's answer to JUKEBOX and DELAY: again, a bounded number of times."""
    for _ in range(200):
        try:
            return function(*arguments)
        except nfs3.NfsError as error:
            if error.name not in ("JUKEBOX", "DELAY"):
                raise
    test.fail("still JUKEBOX after 200 tries")


class Descriptors(case.GatewayCase):
    """A limit far below the number of files in use."""
    LIMIT = 256
    options = {"limits": {resource.RLIMIT_NOFILE: (LIMIT, LIMIT)}}
    FILES = 1000

    @classmethod
    def prepare(cls):
        for number in range(cls.FILES):
            (cls.backing / f"f{number}").write_bytes(b"%06d" % number * 100)

    def test_more_files_than_descriptors(self):
        client = self.v3()
        handles = [client.walk(f"f{number}") for number in range(self.FILES)]
        for _ in range(2):
            for number, handle in enumerate(handles):
                part = retried(self, client.read, handle, 0, 6)
                self.assertEqual(part.data, b"%06d" % number)
        self.assertLess(self.gateway.fds(), self.LIMIT)

    def test_uncommitted_writes_to_more_files_than_descriptors(self):
        client = self.v3()
        handles = [client.walk(f"f{number}") for number in range(self.FILES)]
        for number, handle in enumerate(handles):
            retried(self, client.write, handle, 0, b"%06d" % (number + 1))
        for handle in handles:
            retried(self, client.commit, handle)
        self.gateway.drain()
        for number, handle in enumerate(handles):
            self.assertEqual((self.backing / f"f{number}").read_bytes()[:6], b"%06d" % (number + 1))
            retried(self, client.write, handle, 0, b"%06d" % number, nfs3.FILE_SYNC)

    def test_the_server_settles_uncommitted_files_when_they_are_many(self):
        """At a sixteenth of the descriptors. An error then reaches the client by the write verifier."""
        self.only_fabric("keeps no account")
        self.not_written_back("keeps no descriptors of what is not committed")
        self.gateway.restart_with_faults("backing.fsync=EIO*1")
        client = self.v3()
        handles = [client.walk(f"f{number}") for number in range(self.LIMIT // 16 + 2)]
        before = client.write(handles[0], 0, b"x").verifier
        for handle in handles[1:]:
            client.write(handle, 0, b"x")
        deadline = time.monotonic() + 60
        while client.write(handles[0], 0, b"y").verifier == before:
            self.assertLess(time.monotonic(), deadline, "the verifier stays as it is though the sync failed")
        self.assertEqual(self.gateway.metrics()["fabric_uncommitted_rounds_total"], 1)
        self.gateway.restart_with_faults("")

    def test_more_opens_than_descriptors(self):
        """Opens hold their descriptors: the one too many is refused for the moment, and works after a close."""
        client = self.v41()
        root = client.handle()
        opened = []
        with self.assertRaises(nfs3.NfsError) as refused:
            for number in range(self.FILES):
                opened.append(client.open(root, f"f{number}", share=ops.READ_ACCESS))
        self.assertIn(refused.exception.name, ("DELAY", "RESOURCE"))
        self.assertGreater(len(opened), 20)
        for one in opened:
            client.close(one)
        again = retried(self, lambda: client.open(root, "f999", share=ops.READ_ACCESS))
        self.assertEqual(client.run(ops.putfh(again.handle), ops.read(again.stateid, 0, 6))[-1].data, b"000999")
        client.close(again)

    def test_emfile_once_is_not_seen_by_the_client(self):
        self.only_fabric("has no fault points")
        self.gateway.restart_with_faults("backing.open=EMFILE*1")
        client = self.v3()
        part = retried(self, client.read, client.walk("f7"), 0, 6)
        self.assertEqual(part.data, b"000007")
        self.gateway.restart_with_faults("")


class Flood(case.GatewayCase):
    """256 READs of 1 MiB at once through a small budget: each answered, right, and memory bounded."""
    options = {"blocks": {"FABRIC": {"IO_Bytes_In_Flight": 4 << 20, "IO_Export_Bytes_In_Flight": 2 << 20,
                                     "Read_Buffer_Memory": 16 << 20}}}
    COUNT, SIZE = 256, 1 << 20

    @classmethod
    def prepare(cls):
        cls.content = os.urandom(16 << 20)
        (cls.backing / "big").write_bytes(cls.content)

    def setUp(self):
        self.only_fabric("has no bound")

    def test_a_flood_of_reads_is_answered_within_bounds(self):
        # A fault that cuts every transfer sends all reads to the lanes, as a cold file would.
        self.gateway.restart_with_faults("backing.read=short:300000")
        client = self.v3()
        file = client.walk("big")
        connection = client.connection
        before = self.gateway.rss()
        xids = {}
        for number in range(self.COUNT):
            offset = number * self.SIZE % len(self.content)
            arguments = nfs3.args_read(file, offset, self.SIZE)
            xids[connection.send_call(gw.NFS_PROGRAM, 3, nfs3.READ, arguments)] = offset
        for xid, offset in xids.items():
            reply = connection.wait(xid)
            self.assertEqual(reply.u32(), 0)
            part = nfs3.read_result(reply)
            self.assertEqual(part.data, self.content[offset:offset + self.SIZE], offset)
        self.assertLess(self.gateway.rss() - before, 128 << 20)
        self.gateway.restart_with_faults("")

    def test_a_client_that_reads_no_replies_does_not_stop_the_others(self):
        client = self.v3()
        file = client.walk("big")
        # Less than the buffers of the sockets: what is asked for cannot be sent, and stays in the server.
        with rpc.Connection(self.gateway.nfs_port, receive_buffer=4096) as silent:
            for _ in range(8):
                silent.send_call(gw.NFS_PROGRAM, 3, nfs3.READ, nfs3.args_read(file, 0, self.SIZE), rpc.auth_sys())
            for number in range(16):
                part = client.read(file, number * self.SIZE, self.SIZE)
                self.assertEqual(part.data, self.content[number * self.SIZE:(number + 1) * self.SIZE])


class Disconnects(case.GatewayCase):
    """Clients that ask for much, take little and go: nothing of them stays."""
    SIZE = 1 << 20

    @classmethod
    def prepare(cls):
        (cls.backing / "big").write_bytes(os.urandom(4 << 20))

    def greedy(self, file):
        connection = rpc.Connection(self.gateway.nfs_port, receive_buffer=4096)
        for number in range(12):
            connection.send_call(gw.NFS_PROGRAM, 3, nfs3.READ, nfs3.args_read(file, number % 4 * self.SIZE, self.SIZE))
        connection.socket.recv(1)                   # the first reply has begun, so the next ones find the socket full
        return connection

    def test_connections_that_end_while_replies_wait(self):
        client = self.v3()
        file = client.walk("big")
        client.read(file, 0, 1)
        before = self.gateway.fds()
        for turn in range(60):
            connection = self.greedy(file)
            if turn % 3 == 0:
                connection.reset()
            elif turn % 3 == 1:
                connection.close()
            else:
                connection.socket.shutdown(socket.SHUT_WR)
                connection.close()
        for _ in range(600):
            now = self.gateway.fds()                # looked at once: the server opens files now and then for a moment
            if now <= before:
                break
            time.sleep(0.1)
        self.assertLessEqual(now, before, "descriptors of connections that are gone")
        self.assertEqual(client.read(file, 0, 10).data, (self.backing / "big").read_bytes()[:10])
        self.gateway.stop(timeout=30)
        self.gateway.start()


class Verifier(case.GatewayCase):
    def setUp(self):
        self.only_fabric("has no fault points")

    def write(self, client, opened, data=b"x" * 5000, stable=0):
        return client.run(ops.putfh(opened.handle), ops.write(opened.stateid, 0, data, stable))[-1]

    def commit(self, client, opened):
        return client.run(ops.putfh(opened.handle), ops.commit())[-1]

    def test_the_same_until_a_write_is_lost_or_the_server_restarts(self):
        client = self.v41()
        root = client.handle()
        one, two = (client.open(root, name, how=ops.UNCHECKED) for name in ("one", "two"))
        first = self.write(client, one).verifier
        self.assertEqual(self.commit(client, one), first)
        self.assertEqual(self.write(client, two, stable=2).verifier, first)
        self.write(client, one)
        self.write(client, two)
        self.gateway.set_faults("backing.fsync=EIO*1")
        # The fault file is looked at every 50 ms: commit a third file until the fault strikes it.
        three = client.open(root, "three", how=ops.UNCHECKED)
        with self.assertRaises(nfs3.NfsError) as lost:
            for _ in range(100000):
                self.write(client, three)
                if self.commit(client, three) != first and self.gateway.writes_back:
                    raise nfs3.NfsError(5, "COMMIT")      # by the verifier alone
        self.assertEqual(lost.exception.name, "IO")
        # Whoever has uncommitted writes learns of it by the verifier, though the error was another file's.
        changed = self.commit(client, one)
        self.assertNotEqual(changed, first)
        self.assertEqual(self.commit(client, two), changed)
        self.gateway.set_faults("")
        self.gateway.kill9()
        self.gateway.restart()
        client = self.v41()
        again = client.open(client.handle(), "one", how=ops.UNCHECKED)
        self.assertNotIn(self.write(client, again).verifier, (first, changed))


def range_lock(path, kind, start, length, command=fcntl.F_SETLK):
    """What this process, another than the server, gets for a POSIX lock: True, or False when it is refused."""
    with open(path, "r+b") as file:
        try:
            fcntl.fcntl(file, command, struct.pack("hhqqi4x", kind, os.SEEK_SET, start, length, 0))
        except (BlockingIOError, PermissionError):
            return False
        return True


class Locks(case.GatewayCase):
    def lock(self, client, opened, kind, offset, length, owner="locker"):
        return client.run(ops.putfh(opened.handle),
                          ops.lock_new(kind, offset, length, opened.stateid, owner, client.clientid))[-1]

    def test_locks_hold_against_processes_on_the_server(self):
        client = self.v41()
        opened = client.open(client.handle(), "locked", how=ops.UNCHECKED)
        path = self.backing / "locked"
        state = self.lock(client, opened, WRITE_LOCK, 100, 100)
        self.assertFalse(range_lock(path, fcntl.F_RDLCK, 199, 1))
        self.assertTrue(range_lock(path, fcntl.F_WRLCK, 200, 100))
        self.assertTrue(range_lock(path, fcntl.F_WRLCK, 0, 100))
        # A hole in the middle splits it; the rest is still held.
        state = client.run(ops.putfh(opened.handle), ops.locku(WRITE_LOCK, 140, 20, state))[-1]
        self.assertTrue(range_lock(path, fcntl.F_WRLCK, 140, 20))
        self.assertFalse(range_lock(path, fcntl.F_WRLCK, 100, 40))
        self.assertFalse(range_lock(path, fcntl.F_WRLCK, 160, 40))
        # To a read lock and back.
        state = client.run(ops.putfh(opened.handle), ops.lock_more(READ_LOCK, 100, 40, state))[-1]
        self.assertTrue(range_lock(path, fcntl.F_RDLCK, 100, 40))
        self.assertFalse(range_lock(path, fcntl.F_WRLCK, 100, 40))
        client.run(ops.putfh(opened.handle), ops.locku(WRITE_LOCK, 0, 2**64 - 1, state))
        self.assertTrue(range_lock(path, fcntl.F_WRLCK, 0, 0))
        client.close(opened)

    def test_a_process_on_the_server_keeps_clients_out(self):
        client = self.v41()
        opened = client.open(client.handle(), "held", how=ops.UNCHECKED)
        with open(self.backing / "held", "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX, 10, 50)
            self.assert_status("DENIED", self.lock, client, opened, WRITE_LOCK, 55, 1, "other")
            self.lock(client, opened, WRITE_LOCK, 60, 10, "third")
        self.lock(client, opened, WRITE_LOCK, 50, 10, "fourth")
        client.close(opened)


class Modes(case.GatewayCase):
    USER = 2001

    @classmethod
    def prepare(cls):
        os.chmod(cls.backing, 0o777)
        folder = cls.backing / "shared"
        folder.mkdir()
        os.chown(folder, 0, 3001)
        os.chmod(folder, 0o2777)

    def user(self):
        client = self.v41()
        client.connection.credential = rpc.auth_sys(self.USER, self.USER)
        return client

    def test_owner_and_group_of_a_new_file(self):
        client = self.user()
        client.close(client.open(client.handle("shared"), "new", how=ops.UNCHECKED, values=ops.encode_mode(0o640)))
        found = os.stat(self.backing / "shared/new")
        self.assertEqual((found.st_uid, found.st_gid, found.st_mode & 0o7777), (self.USER, 3001, 0o640))

    def test_a_write_by_a_user_takes_set_id_bits_away(self):
        path = self.backing / "tool"
        path.write_bytes(b"x" * 100)
        client = self.user()
        for stable in (0, 2):
            os.chmod(path, 0o6777)
            opened = client.open(client.handle(), "tool", how=ops.UNCHECKED)
            client.run(ops.putfh(opened.handle), ops.write(opened.stateid, 0, b"y", stable))
            self.assertEqual(os.stat(path).st_mode & 0o7777, 0o777, f"stable={stable}")
            client.close(opened)

    def test_truncation_at_open_needs_the_right_to_write(self):
        path = self.backing / "precious"
        path.write_bytes(b"precious")
        os.chmod(path, 0o644)
        for name, client in (("cached", self.user()), ("not cached", self.user())):
            with self.subTest(name):
                if name == "cached":
                    client.run(ops.putfh(client.handle()), ops.lookup("precious"), ops.getfh())
                self.assert_status("ACCES", client.open, client.handle(), "precious", how=ops.UNCHECKED,
                                   values=ops.encode_size(0))
                self.assertEqual(path.read_bytes(), b"precious")


class Counters(case.GatewayCase):
    def test_bytes_that_were_read_and_written(self):
        self.only_fabric("has no metrics")
        client = self.v3()
        before = self.gateway.metrics()
        file = client.put(client.root, "counted", b"c" * 100000)
        self.assertEqual(client.read_all(file), b"c" * 100000)
        after = self.gateway.metrics()
        for direction in ("read", "write"):
            if self.gateway.writes_back:                # by the burst buffer, but for what is drained by then
                moved = sum(value - before[name] for name, value in after.items()
                            if name.startswith(f'fabric_bytes_total{{direction="{direction}"'))
                self.assertEqual(moved, 100000, direction)
                continue
            name = f'{{direction="{direction}",path="page_cache"}}'
            for metric in ("fabric_bytes_total", "fabric_copied_bytes_total"):
                self.assertEqual(after[metric + name] - before[metric + name], 100000, metric + name)
        self.assertEqual(sum(value for name, value in after.items() if name.startswith("fabric_io_in_flight")), 0)


if __name__ == "__main__":
    case.main()
