#!/usr/bin/python3
"""Callbacks over TCP, with clients of our own.

path     a 4.1 client that does not answer CB_NOTIFY_LOCK is told that its callback path is down, and not before; when it
         has bound its connection again the path is up, and callbacks come again (RFC 8881 sections 2.10.3.1, 18.46.3)
v40      a 4.0 client that waits for a lock gets it by asking again, and no callback, of which its version has none
"""
import socket
import sys
import threading

import nfs4
from gateway import Export, Gateway, backing_dir

CB_NOTIFY_LOCK, CB_SEQUENCE = 13, 11
WHOLE = (0, 0xFFFFFFFFFFFFFFFF)


class Waiter(nfs4.Client):
    """A 4.1 client that waits for a lock; `answering` says whether it answers callbacks."""

    def __init__(self, port):
        super().__init__(port, "waiter", 1)
        self.answering, self.notified = True, 0
        self.rpc.callback = self.on_callback
        self.create_session()

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
        reply = nfs4.Pack().u32(0).opaque(tag).u32(2, CB_SEQUENCE, 0).fixed(session)
        return reply.u32(sequence, slot, highest, highest, CB_NOTIFY_LOCK, 0).bytes()

    def flags(self):
        return self.call41()[0]["flags"]


def path(gateway):
    holder, waiter = nfs4.Client(gateway.nfs_port, "holder"), Waiter(gateway.nfs_port)
    holder.set_clientid()
    root = holder.compound(nfs4.putrootfh(), nfs4.lookup("export"), nfs4.getfh())[2]
    handle, stateid = holder.open40(root, b"file", b"holding", create=True)
    opened = waiter.call41(nfs4.putfh(root), nfs4.open_file(waiter.clientid, b"waiting", "file"))[2]["stateid"]

    def wait_and_release(number):
        """The holder locks, the waiter waits, the holder unlocks: the waiter is to be notified."""
        lock = nfs4.lock_new(nfs4.WRITE_LT, *WHOLE, 2 + number, stateid, holder.clientid, b"holder %d" % number)
        held = holder.compound(nfs4.putfh(handle), lock)[1]
        wait = nfs4.lock_new(nfs4.WRITEW_LT, *WHOLE, 0, opened, waiter.clientid, b"waiter %d" % number)
        try:
            waiter.call41(nfs4.putfh(handle), wait)
            raise AssertionError("granted while held")
        except nfs4.Nfs4Error as error:
            assert error.status == nfs4.NFS4ERR_DENIED, error
        holder.compound(nfs4.putfh(handle), nfs4.unlock(held, 1, *WHOLE))

    down = nfs4.SEQ4_CB_PATH_DOWN
    assert not waiter.flags() & down, "the path is reported down at the start"
    wait_and_release(0)
    waiter.poll(lambda: waiter.notified == 1)
    for _ in range(20):
        assert not waiter.flags() & down, "the path is reported down although the callback was answered"
    take = nfs4.lock_new(nfs4.WRITE_LT, *WHOLE, 0, opened, waiter.clientid, b"waiter 0")
    taken = waiter.call41(nfs4.putfh(handle), take)[2]
    waiter.call41(nfs4.putfh(handle), nfs4.unlock(taken, 0, *WHOLE))

    waiter.answering = False
    wait_and_release(1)
    waiter.poll(lambda: waiter.notified == 2)
    waiter.poll(lambda: waiter.flags() & down, "an unanswered callback is not reported")

    waiter.answering = True
    body = nfs4.Pack().fixed(waiter.session["session"]).u32(7, 0).bytes()       # CDFC4_FORE_OR_BOTH
    waiter.compound((nfs4.OP_BIND_CONN, body))
    assert not waiter.flags() & down, "the path is reported down although it was bound again"
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
    holder, waiter = nfs4.Client(gateway.nfs_port, "holder"), nfs4.Client(gateway.nfs_port, "waiter")
    holder.set_clientid()
    waiter.set_clientid(callback=f"127.0.0.1.{port >> 8}.{port & 255}")
    root = holder.compound(nfs4.putrootfh(), nfs4.lookup("export"), nfs4.getfh())[2]
    handle, stateid = holder.open40(root, b"file", b"holding", create=True)
    held = holder.compound(nfs4.putfh(handle),
                           nfs4.lock_new(nfs4.WRITE_LT, *WHOLE, 2, stateid, holder.clientid, b"holder"))[1]
    _, opened = waiter.open40(root, b"file", b"waiting")
    wait = nfs4.lock_new(nfs4.WRITEW_LT, *WHOLE, 2, opened, waiter.clientid, b"waiter")
    try:
        waiter.compound(nfs4.putfh(handle), wait)
        raise AssertionError("granted while held")
    except nfs4.Nfs4Error as error:
        assert error.status == nfs4.NFS4ERR_DENIED, error
    holder.compound(nfs4.putfh(handle), nfs4.unlock(held, 1, *WHOLE))
    again = nfs4.lock_new(nfs4.WRITEW_LT, *WHOLE, 3, opened, waiter.clientid, b"waiter")
    waiter.compound(nfs4.putfh(handle), again)
    # Three times the server's time-out of a callback: a completion of one would come within it.
    waiter.poll(lambda: False, None, 9)
    waiter.compound(nfs4.renew(waiter.clientid))
    assert not calls, "a 4.0 client was called back"
    print("no callback, and the lock")


def main(name):
    with Gateway([Export(backing_dir())], fsal="VFS", nfsv4={"Lease_Lifetime": 60}) as gateway:
        globals()[name](gateway)
        assert gateway.alive()


if __name__ == "__main__":
    main(sys.argv[1])
