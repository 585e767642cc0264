"""The frame of a host test: one server for the class, a backing directory, and the exit status that CTest reads.

    class Names(case.GatewayCase):
        def test_longest(self): ...             # self.gateway, self.backing (a Path), self.v3(), self.v40(), self.v41()

    if __name__ == "__main__":
        case.main()
"""
import os
import pathlib
import shutil
import sys
import unittest

import gateway as gw
import nfs3
import nfs4
import rpc

SKIPPED = 77                                        # CTest's SKIP_RETURN_CODE
SOAK = os.environ.get("FABRIC_SOAK") == "1"         # the long forms


class GatewayCase(unittest.TestCase):
    """`options` go to Gateway, `export_options` to the one export's block."""
    options = {}
    export_options = {}
    fsal_options = {}

    @classmethod
    def setUpClass(cls):
        try:
            cls.backing = pathlib.Path(cls.make_backing())
        except gw.NoHandles as error:
            raise unittest.SkipTest(str(error)) from error
        cls.addClassCleanup(shutil.rmtree, cls.backing, True)
        cls.prepare()
        cls.gateway = gw.Gateway(cls.exports(), **cls.options)
        cls.addClassCleanup(cls.gateway.close)
        cls.gateway.start()

    @classmethod
    def make_backing(cls):
        return gw.backing_dir()

    @classmethod
    def prepare(cls):
        """Files that are there before the server starts."""

    @classmethod
    def exports(cls):
        return [gw.Export(str(cls.backing), options=dict(cls.export_options), fsal_options=dict(cls.fsal_options))]

    def tearDown(self):
        if not self.gateway.answers():
            self.gateway.ends_within(20)            # a crash closes sockets before the process is gone
            self.fail(f"the server does not answer ({self.gateway.process.poll()}):\n{self.gateway.log_tail()}")

    def v3(self, **options):
        client = nfs3.Client.mount(self.gateway, **options)
        self.addCleanup(client.connection.close)
        return client

    def v40(self, **options):
        client = nfs4.Client40(self.gateway, **options)
        self.addCleanup(client.connection.close)
        return client

    def v41(self, minor=1, **options):
        client = nfs4.Client41(self.gateway, minor, **options)
        self.addCleanup(client.connection.close)
        return client

    def clients(self, **options):
        """(name, client) for each protocol version, for tests that hold for all."""
        return [("v3", self.v3(**options)), ("v4.0", self.v40(**options)), ("v4.2", self.v41(2, **options))]

    def assert_status(self, name, function, *arguments, **options):
        """The call fails with exactly this NFS status or RPC accept_stat, or one of a tuple of them."""
        names = (name,) if isinstance(name, str) else name
        try:
            result = function(*arguments, **options)
        except nfs3.NfsError as error:
            self.assertIn(error.name, names, error)
            return error
        except rpc.RpcError as error:
            self.assertIn(error.stat, names, error)
            return error
        self.fail(f"{names} expected, got success: {result}")

    def not_written_back(self, reason):
        """Skips where what clients write goes to the burst buffer."""
        if self.gateway.writes_back:
            self.skipTest(f"write-back: {reason}")

    def only_fabric(self, reason):
        """Skips on a peer that is known not to have it."""
        if self.gateway.fsal != "FABRIC":
            self.skipTest(f"stock {self.gateway.fsal}: {reason}")


def main():
    """unittest's command line; exit status 77 when nothing ran but skips."""
    program = unittest.main(exit=False, verbosity=2)
    result = program.result
    for test, reason in result.skipped:
        print(f"SKIPPED {test}: {reason}", file=sys.stderr)
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(SKIPPED if result.testsRun == len(result.skipped) else 0)
