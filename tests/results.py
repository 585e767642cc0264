#!/usr/bin/env python3
"""Adds up the test runs that tests/run.sh made: names what failed and what was skipped and why, and counts.

    results.py DIR      DIR holds NAME.list (what ctest -N said) and NAME.xml (JUnit), one pair a run

A pass that took more than one try is named. The last line is "N passed, N failed, N skipped". A test that was chosen but has no result (a time limit ended the run)
counts as failed. Exit status: 0 when something passed and nothing failed.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

SKIPPED_CASE = re.compile(r"^\[  SKIPPED \] (\S+)(?: \(\d+ ms\))$", re.MULTILINE)


def skip_reason(output):
    """The text of the last line "SKIP: REASON", "SKIPPED NAME: REASON" or "skip NAME: REASON"; else the last line."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line in reversed(lines):
        found = re.match(r"(?:SKIP:|(?:SKIPPED|skip)\b[^:]*:) *(.+)", line)
        if found:
            return found.group(1)
    return lines[-1] if lines else "no reason given"


def partial_skips(output):
    """Cases that a program skipped while it passed as a whole, (name, reason): GoogleTest's, and lines as above."""
    yield from re.findall(r"^(?:SKIPPED|skip) (.+?): (.+)$", output, re.MULTILINE)
    for found in SKIPPED_CASE.finditer(output):
        before = output[:found.start()].rstrip().splitlines()
        yield found.group(1), before[-1].strip() if before else "no reason given"


def read_run(listing, report):
    """(passed, failed, skipped) of one ctest run, as lists of (name, reason)."""
    chosen = re.findall(r"^ *Test +#\d+: (\S+)", listing.read_text(errors="replace"), re.MULTILINE)
    passed, failed, skipped = [], [], []
    try:
        cases = ElementTree.parse(report).getroot().iter("testcase") if report.exists() else []
    except ElementTree.ParseError as error:
        return [], [(name, f"{report} cannot be read: {error}") for name in chosen], []
    seen = set()
    for case in cases:
        name, status = case.get("name"), case.get("status")
        output = case.findtext("system-out") or ""
        seen.add(name)
        if case.find("failure") is not None or status == "fail":
            failure = case.find("failure")
            failed.append((name, (failure.get("message") if failure is not None else "") or "failed"))
        elif case.find("skipped") is not None or status in ("notrun", "disabled"):
            skip = case.find("skipped")
            if skip is not None and (skip.get("message") or "").startswith("SKIP_"):
                skipped.append((name, skip_reason(output)))
            else:               # its program is missing, a fixture failed, a required file is not there, disabled
                failed.append((name, f"not run: {(skip.get('message') if skip is not None else '') or status}"))
        else:
            passed.append((name, ""))
            skipped.extend((f"{name}/{inner}", reason) for inner, reason in partial_skips(output))
    failed.extend((name, "not run: the run ended before it") for name in chosen if name not in seen)
    return passed, failed, skipped


def later_passes(log, passed):
    """Names of tests that failed before they passed, from ctest's log."""
    text = log.read_text(errors="replace") if log.exists() else ""
    failed_once = set(re.findall(r"Test +#\d+: (\S+) [ .]*\*\*\*", text))
    return [name for name, _ in passed if name in failed_once]


def main():
    folder = pathlib.Path(sys.argv[1])
    totals = {"passed": 0, "failed": 0, "skipped": 0}
    failures, skips, later = [], [], []
    for listing in sorted(folder.glob("*.list")):
        run = listing.stem
        passed, failed, skipped = read_run(listing, listing.with_suffix(".xml"))
        print(f"{run}: {len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped")
        for kind, cases in (("passed", passed), ("failed", failed), ("skipped", skipped)):
            totals[kind] += len(cases)
        later += [(run, name) for name in later_passes(listing.with_suffix(".log"), passed)]
        failures += [(run, name, reason) for name, reason in failed]
        skips += [(run, name, reason) for name, reason in skipped]
    for run, name, reason in skips:
        print(f"skipped: {name} ({run}): {reason}")
    for run, name in later:
        print(f"passed at a later try only: {name} ({run})")
    for run, name, reason in failures:
        print(f"FAILED: {name} ({run}): {reason}")
    if not totals["passed"] and not totals["failed"]:
        print("no test ran")
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return 0 if totals["passed"] and not totals["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
