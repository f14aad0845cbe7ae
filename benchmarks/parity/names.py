"""List the names of PyTorch that programs use and tensocket lacks.

    python benchmarks/parity/names.py TABLE.tsv ... [--min 5]

A table has a line for each name, with the number of programs that use it in the second column. It marks names that
PyTorch 2.13 no longer has with "absent"; the program lists them, but counts only those in ``STILL_ASKED_FOR``.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

#: Missing names, with the reasons.
ARGUED: Final = {
    "torch.distributed.algorithms": "wraps parts of sharded models; there is one process",
    "torch.distributed.checkpoint": "reads and writes the shards of several processes; there is one process",
    "torch.distributed.tensor": "tensors divided over several processes; there is one process",
    "torch._six": "PyTorch removed it in 1.13; programs that ask for it do not run on PyTorch 2 either",
    "torch.utils.data.read": "no name of PyTorch: a local module of the programs",
}
#: Names that PyTorch 2.13 lacks unless a package of their name is installed.
STILL_ASKED_FOR: Final = ("torch.utils.tensorboard",)


def rows(table: Path) -> Iterator[tuple[str, int, bool]]:
    """Yield names with the number of programs, and whether PyTorch lacks them."""
    for line in table.read_text().splitlines()[1:]:
        name, count = line.split("\t")[:2]
        yield re.sub(r" [\[(].*", "", name), int(count), "[absent" in name


def resolves(name: str) -> bool:
    """Whether attributes and imports lead from ``torch`` to a name."""
    path = "tensocket"
    found: object = importlib.import_module(path)
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        try:
            found = getattr(found, part)
        except (AttributeError, ModuleNotFoundError):
            try:
                found = importlib.import_module(path)
            except ImportError:
                return False
    return True


def argument(name: str) -> str:
    """Return the reason why a name is missing; empty if ``ARGUED`` has none."""
    return next((why for start, why in ARGUED.items() if f"{name}.".startswith(f"{start}.")), "")


def main() -> int:
    """Print the missing names of each table; fail if one is neither rare nor in ``ARGUED``."""
    parser = argparse.ArgumentParser(description="Names of PyTorch that programs use and that are missing.")
    parser.add_argument("tables", nargs="+", type=Path)
    parser.add_argument("--min", type=int, default=1, help="programs that use a name that must not be missing")
    options = parser.parse_args()
    failures = 0
    for table in options.tables:
        names = list(rows(table))
        missing = [row for row in names if not resolves(row[0])]
        for name, count, absent in missing:
            why = argument(name) or ("PyTorch lacks it, too" if absent and not name.startswith(STILL_ASKED_FOR) else "")
            failures += not why and count >= options.min
            print(f"{name}\t{count}\t{why or 'MISSING'}")
        print(f"{table.name}: {len(names) - len(missing)} of {len(names)} names resolve")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
