"""Runs of a few lines of Python in a separate process, for effects that this process can't observe or survive."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from ..case import Excluded
from ..numerics import Failure
from ..subject import Subject

#: Maximum duration of a child in seconds; a device's first use compiles kernels.
LIMIT: Final = 120.0
#: Entry-point group of backends.
GROUP: Final = "tensocket.backends"
NO_ENTRY_POINT: Final = "the backend was added by this process and has no entry point"


def entry_points_of(name: str) -> list[EntryPoint]:
    """Return the installed entry points of a device name; there must be exactly one."""
    return [point for point in entry_points(group=GROUP) if point.name == name]


def run_on_device(code: str, subject: Subject) -> str:
    """Run ``code`` with the device's name in ``sys.argv[1]``, and return its standard output.

    Raises:
        Excluded: Another process would not find the device.
        Failure: See ``run_child``.
    """
    if not entry_points_of(subject.name):
        raise Excluded(NO_ENTRY_POINT)
    return run_child(code, subject.device)


def run_child(code: str, *arguments: str, environ: Mapping[str, str] | None = None) -> str:
    """Run ``code`` with ``arguments`` as ``sys.argv[1:]``, and return its standard output.

    Raises:
        Failure: The process failed, was killed by a signal, or took too long.
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
