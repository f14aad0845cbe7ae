"""Writer of the table in docs/libraries.md that counts the libraries' own tests.

    python tools/library_tests.py RESULTS

RESULTS is a folder with outcomes as ``pytest_outcomes.py`` writes them: ``NAME.jsonl`` of a library's tests here, and
``NAME.pytorch.jsonl`` of those among them that failed, on PyTorch. A test counts if it passes here, or fails here and
passes on PyTorch; a failed one that did not run on PyTorch counts as failed. The page keeps everything outside of the
two comments around the table.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "libraries.md"
_BEGIN, _END = "<!-- tests -->\n", "<!-- end of tests -->"


def outcomes(file: Path) -> dict[str, str]:
    """Return the outcome of every test in a file; of several outcomes, a failure."""
    found: dict[str, str] = {}
    for line in file.read_text("utf-8").splitlines() if file.exists() else ():
        name, outcome = json.loads(line)[:2]
        if not name.endswith("::COLLECT") and found.get(name) != "failed":
            found[name] = outcome
    return found


def count(folder: Path, library: str) -> tuple[int, int]:
    """Return how many tests pass here, and how many count."""
    here, there = outcomes(folder / f"{library}.jsonl"), outcomes(folder / f"{library}.pytorch.jsonl")
    passed = sum(outcome == "passed" for outcome in here.values())
    failed = sum(outcome == "failed" and there.get(name, "passed") == "passed" for name, outcome in here.items())
    return passed, passed + failed


def table(folder: Path) -> str:
    """Return the table: one line for each library, and the sum."""
    lines = ["| Library | Passed | Of those that pass on PyTorch |", "|---|---|---|"]
    names = sorted(file.stem for file in folder.glob("*.jsonl") if not file.stem.endswith(".pytorch"))
    counts = [(name, *count(folder, name)) for name in names]
    for name, passed, total in [*counts, ("all", sum(c[1] for c in counts), sum(c[2] for c in counts))]:
        share = f" ({100 * passed / total:.1f} %)" if total else ""
        lines.append(f"| {name} | {passed} | {total}{share} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page; return 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("results", type=Path)
    options = parser.parse_args(argv)
    made = _BEGIN + table(options.results) + _END
    PAGE.write_text(re.sub(f"{_BEGIN}.*{_END}", lambda _: made, PAGE.read_text("utf-8"), flags=re.DOTALL), "utf-8")
    return 0


if __name__ == "__main__":
    import sys

    sys.exit(main())
