"""Generator of the tables of operators in docs/onnx.md, from the tables of the code.

    python tools/generate_onnx_table.py [--check]

The page keeps everything outside of the two comments around the tables. The second table needs the package onnx_ir.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Final

import generated_files

from tensocket.onnx.operators import TABLE

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "onnx.md"
_BEGIN, _END = "<!-- operators -->\n", "<!-- end of operators -->"
_WIDTH: Final = 118


def families() -> dict[str, list[str]]:
    """Return the operators of each family, with the versions from which on their functions serve."""
    found: dict[str, list[str]] = {}
    for (domain, name), entries in sorted(TABLE.items()):
        label = f"{domain}::{name}" if domain else name
        versions = ", ".join(str(entry.since) for entry in sorted(entries))
        text = f"`{label}`" if versions == "1" else f"`{label}` ({versions})"
        found.setdefault(_family(name), []).append(text)
    return found


def _family(name: str) -> str:
    """Return the module of ``operators/`` that names an operator."""
    folder = PAGE.parents[1] / "frontend" / "tensocket" / "onnx" / "operators"
    return next(path.stem for path in sorted(folder.glob("*.py")) if f'"{name}"' in path.read_text("utf-8"))


def exported() -> dict[str, list[str]]:
    """Return the operators of ATen that our functions translate, by family."""
    importlib.import_module("tensocket.onnx.exporting.translation")  # it imports the modules that fill the table
    from tensocket.onnx.exporting.functions import OWN

    found: dict[str, list[str]] = {}
    for name, function in sorted(OWN.items()):
        if name not in ("view_dtype", "embedding_bag"):
            found.setdefault(function.__module__.rpartition(".")[2], []).append(f"`{name}`")
    return found


def _table(head: tuple[str, str], rows: dict[str, list[str]]) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "|---|---|"]
    return "\n".join([*lines, *[f"| {name} | {', '.join(items)} |" for name, items in sorted(rows.items())]])


def text_of(page: str) -> str:
    """Return the page with new tables."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    tables = [_table(("module of `operators/`", "operators of ONNX that are imported"), families()),
              "Operators of ATen whose export is ours; onnxscript's torch_lib has the others:",
              _table(("module of `exporting/`", "operators"), exported())]
    return before + _BEGIN + "\n" + "\n\n".join(tables) + "\n\n" + _END + after


def main(arguments: list[str] | None = None) -> int:
    """Write the page, or compare it."""
    return generated_files.run(arguments, __doc__, PAGE.parent,
                               lambda: {PAGE.name: text_of(PAGE.read_text("utf-8"))})


if __name__ == "__main__":
    raise SystemExit(main())
