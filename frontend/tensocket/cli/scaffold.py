"""``tensocket new-backend``: the package of a new backend, which passes conformance tier T0 without changes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tensocket_plugins.contract.admission import name_fault
from tensocket_plugins.contract.registry import registry

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = commands.add_parser("new-backend", help="write the package of a new backend",
                                 description="Write the package of a new backend, ready to be installed and filled in.")
    parser.add_argument("name", metavar="NAME", help="the device name")
    parser.add_argument("--path", metavar="DIR", type=Path, default=Path(),
                        help="where to write its folder (default: the working directory)")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    name: str = options.name
    installed = registry().names()
    fault = f"a backend named '{name}' is installed" if name in installed else name_fault(name, installed)
    if fault:
        print(f"tensocket new-backend: '{name}' — {fault} — choose another name", file=sys.stderr)
        return 2
    from tensocket_plugins.kit.scaffold import write_backend  # only this command needs it

    try:
        folder = write_backend(name, options.path)
    except OSError as error:
        print(f"tensocket new-backend: {options.path} — {error} — choose another folder with --path", file=sys.stderr)
        return 2
    print(f"wrote {folder}\nnext steps:\n  pip install -e {folder}\n  tensocket doctor {name}\n"
          f"  tensocket conformance {name}")
    return 0
