"""Single answers that conformance suites look at and that the gateway once gave wrongly."""
import case
import nfs3
import nfs4_ops as ops
from rpc import Packer

AUTH_NONE, AUTH_SYS, RPCSEC_GSS = 0, 1, 6


class Conformance(case.GatewayCase):
    def test_rename_of_a_file_to_its_other_name_changes_nothing(self):
        """RFC 8881 §18.26.3: no action, and so the same change attribute before and after."""
        self.v3().put(self.v3().root, "one", b"content")
        for client in (self.v40(), self.v41(), self.v41(2)):
            root = client.handle()
            client.run(ops.putfh(client.handle("one")), ops.savefh(), ops.putfh(root), ops.link("other"))
            for names in (("one", "other"), ("other", "one"), ("one", "one")):
                source, target = client.run(ops.putfh(root), ops.savefh(), ops.putfh(root), ops.rename(*names))[-1]
                self.assertEqual((source.before, target.before), (source.after, target.after), names)
                self.assertEqual(client.read_all(client.handle("one")), b"content")
                self.assertEqual(client.read_all(client.handle("other")), b"content")
            source, target = client.run(ops.putfh(root), ops.savefh(), ops.putfh(root), ops.rename("other", "third"))[-1]
            self.assertNotEqual((source.before, target.before), (source.after, target.after))
            client.run(ops.putfh(root), ops.remove("third"))

    def test_every_way_of_being_called_back_is_understood(self):
        """RFC 8881 §18.36.3: a list of security flavors, of which the server takes one that it can use."""
        sys = Packer().u32(AUTH_SYS).u32(5).string("random machine").u32(7).u32(11).array([13, 17], Packer.u32).bytes()
        sys_without_groups = Packer().u32(AUTH_SYS).u32(5).string("random machine").u32(7).u32(11).u32(0).bytes()
        gss = Packer().u32(RPCSEC_GSS).u32(3).opaque(b"handle of the server").opaque(b"handle of the client").bytes()
        none = Packer().u32(AUTH_NONE).bytes()
        client = self.v41()
        for ways in ([none, sys, gss], [none, gss, sys_without_groups], [gss, sys], [sys, none]):
            found = client.bare(ops.exchange_id(client.name + str(len(ways)) + ways[0].hex(), client.boot))[-1]
            plain = ops.create_session(found.clientid, found.sequence)
            call = plain[:-8] + Packer().u32(len(ways)).bytes() + b"".join(ways)    # instead of one of AUTH_NONE
            self.assertTrue(client.bare(call)[-1].session)


if __name__ == "__main__":
    case.main()
