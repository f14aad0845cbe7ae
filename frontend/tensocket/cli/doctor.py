"""``tensocket doctor``: all facts about one backend or all of them, and a self-test of each device."""

from __future__ import annotations

import argparse
import os
import platform
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tensocket_plugins.contract import CONTRACT_VERSION, BackendRecord, State
from tensocket_plugins.contract.entrypoints import closest
from tensocket_plugins.contract.registry import Registry, registry

from . import selftest
from .survey import FAULTS, DeviceRow, backend_rows, memory

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("doctor", help="say everything about one backend, and test its devices", description=(
        "Say everything about one backend, or about all, and let each device compute. The exit code is 1 if the "
        "backend cannot be used or a device computes wrongly. Without NAME, a backend that merely lacks its hardware "
        "or driver, or is excluded, does not count."))
    parser.add_argument("name", nargs="?", metavar="NAME", help="a backend, such as opencl (default: all)")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    backends = registry()
    chosen = [options.name] if options.name else backends.names()
    rows = {name: backend_rows(backends, name) for name in chosen}
    print("\n".join(_environment(backends)))
    healthy = [_examine(rows[name]) for name in chosen]
    if options.name:
        return int(not all(healthy))
    ill = [name for name, fine in zip(chosen, healthy, strict=True)
           if not fine and (rows[name][0].record.state in FAULTS or rows[name][0].record.state.usable)]
    print(f"\n{len(chosen)} backend{'' if len(chosen) == 1 else 's'} examined, ill: {', '.join(ill) or 'none'}")
    return int(bool(ill))


def _environment(backends: Registry) -> Iterator[str]:
    """Print versions and environment variables that apply to all backends."""
    yield f"Python {platform.python_version()} ({sys.executable}) on {platform.platform()}"
    yield f"contract {_version(CONTRACT_VERSION)}"
    for variable, value in sorted(os.environ.items()):
        if variable.startswith("TENSOCKET_"):
            yield f"{variable}={value}"
    switches, names = backends.switches(), backends.names()
    for name in sorted(((switches.allow or frozenset()) | switches.deny) - set(names)):
        match = closest(name, names)
        yield f"note: the switches name '{name}', which is not installed" + (f"; '{match}' is" if match else "")


def _examine(rows: list[DeviceRow]) -> bool:
    """Print all facts about one backend and test its devices; return whether it works."""
    record = rows[0].record
    print(f"\n{record.name}: {record.state.value}")
    for label, value in _facts(record):
        print(f"  {label:<13} {value}")
    if record.traceback and record.state is not State.UNAVAILABLE:  # The reason says what is missing.
        print("".join(f"    {line}\n" for line in record.traceback.splitlines()), end="")
    if not record.state.usable:
        return False
    healthy = [_examine_device(row) for row in rows]
    return all(healthy)


def _facts(record: BackendRecord) -> Iterator[tuple[str, str]]:
    if record.reason:
        yield "reason", record.reason
    if record.advice:
        yield "next step", record.advice
    yield "distribution", f"{record.origin or 'unknown'} (entry point {record.entry_point})"
    if record.load_seconds:
        yield "loading", f"{record.load_seconds * 1e3:.0f} ms, of which probe() {record.probe_seconds * 1e3:.1f} ms"
    if record.descriptor is None:
        return
    profile = record.descriptor.profile
    first, end = record.descriptor.contract
    yield "contract", f"{_version(first)} up to, but not including, {_version(end)}"
    yield "dtypes", " ".join(sorted(profile.dtypes)) or "none"
    yield "features", " ".join(sorted(profile.features)) or "none"
    if profile.host_kernels:
        yield "on the host", " ".join(sorted(profile.host_kernels))


def _examine_device(row: DeviceRow) -> bool:
    if row.info is None:
        print(f"  {row.name}\n    {row.reason}\n    next step: {row.advice}")
    else:
        print(f"  {row.name}\n    {row.info.model}, {memory(row.info.memory)}, {row.info.driver}")
        for key, value in row.info.details.items():
            print(f"    {key}: {value}")
    outcome = selftest.run(row.name)
    print(f"    self-test {outcome.summary}")
    if outcome.output:
        print("".join(f"      {line}\n" for line in outcome.output.splitlines()), end="")
    return outcome.passed and row.info is not None


def _version(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
