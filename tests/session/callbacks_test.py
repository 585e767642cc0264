#!/usr/bin/python3
"""Callbacks over TCP, with clients of our own.

path     a 4.1 client that does not answer CB_NOTIFY_LOCK is told that its callback path is down, and not before; when it
         has bound its connection again the path is up, and callbacks come again (RFC 8881 sections 2.10.3.1, 18.46.3)
v40      a 4.0 client that waits for a lock gets it by asking again, and no callback, of which its version has none
"""
import socket
import sys
import threading
import time

import nfs3
import nfs4
import nfs4_ops as ops
import rpc
from gateway import Export, Gateway, backing_dir

CB_NOTIFY_LOCK, CB_SEQUENCE = 13, 11
CB_PATH_DOWN = 0x1                                  # SEQ4_STATUS_CB_PATH_DOWN
WHOLE = (0, 0xFFFFFFFFFFFFFFFF)


class Waiter(nfs4.Client41):
    """A 4.1 client that waits for a lock; `answering` says whether it answers callbacks."""

    def __init__(self, gateway):
        self.answering, self.notified = True, 0
        connection = rpc.Connection(gateway.nfs_port)
        connection.callback = self.on_callback
        super().__init__(gateway, back_channel=True, connection=connection)

    def on_callback(self, procedure, call):
        if procedure != 1:
            return b""
        tag = call.opaque()
        call.u32(), call.u32()
        assert call.u32() == 2 and call.u32() == CB_SEQUENCE
        session, sequence, slot, highest = call.fixed(16), call.u32(), call.u32(), call.u32()
        call.u32(), call.u32()
        assert call.u32() == CB_NOTIFY_LOCK
        self.notified += 1
        if not self.answering:
            return None
        reply = rpc.Packer().u32(0).opaque(tag).u32(2).u32(CB_SEQUENCE).u32(0).fixed(session)
        for value in (sequence, slot, highest, highest, CB_NOTIFY_LOCK, 0):
            reply.u32(value)
        return reply.bytes()

    def path_is_down(self):
        self.sequences[0] += 1
        return bool(self.bare(ops.sequence(self.session, self.sequences[0]))[-1].flags & CB_PATH_DOWN)


class Holder(nfs4.Client40):
    """Holds a lock on the whole file."""

    def __init__(self, gateway):
        super().__init__(gateway)
        self.opened, self.locks = self.open(self.handle(), "file", how=ops.UNCHECKED), 0

    def lock(self):
        lock = ops.lock_new(ops.WRITE_LT, *WHOLE, self.opened.stateid, f"holder {self.locks}", self.clientid,
                            self.opened.owner[1] + self.locks)
        self.locks += 1
        self.held = self.run(ops.putfh(self.opened.handle), lock)[-1]

    def unlock(self):
        self.run(ops.putfh(self.opened.handle), ops.locku(ops.WRITE_LT, *WHOLE, self.held, 1))


def is_denied(client, handle, lock):
    try:
        client.run(ops.putfh(handle), lock)
    except nfs3.NfsError as error:
        assert error.name == "DENIED", error
        return True
    return False


def path(gateway):
    holder, waiter = Holder(gateway), Waiter(gateway)
    opened = waiter.open(waiter.handle(), "file")

    def wait_and_release(number):
        """The holder locks, the waiter waits, the holder unlocks: the waiter is to be notified."""
        holder.lock()
        wait = ops.lock_new(ops.WRITEW_LT, *WHOLE, opened.stateid, f"waiter {number}", waiter.clientid)
        assert is_denied(waiter, opened.handle, wait), "granted while held"
        holder.unlock()

    assert not waiter.path_is_down(), "the path is reported down at the start"
    wait_and_release(0)
    waiter.connection.serve_until(lambda: waiter.notified == 1, "no callback comes")
    for _ in range(20):
        assert not waiter.path_is_down(), "the path is reported down although the callback was answered"
    take = ops.lock_new(ops.WRITE_LT, *WHOLE, opened.stateid, "waiter 0", waiter.clientid)
    taken = waiter.run(ops.putfh(opened.handle), take)[-1]
    waiter.run(ops.putfh(opened.handle), ops.locku(ops.WRITE_LT, *WHOLE, taken))

    waiter.answering = False
    wait_and_release(1)
    waiter.connection.serve_until(lambda: waiter.notified == 2, "no second callback comes")
    waiter.connection.serve_until(waiter.path_is_down, "an unanswered callback is not reported")

    waiter.answering = True
    waiter.bare(ops.bind_conn_to_session(waiter.session, 7))
    assert not waiter.path_is_down(), "the path is reported down although it was bound again"
    print("the path: up, down, up")


def v40(gateway):
    listener = socket.create_server(("127.0.0.1", 0))
    calls = []

    def serve():
        peer, _ = listener.accept()
        while data := peer.recv(65536):
            calls.append(data)

    threading.Thread(target=serve, daemon=True).start()
    port = listener.getsockname()[1]
    holder = Holder(gateway)
    waiter = nfs4.Client40(gateway, callback_address=f"127.0.0.1.{port >> 8}.{port & 255}")
    holder.lock()
    opened = waiter.open(waiter.handle(), "file")

    def wait(seqid):
        return ops.lock_new(ops.WRITEW_LT, *WHOLE, opened.stateid, "waiter", waiter.clientid, opened.owner[1] + seqid)

    assert is_denied(waiter, opened.handle, wait(0)), "granted while held"
    holder.unlock()
    waiter.run(ops.putfh(opened.handle), wait(1))
    # Three times the server's time-out of a callback: a completion of one would come within it.
    time.sleep(9)
    waiter.run(ops.renew(waiter.clientid))
    assert not calls, "a 4.0 client was called back"
    print("no callback, and the lock")


def main(name):
    with Gateway([Export(backing_dir())], fsal="VFS", nfsv4={"Lease_Lifetime": 60}) as gateway:
        globals()[name](gateway)
        assert gateway.alive()


if __name__ == "__main__":
    main(sys.argv[1])
