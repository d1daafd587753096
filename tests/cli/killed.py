"""Runs a pipeline again and again, killed at ever later moments, and at last to its end.

A child that was forked has all modules and kernels, and begins at once. Prints how often one was killed.
The last run is that of another file, which may say that there are fewer checkpoints.
"""

import os
import signal
import sys
import time
from pathlib import Path

from muntin.cli.app import main

KILLS = 8


def run(arguments: list[str], checkpoint: Path, seconds: float) -> int | None:
    """Run in a child; kill it so many seconds after it has written its next checkpoint."""
    before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
    child = os.fork()
    if child == 0:
        sys.argv = ["muntin", *arguments]
        os._exit(main())
    while True:
        gone, status = os.waitpid(child, os.WNOHANG)
        if gone:
            return os.waitstatus_to_exitcode(status)
        if checkpoint.exists() and checkpoint.stat().st_mtime_ns > before:
            break
        time.sleep(0.001)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if code == -signal.SIGKILL else code


if __name__ == "__main__":
    checkpoint, warmup, last, *arguments = sys.argv[1:]
    sys.argv = ["muntin", *arguments[:-1], warmup]
    assert main() == 0  # kernels are loaded before children are made
    kills = 0
    while kills < KILLS and (code := run(arguments, Path(checkpoint), 0.003 + 0.007 * kills)) is None:
        kills += 1
    print(kills)
    sys.argv = ["muntin", *arguments[:-1], last]
    sys.exit(main())
