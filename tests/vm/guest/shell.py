"""Running programs with every failure named, and waiting for things that happen."""
import os
import subprocess
import time

# Under --icount an idle guest's clock runs ahead of the host that it waits for: every time-out is longer there.
PATIENCE = float(os.environ.get("FABRIC_PATIENCE", "1"))


class CommandFailed(Exception):
    """A program ended with another status than expected; the message holds its output."""


def run(*command, check=True, timeout=120, **options):
    """Output of the command (stdout and stderr together, stripped)."""
    timeout *= PATIENCE
    try:
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              stdin=subprocess.DEVNULL, timeout=timeout, errors="replace", **options)
    except subprocess.TimeoutExpired as late:
        raise CommandFailed(f"{' '.join(map(str, command))}: no end after {timeout} s") from late
    if check and done.returncode != 0:
        raise CommandFailed(f"{' '.join(map(str, command))}: status {done.returncode}: {done.stdout.strip()[-2000:]}")
    return done.stdout.strip()


def wait_until(condition, timeout, what):
    """Polls until condition() is true; raises TimeoutError with `what` after `timeout` seconds."""
    timeout *= PATIENCE
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"after {timeout} s still waiting for: {what}")
        time.sleep(0.05)
