"""A small case runner: one line a case, `ok`, `FAIL` or `skip`, as it goes; exit status 1 if any failed, 77 if all were skipped."""
import faulthandler
import sys
import time
import traceback

SKIPPED = 77
SLOW = 120                                          # seconds after which a case says where it is, and again


class Skip(Exception):
    """Raised by a case that cannot run here; the message says why."""


class Suite:
    def __init__(self, only=()):
        self.only = only                            # parts of names; empty: all
        self.passed = []
        self.failed = []
        self.skipped = []

    def case(self, name, function, *arguments):
        """Runs one case; a failure is recorded and the next case goes on. True if it passed."""
        if self.only and not any(part in name for part in self.only):
            return None
        started = time.monotonic()
        faulthandler.dump_traceback_later(SLOW, repeat=True)
        try:
            function(*arguments)
        except Skip as reason:
            self.skipped.append(name)
            print(f"skip {name}: {reason}", flush=True)
            return None
        except Exception as error:
            self.failed.append(name)
            where = "".join(traceback.format_tb(error.__traceback__)[-3:])
            print(f"FAIL {name}: {type(error).__name__}: {error}\n{where}", flush=True)
            return False
        finally:
            faulthandler.cancel_dump_traceback_later()
        self.passed.append(name)
        print(f"ok   {name} ({time.monotonic() - started:.1f} s)", flush=True)
        return True

    def finish(self):
        print(f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.skipped)} skipped", flush=True)
        for name in self.failed:
            print(f"  failed: {name}", flush=True)
        if self.failed:
            sys.exit(1)
        sys.exit(0 if self.passed else SKIPPED)


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def expect_equal(got, wanted, what):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}")
