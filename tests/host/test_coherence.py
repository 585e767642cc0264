"""What another gateway, or a program on the storage, changed shows at the next look, whatever this gateway has read before."""
import os
import shutil

import case
import gateway as gw
import nfs3
import nfs4
import nfs4_ops as ops
import rpc


class View:
    """One client's look at the export, the same for each protocol version."""

    def __init__(self, client):
        self.client = client
        self.v3 = isinstance(client, nfs3.Client)
        self.root = client.root if self.v3 else client.handle()

    def names(self, directory=None):
        return sorted(entry.name.decode() for entry in self.client.list(directory or self.root))

    def sizes(self):
        """{name: size} as a listing with attributes tells them."""
        if self.v3:
            return {e.name.decode(): e.attributes.size for e in self.client.list(self.root, plus=True)}
        return {e.name.decode(): e.attributes[ops.SIZE] for e in self.client.list(self.root, (ops.RDATTR_ERROR, ops.SIZE))}

    def look_up(self, name, directory=None):
        """The handle, or the name of the error."""
        directory = directory or self.root
        try:
            if self.v3:
                return self.client.lookup(directory, name).handle
            return self.client.run(ops.putfh(directory), ops.lookup(name), ops.getfh())[-1]
        except nfs3.NfsError as error:
            return error.name

    def size(self, handle):
        if self.v3:
            return self.client.getattr(handle).size
        return self.client.run(ops.putfh(handle), ops.getattr_(ops.SIZE))[-1][ops.SIZE]

    def change(self, handle):
        return self.client.run(ops.putfh(handle), ops.getattr_(ops.CHANGE))[-1][ops.CHANGE]

    def read(self, name):
        return self.client.read_all(self.look_up(name))


class Coherence(case.GatewayCase):
    def setUp(self):
        self.only_fabric("trusts attributes and names for a minute")
        for entry in self.backing.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def views(self):
        return [(name, View(client)) for name, client in self.clients()]

    def check(self, view, how):
        """`how(name, content)` makes a file, `how(name, None)` removes it, beside the gateway that is looked through."""
        how("old", b"old")
        how("goes", b"goes")
        self.assertEqual(view.names(), ["goes", "old"])
        self.assertEqual(view.look_up("new"), "NOENT")
        self.assertEqual(view.read("old"), b"old")
        before = view.look_up("old")

        how("new", b"new")
        how("goes", None)
        self.assertEqual(view.names(), ["new", "old"])
        self.assertEqual(view.look_up("goes"), "NOENT")
        self.assertEqual(view.read("new"), b"new")

        how("old", None)
        how("old", b"another file")
        self.assertNotEqual(view.look_up("old"), before)
        self.assertEqual(view.read("old"), b"another file")
        self.assertEqual(view.sizes(), {"new": 3, "old": 12})

    def on_the_storage(self, name, content):
        path = self.backing / name
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)

    def test_changes_on_the_storage(self):
        for name, view in self.views():
            with self.subTest(name):
                self.setUp()
                self.check(view, self.on_the_storage)

    def test_changes_through_another_gateway(self):
        other = gw.Gateway(self.exports())
        self.addCleanup(other.close)
        other.start()
        for (name, view), kind in zip(self.views(), ("v3", "v4", "v4")):
            with self.subTest(name):
                self.setUp()
                client = nfs3.Client.mount(other) if kind == "v3" else nfs4.Client41(other, 2)
                self.addCleanup(client.connection.close)
                root = client.root if kind == "v3" else client.handle()

                def change(file, content, client=client, root=root):
                    if content is not None:
                        client.put(root, file, content)
                        other.drain()
                    elif kind == "v3":
                        client.remove(root, file)
                    else:
                        client.run(ops.putfh(root), ops.remove(file))
                self.check(view, change)

    def test_contents_attributes_and_rights(self):
        path = self.backing / "file"
        for name, view in self.views():
            with self.subTest(name):
                path.write_bytes(b"x")
                os.chmod(path, 0o644)
                handle = view.look_up("file")
                self.assertEqual(view.size(handle), 1)
                path.write_bytes(b"longer")
                self.assertEqual(view.size(handle), 6)
                self.assertEqual(view.client.read_all(handle), b"longer")
                view.client.connection.credential = rpc.auth_sys(2000, 2000)
                self.assertEqual(view.client.read_all(handle), b"longer")
                os.chmod(path, 0o600)
                self.assert_status("ACCES", view.client.read_all, handle)

    def test_names_below_a_folder_that_was_moved(self):
        for name, view in self.views():
            with self.subTest(name):
                self.setUp()
                (self.backing / "a").mkdir()
                (self.backing / "a/in-a").write_bytes(b"")
                self.assertEqual(view.names(view.look_up("a")), ["in-a"])
                os.rename(self.backing / "a", self.backing / "b")
                (self.backing / "a").mkdir()
                self.assertEqual(view.look_up("in-a", view.look_up("a")), "NOENT")
                self.assertEqual(view.names(view.look_up("a")), [])
                self.assertEqual(view.names(view.look_up("b")), ["in-a"])

    def test_a_listing_and_a_look_agree_about_the_change_attribute(self):
        """A client that compares the two would otherwise throw away what it has cached."""
        client = self.v41(2)
        view = View(client)
        handle = client.put(view.root, "written", b"x")
        opened = client.open(view.root, "written")
        for number in range(20):
            client.run(ops.putfh(handle), ops.write(opened.stateid, 0, bytes([number])))
        client.close(opened)
        listed = client.list(view.root, (ops.RDATTR_ERROR, ops.CHANGE))
        self.assertEqual([entry.attributes[ops.CHANGE] for entry in listed], [view.change(handle)])


class Trusting(case.GatewayCase):
    """An export that is told so trusts what it has read."""
    export_options = {"Attr_Expiration_Time": 600}

    def test_attributes_are_kept_for_the_time_that_is_set(self):
        path = self.backing / "file"
        path.write_bytes(b"x")
        view = View(self.v3())
        handle = view.look_up("file")
        self.assertEqual(view.size(handle), 1)
        path.write_bytes(b"longer")
        self.assertEqual(view.size(handle), 1)


if __name__ == "__main__":
    case.main()
