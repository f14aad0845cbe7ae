"""Runs a few lines of Python in a process of their own, for what can't be seen or survived in this one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

from ..numerics import Failure

#: Seconds that a child may take: a device's first use compiles kernels.
LIMIT = 120.0


def run_child(code: str, *arguments: str, environ: Mapping[str, str] | None = None) -> str:
    """Standard output of ``code``, which sees ``arguments`` as ``sys.argv[1:]``.

    Raises:
        Failure: It failed, was killed by a signal, or took too long.
    """
    try:
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=LIMIT,
                              env={**os.environ, **(environ or {})}, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"a child process did not end within {LIMIT:.0f} s") from None
    if done.returncode:
        tail = done.stderr.strip().splitlines()[-3:]
        how = f"was killed by signal {-done.returncode}" if done.returncode < 0 else f"exited with {done.returncode}"
        raise Failure(f"a child process {how}: {' | '.join(tail)}")
    if done.stderr.strip():
        raise Failure(f"a child process wrote to stderr: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout
