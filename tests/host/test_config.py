"""What a bad configuration does: the start stops, and the log names the file, the line and the key."""
import re

import case
import gateway as gw
import nfs3


class Config(case.GatewayCase):
    def refused(self, **options):
        """(log, configuration's lines) of a server that must not come up."""
        gateway = gw.Gateway([gw.Export(str(self.backing), **options.pop("export", {}))], **options)
        self.addCleanup(gateway.close)
        with self.assertRaises(gw.GatewayError):
            gateway.start(timeout=30)
        return gateway.log(), gateway.config_path.read_text().splitlines(), str(gateway.config_path)

    def assert_named(self, refused, key):
        """The log has FILE:LINE, LINE being of the key or of the block that holds it, and the key."""
        log, lines, path = refused
        spots = [int(number) for number in re.findall(re.escape(path) + r":(\d+)", log)]
        self.assertTrue(spots, log[-2000:])
        self.assertIn(key, log)
        line = next(number for number, text in enumerate(lines, 1) if key in text)
        block = max(number for number, text in enumerate(lines[:line], 1) if text.endswith("{"))
        self.assertTrue({line, block} & set(spots), (key, line, block, spots))

    def test_values_out_of_range_and_of_the_wrong_kind(self):
        self.only_fabric("has no such options")
        for key, value in (("IO_Lanes", 1000), ("IO_Lanes", "many"), ("IO_Depth", 0), ("Metrics_Address", '"nonsense"'),
                           ("Metrics_Address", '"127.0.0.1:99999"'), ("Identity_Threads", 0), ("Read_Buffer_Memory", 5)):
            with self.subTest(key=key, value=value):
                self.assert_named(self.refused(blocks={"FABRIC": {key: value}}), key)

    def test_an_unknown_option(self):
        self.only_fabric("has no such options")
        self.assert_named(self.refused(blocks={"FABRIC": {"No_Such_Option": 1}}), "No_Such_Option")
        self.assert_named(self.refused(export={"fsal_options": {"No_Such_Option": 1}}), "No_Such_Option")

    def test_a_missing_export_path_is_named_and_the_others_are_served(self):
        missing = self.backing / "missing"
        there = self.backing / "there"
        there.mkdir()
        (there / "file").write_bytes(b"served")
        gateway = gw.Gateway([gw.Export(str(missing), pseudo="/missing"), gw.Export(str(there), pseudo="/there")], strict=False)
        self.addCleanup(gateway.close)
        gateway.start()
        with nfs3.Client.mount(gateway, "/there") as client:
            self.assertEqual(client.read_all(client.walk("file")), b"served")
        self.assertIn(str(missing), gateway.log())
        self.assert_status(("NOENT", "ACCES"), nfs3.Client.mount, gateway, "/missing")

    def test_an_export_that_is_a_file(self):
        file = self.backing / "plain"
        file.write_bytes(b"x")
        gateway = gw.Gateway([gw.Export(str(file), pseudo="/plain"), gw.Export(str(self.backing), pseudo="/good")], strict=False)
        self.addCleanup(gateway.close)
        gateway.start()
        self.assertIn(str(file), gateway.log())
        with nfs3.Client.mount(gateway, "/good") as client:
            self.assertEqual(client.read_all(client.walk("plain")), b"x")

    def test_a_second_server_on_the_same_metrics_address(self):
        self.only_fabric("has no metrics")
        port = self.gateway.ports["metrics"]
        refused = self.refused(blocks={"FABRIC": {"Metrics_Address": f'"127.0.0.1:{port}"'}})
        self.assertIn(str(port), refused[0])

    def test_stop_is_clean_and_quick(self):
        gateway = gw.Gateway([gw.Export(str(self.backing))]).start()
        self.addCleanup(gateway.close)
        with nfs3.Client.mount(gateway) as client:
            client.put(client.root, "before-stop", b"x")
            self.assertEqual(gateway.stop(timeout=60), 0)


if __name__ == "__main__":
    case.main()
