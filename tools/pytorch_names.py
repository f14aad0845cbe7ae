"""Lister of PyTorch's documented names: it writes ``pytorch_names.txt``, and runs where PyTorch is installed.

    python tools/pytorch_names.py FOLDER

FOLDER holds the sources of PyTorch's documentation (``docs/source`` of its repository). The list has what these pages
document, by directive or in a summary, and everything that documented modules below ``torch`` export, if the installed
PyTorch has it.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

_MODULE: Final = re.compile(r"\.\. (currentmodule|automodule|module|py:module):: *([\w.]+)")
_MEMBERS: Final = re.compile(r" +:members:")
_DIRECTIVE: Final = re.compile(
    r" *\.\. (?:auto)?(?:function|class|exception|data|attribute|method|property|decorator):: *([\w.]+)")
_SUMMARY: Final = re.compile(r" *\.\. autosummary::")
_ENTRY: Final = re.compile(r" +~?([\w.]+)$")
#: Modules that are PyTorch's own tools and tests, or another language's.
_SKIPPED: Final = ("torch.testing._", "torch.utils.benchmark.utils", "torch.utils.bottleneck", "torch.utils.hipify")


def documented(page: str) -> Iterator[tuple[str, str]]:
    """Yield each name in a page, with the module that is current there; no name for a module with all its members."""
    module, is_documented, in_summary = "torch", False, False
    for line in page.splitlines():
        if found := _MODULE.match(line):
            module, is_documented = found[2], found[1] == "automodule"
        elif _MEMBERS.match(line) and is_documented:
            yield "", module
        elif found := _DIRECTIVE.match(line):
            is_documented = False
            yield found[1], module
        elif in_summary and (found := _ENTRY.match(line)):
            yield found[1], module
        in_summary = bool(_SUMMARY.match(line)) or (in_summary and (not line.strip() or line.startswith(" ")))


def resolved(path: str) -> Any:
    """Return the object at a dotted path below ``torch``; None if there is none."""
    head, _, name = path.rpartition(".")
    parent = resolved(head) if head else import_module(path)
    found = getattr(parent, name, None) if head else parent
    if found is None and isinstance(parent, ModuleType) and not name.startswith("_"):
        try:
            found = import_module(path)
        except ImportError:
            return None
    return found


def names(folder: Path) -> set[str]:
    """Return the full names that exist in the installed PyTorch."""
    found, modules = set(), set()
    for path in sorted(folder.rglob("*.rst")):
        for name, module in documented(path.read_text("utf-8")):
            if not name:
                modules.add(module)
                continue
            tried = (name,) if name.startswith("torch.") else (f"{module}.{name}", f"torch.{name}")
            found.update([full for full in tried if resolved(full) is not None][:1])
    for module in modules - {"torch"}:  # which also exports what its engine in C++ has
        thing = resolved(module)
        if isinstance(thing, ModuleType):
            found |= {f"{module}.{name}" for name in getattr(thing, "__all__", ()) if hasattr(thing, name)}
    return {name for name in found if name.startswith("torch.") and not name.startswith(_SKIPPED)
            and not any(part.startswith("_") for part in name.split("."))}


def text_of(found: set[str]) -> str:
    """Return the list: a paragraph for each module or class, with its names."""
    owners: dict[str, list[str]] = {}
    for full in sorted(found):
        owner, _, name = full.rpartition(".")
        owners.setdefault(owner, []).append(name)
    return "\n".join(f"{owner}:\n{textwrap.fill(' '.join(known), 118, initial_indent='  ', subsequent_indent='  ')}"
                     for owner, known in owners.items()) + "\n"


if __name__ == "__main__":
    version = import_module("torch").__version__.partition("+")[0]
    Path(__file__).with_suffix(".txt").write_text(f"# PyTorch {version}\n{text_of(names(Path(sys.argv[1])))}", "utf-8")
