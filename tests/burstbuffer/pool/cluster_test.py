"""fabricctl cluster, against real etcd."""
import base64
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

FABRICD, FABRICCTL = sys.argv[1:3]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from node import NodeCase  # noqa: E402: it reads sys.argv


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Etcd:
    def __init__(self):
        self.folder = tempfile.mkdtemp(dir="/dev/shm", prefix="fabric-etcd.")
        client, peer = (f"http://127.0.0.1:{port}" for port in free_ports(2))
        self.url = client
        self.log = open(self.folder + "/log", "w")
        self.process = subprocess.Popen(
            ["etcd", "--name", "m", "--data-dir", self.folder + "/m", "--listen-client-urls", client,
             "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
             "--initial-cluster", "m=" + peer], stdout=self.log, stderr=self.log)
        for _ in range(600):
            try:
                self.post("kv/range", key=b"x")
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError(open(self.folder + "/log").read())

    def post(self, path, **fields):
        body = json.dumps({key: base64.b64encode(value).decode() if isinstance(value, bytes) else value
                           for key, value in fields.items()})
        with urllib.request.urlopen(f"{self.url}/v3/{path}", body.encode(), timeout=20) as answer:
            return json.load(answer)

    def put(self, key, value):
        self.post("kv/put", key=key.encode(), value=value if isinstance(value, bytes) else json.dumps(value).encode())

    def get(self, key):
        found = self.post("kv/range", key=key.encode()).get("kvs", [])
        return json.loads(base64.b64decode(found[0]["value"])) if found else None

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder)


