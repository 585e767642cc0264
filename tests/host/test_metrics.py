"""What the metrics page says is what happened: bytes, and copies of them."""
import os

import case
import nfs3


class Metrics(case.GatewayCase):
    def setUp(self):
        self.only_fabric("has no metrics")

    def total(self, name):
        return sum(value for key, value in self.gateway.metrics().items() if key.split("{")[0] == name)

    def test_bytes_are_counted(self):
        client = self.v3()
        content = os.urandom(3 << 20)
        before = self.total("fabric_bytes_total")
        file = client.put(client.root, "counted", content)
        self.assertEqual(client.read_all(file), content)
        self.assertGreaterEqual(self.total("fabric_bytes_total") - before, 2 * len(content))

    def test_the_page_is_well_formed(self):
        for name, value in self.gateway.metrics().items():
            self.assertRegex(name, r"^[a-z_][a-z0-9_]*(\{.*\})?$")
            self.assertGreaterEqual(value, 0, name)


if __name__ == "__main__":
    case.main()
