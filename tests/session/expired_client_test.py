#!/usr/bin/python3
"""An expired client that holds locks another waits for, then an OPEN that it stands in the way of.

The OPEN has the server expire the client. That releases its locks, which grants those that wait, which looks for
conflicts with expired clients: with the list of these locked by the thread that walks it, the server stood still for
good (RFC 7530 section 9.6.3.1: a server may keep an expired client's state until another client conflicts with it).

`expired_client_test.py two` has the waiter wait for two expired clients: expiring one must not hide the other.
"""
import sys
import time

import nfs4
from gateway import Export, Gateway, backing_dir

LEASE = 4  # seconds


def locked_file(client, root, name, ranges):
    """Opens `name` and write-locks each (offset, length) with a lock owner of its own."""
    handle, stateid = client.open40(root, name, b"opener of " + name.encode(), create=True)
    for number, (offset, length) in enumerate(ranges):
        lock = nfs4.lock_new(nfs4.WRITE_LT, offset, length, 2 + number, stateid, client.clientid,
                             b"locker %d of " % number + client.name)
        client.compound(nfs4.putfh(handle), lock)


def wait_for_lock(client, root, name):
    """A blocking lock of the whole file: denied, and queued by the server."""
    handle, stateid = client.open40(root, name, b"waiting opener")
    lock = nfs4.lock_new(nfs4.WRITEW_LT, 0, 0xFFFFFFFFFFFFFFFF, 2, stateid, client.clientid, b"waiter")
    try:
        client.compound(nfs4.putfh(handle), lock)
    except nfs4.Nfs4Error as error:
        assert error.status == nfs4.NFS4ERR_DENIED, error
    else:
        raise AssertionError("the lock was granted while another client held it")


def main(holders):
    with Gateway([Export(backing_dir())], fsal="VFS", nfsv4={"Lease_Lifetime": LEASE}) as gateway:
        root_finder = nfs4.Client(gateway.nfs_port, "root finder")
        root = root_finder.compound(nfs4.putrootfh(), nfs4.lookup("export"), nfs4.getfh())[2]

        dead = [nfs4.Client(gateway.nfs_port, f"dead {n}") for n in range(holders)]
        for number, client in enumerate(dead):
            client.set_clientid()
            # Two ranges: when the first is released the second still stands in the waiter's way.
            locked_file(client, root, "locked", [(number * 100, 10), (number * 100 + 50, 10)])
            client.open40(root, f"denied {number}", b"denier", create=True, deny=nfs4.SHARE_BOTH)

        waiter, opener = nfs4.Client(gateway.nfs_port, "waiter"), nfs4.Client(gateway.nfs_port, "opener", timeout=20)
        waiter.set_clientid()
        opener.set_clientid()
        wait_for_lock(waiter, root, "locked")

        # The dead clients' lease runs out; the others stay alive. Each OPEN is denied until the server may expire one.
        end = time.monotonic() + 20 * LEASE
        for number in range(holders):
            attempt = 0
            while True:
                attempt += 1
                waiter.compound(nfs4.renew(waiter.clientid))
                try:
                    opener.open40(root, f"denied {number}", b"owner %d %d" % (number, attempt))
                    break
                except nfs4.Nfs4Error as error:
                    assert error.status == nfs4.NFS4ERR_SHARE_DENIED, error
                    assert time.monotonic() < end, "the lease of a silent client never runs out"
                    time.sleep(0.2)

        # The locks went with the clients: another's request for the whole file now meets the waiter's alone.
        handle, stateid = opener.open40(root, "locked", b"last opener")
        lock = nfs4.lock_new(nfs4.WRITE_LT, 0, 0xFFFFFFFFFFFFFFFF, 2, stateid, opener.clientid, b"last locker")
        try:
            opener.compound(nfs4.putfh(handle), lock)
        except nfs4.Nfs4Error as error:
            assert error.status == nfs4.NFS4ERR_DENIED, error
        waiter.compound(nfs4.renew(waiter.clientid))
        print(f"{holders} expired, the server goes on")


if __name__ == "__main__":
    main(2 if "two" in sys.argv else 1)