class ClusterOrders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.etcd = Etcd()
        cls.addClassCleanup(cls.etcd.stop)

    def setUp(self):
        self.prefix = "/fabric/" + self._testMethodName

    def ctl(self, *words, status=0):
        done = subprocess.run([FABRICCTL, "cluster", words[0], "--endpoint", self.etcd.url, "--prefix", self.prefix,
                               "--json", *words[1:]], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return json.loads(done.stdout) if done.stdout else done.stderr

    def member(self, name, **more):
        self.etcd.put(f"{self.prefix}/members/{name}",
                      {"name": name, "identity": "i", "process": "p", "addresses": [name + ":1"], "disks": [],
                       "version": "0.1.0", **more})
        found = self.etcd.post("kv/range", key=f"{self.prefix}/members/{name}".encode())["kvs"][0]
        return int(found["create_revision"])

    def test_a_cluster_is_made_once(self):
        self.assertIn("there is no cluster at " + self.prefix, self.ctl("join", "n1", status=1))
        self.assertIn("init", self.ctl("status", status=1))
        uuid = self.ctl("init", "--replicas", "2")["uuid"]
        self.assertEqual(self.etcd.get(self.prefix + "/cluster"),
                         {"uuid": uuid, "format": 1, "chunk_size": 1 << 20, "replicas": 2})
        self.assertIn("already", self.ctl("init", status=1))
        self.assertEqual(self.ctl("status")["uuid"], uuid)

    def test_wrong_values_are_named(self):
        self.assertIn("chunk_size is no power of two", self.ctl("init", "--chunk-size", "1000000", status=1))
        self.assertIn("replicas", self.ctl("init", "--replicas", "0", status=1))
        self.ctl("init")
        self.assertIn("'../x' is no name", self.ctl("join", "../x", status=1))
        self.assertIn("weight", self.ctl("join", "n1", "--weight", "0", status=1))
        self.assertIn("rack", self.ctl("join", "n1", "--rack", "a/b", status=1))
        self.assertIsNone(self.etcd.get(self.prefix + "/nodes/n1"))
        done = subprocess.run([FABRICCTL, "cluster", "status", "--endpoint", "nowhere"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 16, done.stderr)
        self.assertIn("'nowhere': expected http://HOST:PORT", done.stderr)

    def test_nodes_come_drain_and_go(self):
        self.ctl("init")
        self.ctl("join", "n1", "--weight", "2", "--rack", "r1")
        self.assertEqual(self.etcd.get(self.prefix + "/nodes/n1"), {"state": "in", "weight": 2.0, "rack": "r1"})
        self.assertIn("n2 is not registered", self.ctl("drain-node", "n2", status=1))
        self.ctl("drain-node", "n1")
        self.assertEqual(self.etcd.get(self.prefix + "/nodes/n1"), {"state": "draining", "weight": 2.0, "rack": "r1"})
        self.ctl("leave", "n1")
        self.assertIn("out already", self.ctl("drain-node", "n1", status=1))
        self.ctl("join", "n1")
        self.member("n1")
        node = self.ctl("status")["nodes"][0]
        self.assertEqual((node["name"], node["state"], node["running"], node["addresses"]), ("n1", "in", True, ["n1:1"]))

    def test_what_would_be_lost_stays(self):
        self.ctl("init")
        for name in "n1", "n2":
            self.ctl("join", name)
        incarnation = self.member("n1")
        self.assertTrue(self.ctl("check", "n1")["ok"])
        owner = {"node": "n1", "incarnation": incarnation, "replicas": ["n2"]}
        self.etcd.put(self.prefix + "/owners/ab", owner)
        answer = self.ctl("check", "n1", status=1)
        self.assertFalse(answer["ok"])
        self.assertIn("owners/ab", answer["lost"][0])
        self.assertIn("owners/ab", self.ctl("leave", "n1", status=1))
        self.assertEqual(self.etcd.get(self.prefix + "/nodes/n1")["state"], "in")
        self.member("n2")
        self.assertTrue(self.ctl("check", "n1")["ok"])
        self.ctl("leave", "n1")
        self.assertIn("not registered", self.ctl("check", "n9", status=1))

    def test_force(self):
        self.ctl("init")
        self.ctl("join", "n1")
        self.etcd.put(self.prefix + "/owners/ab", {"node": "n1", "incarnation": 1, "replicas": []})
        self.ctl("leave", "n1", status=1)
        self.ctl("leave", "n1", "--force")
        self.assertEqual(self.etcd.get(self.prefix + "/nodes/n1")["state"], "out")

    def test_junk_at_etcd_is_named(self):
        self.ctl("init")
        self.ctl("join", "n1")
        self.etcd.put(self.prefix + "/nodes/n2", b"\xff")
        self.etcd.put(self.prefix + "/nodes/n3", {"state": "in", "weight": "x", "rack": ""})
        self.etcd.put(self.prefix + "/owners/ab", b"x" * (1 << 20))
        answer = self.ctl("status", status=1)
        self.assertEqual([node["name"] for node in answer["nodes"]], ["n1"])
        self.assertEqual([problem.split(":")[0] for problem in answer["problems"]],
                         [f"etcd key {self.prefix}/{key}" for key in ("nodes/n2", "nodes/n3", "owners/ab")])
        self.ctl("check", "n1", status=1)
        self.etcd.put(self.prefix + "/cluster", {"uuid": "u", "format": 2, "chunk_size": 1 << 20, "replicas": 1})
        self.assertIn("format is 2", self.ctl("join", "n4", status=1))

    def test_the_map(self):
        self.ctl("init")
        self.assertIn("no map", self.ctl("map", status=1))
        node = {"name": "n1", "state": "up", "weight": 1.0, "rack": "", "addresses": ["n1:1"]}
        self.etcd.put(self.prefix + "/map", {"epoch": 5, "chunk_size": 1 << 20, "replicas": 1, "nodes": [node]})
        self.assertEqual(self.ctl("map"), {"epoch": 5, "chunk_size": 1 << 20, "replicas": 1, "nodes": [node]})
        done = subprocess.run([FABRICCTL, "cluster", "map", "--endpoint", self.etcd.url, "--prefix", self.prefix],
                              capture_output=True, text=True)
        self.assertIn("epoch=5\n", done.stdout)
        self.assertIn("nodes: addresses=[\"n1:1\"] name=n1 rack= state=up weight=1.0\n", done.stdout)

    def test_no_etcd(self):
        done = subprocess.run([FABRICCTL, "cluster", "status", "--timeout", "1", "--endpoint",
                               f"http://127.0.0.1:{free_ports(1)[0]}"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 8)
        self.assertIn("etcd http://127.0.0.1:", done.stderr)


class Disk(NodeCase):
    settings = "cache:\n  memory: 0\n"

    def test_a_disk_without_undrained_records_can_go(self):
        def check(folder):
            return subprocess.run([FABRICCTL, "cluster", "check", folder, "--socket", self.socket, "--json"],
                                  capture_output=True, text=True, timeout=60)
        done = check(self.folder / "d0")
        self.assertEqual((done.returncode, json.loads(done.stdout)), (0, {"ok": True, "lost": [], "note": []}), done.stderr)
        done = check("/no/such")
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no disk /no/such", done.stderr)


if __name__ == "__main__":
    if shutil.which("etcd") is None:
        print("SKIP: pool.cluster: there is no etcd: install etcd-server")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:], verbosity=2)
