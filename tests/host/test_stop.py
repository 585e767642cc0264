"""SIGTERM: the server ends in seconds whatever it is doing, and says what it gives up."""
import os
import pathlib
import shutil
import signal
import time
import unittest

import case
import gateway as gw
import nfs3

WRITERS = 4


class Stop(unittest.TestCase):
    def serve(self, **options):
        try:
            backing = pathlib.Path(gw.backing_dir())
        except gw.NoHandles as error:
            self.skipTest(str(error))
        self.addCleanup(shutil.rmtree, backing, True)
        (backing / "file").write_bytes(b"x" * 100000)
        os.chmod(backing / "file", 0o666)
        gateway = gw.Gateway([gw.Export(str(backing))], fsal="FABRIC", **options)
        self.addCleanup(gateway.close)
        gateway.start()
        return gateway

    def client(self, gateway):
        client = nfs3.Client.mount(gateway)
        self.addCleanup(client.connection.close)
        return client

    def wait_for(self, gateway, condition, what):
        deadline = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), deadline, f"{what}\n{gateway.log_tail()}")
            time.sleep(0.05)

    def test_requests_in_progress_end_first(self):
        """Stable writes that wait for the disk have no thread of Ganesha's: the threads that resume them, and the files,
        must not go before they are done."""
        gateway = self.serve()
        clients = [self.client(gateway) for _ in range(WRITERS)]
        files = [client.create(client.root, f"file-{n}").handle for n, client in enumerate(clients)]
        gateway.set_faults("backing.fsync=delay:1000")
        time.sleep(0.2)                             # armed within 50 ms
        for client, file in zip(clients, files):
            arguments = nfs3.args_write(file, 0, b"y" * 5000, nfs3.FILE_SYNC)
            client.connection.send_call(nfs3.NFS_PROGRAM, 3, nfs3.WRITE, arguments)
        written = gateway.exports[0].path
        self.wait_for(gateway, lambda: sum(os.path.getsize(f"{written}/file-{n}") for n in range(WRITERS)) >= 5000,
                      "no write arrives")
        self.assertEqual(gateway.stop(30), 0, gateway.log_tail())
        self.assertNotIn("requests are still in progress", gateway.log())

    def test_a_request_that_outlasts_the_wait_for_it(self):
        """Ten seconds are waited; then the cache goes, and the FSAL closes a file that is still written to."""
        gateway = self.serve()
        client = self.client(gateway)
        file = client.create(client.root, "slow").handle
        gateway.set_faults("backing.fsync=delay:14000")
        time.sleep(0.2)
        client.connection.send_call(nfs3.NFS_PROGRAM, 3, nfs3.WRITE, nfs3.args_write(file, 0, b"y" * 5000, nfs3.FILE_SYNC))
        self.wait_for(gateway, lambda: os.path.getsize(f"{gateway.exports[0].path}/slow") == 5000, "no write arrives")
        self.assertEqual(gateway.stop(60), 0, gateway.log_tail())

    def test_a_shutdown_that_does_not_end_is_given_up(self):
        """A disk that does not answer must not keep the process."""
        gateway = self.serve(core={"Shutdown_Timeout": 2})
        client = self.client(gateway)
        file = client.walk("file")
        gateway.set_faults("backing.read=delay:120000")
        time.sleep(0.2)
        client.connection.send_call(nfs3.NFS_PROGRAM, 3, nfs3.READ, nfs3.args_read(file, 0, 1000))
        time.sleep(0.5)                             # it waits in the server; nothing tells from outside
        os.kill(gateway.pid, signal.SIGTERM)
        self.assertEqual(gateway.wait_exit(40), 1, gateway.log_tail())
        self.assertIn("not done after 2 s (Shutdown_Timeout), with 1 requests in progress", gateway.log())

    def test_files_left_open_are_closed(self):
        gateway = self.serve()
        client = self.client(gateway)
        for n in range(50):
            client.put(client.root, f"open-{n}", b"content")
            client.read(client.walk(f"open-{n}"), 0, 10)
        self.assertEqual(gateway.stop(30), 0, gateway.log_tail())


if __name__ == "__main__":
    case.main()
