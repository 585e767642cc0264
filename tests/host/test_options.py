"""The plug-in's options: a bad one stops the start and is named; a path that is not there does not stop the others."""
import pathlib
import shutil
import unittest

import case
import gateway as gw
import nfs3


class Options(unittest.TestCase):
    def setUp(self):
        try:
            self.backing = gw.backing_dir()
        except gw.NoHandles as error:
            self.skipTest(str(error))
        self.addCleanup(shutil.rmtree, self.backing, True)

    def server(self, exports=None, **options):
        server = gw.Gateway(exports or [gw.Export(self.backing)], fsal="FABRIC", **options)
        self.addCleanup(server.close)
        return server

    def refused(self, *words, line_with, **options):
        """The start ends with a status that is not 0, and one log line names the file and the line of `line_with`."""
        for strict in (True, False):                # Ganesha by itself goes on without its -x
            server = self.server(strict=strict, **options)
            server.launch()
            self.assertNotEqual(server.wait_exit(60), 0)
            lines = server.config_path.read_text().splitlines()
            number = 1 + next(i for i, line in enumerate(lines) if line_with in line)
            place = f"{server.config_path}:{number})"
            told = [line for line in server.log().splitlines() if place in line and all(w in line for w in words)]
            self.assertTrue(told, f"{place} {words} not in:\n{server.log_tail()}")

    def test_a_number_out_of_its_range(self):
        self.refused("Identity_Threads", line_with="Identity_Threads", blocks={"FABRIC": {"Identity_Threads": 5000}})
        self.refused("IO_Depth", line_with="IO_Depth", blocks={"FABRIC": {"IO_Depth": 7}})

    def test_a_word_where_a_number_belongs(self):
        self.refused("IO_Depth", line_with="IO_Depth", blocks={"FABRIC": {"IO_Depth": '"many"'}})

    def test_an_address_that_is_none(self):
        for address in ("nonsense", "127.0.0.1:", ":80", "127.0.0.1:99999", "127.0.0.1:8o"):
            self.refused("Metrics_Address", address, line_with="FABRIC {",
                         blocks={"FABRIC": {"Metrics_Address": f'"{address}"'}})

    def test_a_burst_buffers_settings(self):
        settings = pathlib.Path(self.backing, "bb.yaml")
        settings.write_text("disks:\n  - folder: /no/such/folder\n    colour: red\n")
        for path, said in (("/no/such/file", "/no/such/file: No such file"), (settings, f"{settings}:3: disks.colour: unknown key")):
            server = self.server(strict=True, blocks={"BurstBuffer": {"Config": f'"{path}"'}})
            server.launch()
            self.assertNotEqual(server.wait_exit(60), 0)
            self.assertIn(said, server.log())
        self.refused("Konfig", line_with="Konfig", blocks={"BurstBuffer": {"Konfig": '"/x"'}})

    def test_an_unknown_option(self):
        self.refused("Identity_Thread)", line_with="Identity_Thread ", blocks={"FABRIC": {"Identity_Thread": 5}})
        self.refused("Crossmounts", line_with="Crossmounts",
                     exports=[gw.Export(self.backing, fsal_options={"Crossmounts": "true"})])

    def test_a_path_that_is_not_there_is_named_and_the_others_are_served(self):
        missing = self.backing + "/not-here"
        server = self.server([gw.Export(missing, pseudo="/missing"), gw.Export(self.backing, pseudo="/export")],
                             strict=False)
        server.start()
        self.assertIn(missing, server.log())
        pathlib.Path(self.backing, "file").write_text("content")
        client = nfs3.Client.mount(server)
        self.addCleanup(client.connection.close)
        self.assertEqual(client.read_all(client.lookup(client.root, "file").handle), b"content")

    def test_a_file_system_without_handles_is_named(self):
        server = self.server([gw.Export("/proc", pseudo="/proc"), gw.Export(self.backing, pseudo="/export")],
                             strict=False)
        server.start()
        self.assertIn("/proc (proc) has no usable file handles", server.log())

    def test_every_documented_option_is_taken_with_its_default(self):
        documented = (gw.ROOT / "conf/fabric.conf").read_text()
        block = documented[documented.index("FABRIC {"):documented.index("EXPORT {")]
        lines = (line.strip() for line in block.splitlines())
        options = dict(line.rstrip(";").split(" = ") for line in lines if line.endswith(";"))
        self.assertGreater(len(options), 8)
        options["Metrics_Address"] = '"127.0.0.1:0"'
        export = gw.Export(self.backing, fsal_options={"Cross_Mounts": "true"})
        self.server([export], blocks={"FABRIC": options}).start()


if __name__ == "__main__":
    case.main()
