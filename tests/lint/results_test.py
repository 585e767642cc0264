#!/usr/bin/env python3
"""Tests of tests/results.py: what it counts as passed, failed and skipped. A counter that is wrong hides everything else."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "results.py"


def listing(*names):
    return "".join(f"  Test  #{number}: {name}\n" for number, name in enumerate(names, 1))


def report(*cases):
    return f'<testsuite>{"".join(cases)}</testsuite>'


def passed(name, output=""):
    return f'<testcase name="{name}" status="run"><system-out>{output}</system-out></testcase>'


def failed(name):
    return f'<testcase name="{name}" status="fail"><failure message=""/><system-out>boom</system-out></testcase>'


def not_run(name, message, output=""):
    return (f'<testcase name="{name}" status="notrun"><skipped message="{message}"/>'
            f"<system-out>{output}</system-out></testcase>")


class Results(unittest.TestCase):
    def add_up(self, **runs):
        """(exit status, lines) for runs of name=(listing, report or None)."""
        with tempfile.TemporaryDirectory() as folder:
            for name, (names, xml) in runs.items():
                pathlib.Path(folder, f"{name}.list").write_text(names)
                if xml is not None:
                    pathlib.Path(folder, f"{name}.xml").write_text(xml)
            done = subprocess.run([sys.executable, SCRIPT, folder], stdout=subprocess.PIPE, text=True)
        return done.returncode, done.stdout.splitlines()

    def test_all_passed(self):
        code, lines = self.add_up(unit=(listing("a", "b"), report(passed("a"), passed("b"))),
                                  host=(listing("c"), report(passed("c"))))
        self.assertEqual((code, lines[-1]), (0, "3 passed, 0 failed, 0 skipped"))

    def test_a_failure_is_named(self):
        code, lines = self.add_up(unit=(listing("a", "b"), report(passed("a"), failed("b"))))
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("FAILED: b (unit): failed", lines)

    def test_a_skip_is_named_with_its_reason(self):
        code, lines = self.add_up(unit=(listing("a", "b"), report(
            passed("a"), not_run("b", "SKIP_RETURN_CODE=77", "some output\nSKIPPED b: no device\n"))))
        self.assertEqual((code, lines[-1]), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertIn("skipped: b (unit): no device", lines)

    def test_a_part_that_was_skipped_is_named(self):
        code, lines = self.add_up(unit=(listing("a", "g"), report(
            passed("a", "SKIPPED Case.part: no loop device\n"),
            passed("g", "x.cpp:3: Skipped\nno uring\n\n[  SKIPPED ] Suite.Case (0 ms)\n[  SKIPPED ] 1 test, listed below:\n"
                        "[  SKIPPED ] Suite.Case\n"))))
        self.assertEqual((code, lines[-1]), (0, "2 passed, 0 failed, 2 skipped"))
        self.assertIn("skipped: a/Case.part (unit): no loop device", lines)
        self.assertIn("skipped: g/Suite.Case (unit): no uring", lines)

    def test_what_could_not_run_has_failed(self):
        code, lines = self.add_up(unit=(listing("a", "b"), report(passed("a"), not_run("b", "Unable to find executable"))))
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_what_has_no_result_has_failed(self):
        for xml in (report(passed("a")), None, "<testsuite><testcase"):
            code, lines = self.add_up(unit=(listing("a", "b"), xml))
            self.assertEqual(code, 1, xml)
            self.assertIn("FAILED: b (unit): ", "\n".join(lines))

    def test_nothing_ran(self):
        code, lines = self.add_up(unit=("", report()))
        self.assertEqual((code, lines[-1]), (1, "0 passed, 0 failed, 0 skipped"))

    def test_only_skips_is_no_success(self):
        code, lines = self.add_up(unit=(listing("a"), report(not_run("a", "SKIP_RETURN_CODE=77", "SKIP: no GPU"))))
        self.assertEqual((code, lines[-1]), (1, "0 passed, 0 failed, 1 skipped"))


if __name__ == "__main__":
    unittest.main()
