#!/usr/bin/python3
"""An expired client that holds locks another waits for, then an OPEN that it stands in the way of.

The OPEN has the server expire the client. That releases its locks, which grants those that wait, which looks for
conflicts with expired clients: with the list of these locked by the thread that walks it, the server stood still for
good (RFC 7530 section 9.6.3.1: a server may keep an expired client's state until another client conflicts with it).

`expired_client_test.py two` has the waiter wait for two expired clients: expiring one must not hide the other.
"""
import sys
import time

import nfs3
import nfs4
import nfs4_ops as ops
from gateway import Export, Gateway, backing_dir

LEASE = 4  # seconds


def locked_file(client, name, ranges):
    """Opens `name` and write-locks each (offset, length) with a lock owner of its own."""
    opened = client.open(client.handle(), name, how=ops.UNCHECKED)
    for number, (offset, length) in enumerate(ranges):
        client.run(ops.putfh(opened.handle), ops.lock_new(ops.WRITE_LT, offset, length, opened.stateid, f"locker {number}",
                                                          client.clientid, opened.owner[1] + number))


def whole_file_is_denied(client, name, kind):
    """The lock is denied; the server queues a blocking one."""
    opened = client.open(client.handle(), name)
    lock = ops.lock_new(kind, 0, 0xFFFFFFFFFFFFFFFF, opened.stateid, "whole", client.clientid, opened.owner[1])
    try:
        client.run(ops.putfh(opened.handle), lock)
    except nfs3.NfsError as error:
        assert error.name == "DENIED", error
        return True
    return False


def main(holders):
    with Gateway([Export(backing_dir())], fsal="VFS", nfsv4={"Lease_Lifetime": LEASE}) as gateway:
        dead = [nfs4.Client40(gateway) for _ in range(holders)]
        for number, client in enumerate(dead):
            # Two ranges: when the first is released the second still stands in the waiter's way.
            locked_file(client, "locked", [(number * 100, 10), (number * 100 + 50, 10)])
            client.open(client.handle(), f"denied {number}", how=ops.UNCHECKED, deny=ops.BOTH_ACCESS)

        waiter, opener = nfs4.Client40(gateway), nfs4.Client40(gateway, timeout=20)
        assert whole_file_is_denied(waiter, "locked", ops.WRITEW_LT), "the lock was granted while another client held it"

        # The dead clients' lease runs out; the others stay alive. Each OPEN is denied until the server may expire one.
        end = time.monotonic() + 20 * LEASE
        for number in range(holders):
            while True:
                waiter.run(ops.renew(waiter.clientid))
                try:
                    opener.open(opener.handle(), f"denied {number}")
                    break
                except nfs3.NfsError as error:
                    assert error.name == "SHARE_DENIED", error
                    assert time.monotonic() < end, "the lease of a silent client never runs out"
                    time.sleep(0.2)

        # The locks went with the clients: another's request for the whole file now meets the waiter's alone.
        whole_file_is_denied(opener, "locked", ops.WRITE_LT)
        waiter.run(ops.renew(waiter.clientid))
        print(f"{holders} expired, the server goes on")


if __name__ == "__main__":
    main(2 if "two" in sys.argv else 1)
