"""The writer of packages for new backends: small, complete, and passing conformance before its author has begun."""

from __future__ import annotations

import keyword
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from ..contract.admission import name_fault
from ..contract.errors import ArgumentError, ArgumentTypeError

#: Device names of tensocket's own backends.
TAKEN: Final = frozenset({"cpu", "cuda", "opencl", "ref"})
_SUFFIX: Final = ".tmpl"


def write_backend(name: str, folder: Path) -> Path:
    """Write a pip-installable backend package for the device ``name``.

    Args:
        name: The device name.
        folder: Where to put the package's folder, ``tensocket-NAME``; made if it does not exist.

    Returns:
        The package's folder.

    Raises:
        ArgumentTypeError: ``name`` is not a string.
        ArgumentError: ``name`` is not a valid device name or is taken, or the package's folder exists already.
    """
    _check(name)
    target = folder / distribution_name(name)
    if target.exists():
        raise ArgumentError("new-backend", f"folder '{target}'", "a new backend is written into a new folder",
                            "remove it, or choose another name or folder")
    words = {"{{name}}": name, "{{module}}": module_name(name), "{{distribution}}": distribution_name(name),
             "{{Class}}": "".join(word.capitalize() for word in name.split("_"))}
    for relative, text in _templates(files(__package__) / "templates", ()):
        path = target.joinpath(*(words["{{module}}"] if part == "package" else part for part in relative))
        path.parent.mkdir(parents=True, exist_ok=True)
        for word, value in words.items():
            text = text.replace(word, value)
        path.write_text(text, "utf-8")
    return target


def module_name(name: str) -> str:
    """Return the import name of the package for the device ``name``."""
    return f"tensocket_{name}"


def distribution_name(name: str) -> str:
    """Return the distribution's name of the package for the device ``name``."""
    return f"tensocket-{name.replace('_', '-')}"


def _check(name: object) -> None:
    if not isinstance(name, str):
        raise ArgumentTypeError("new-backend", f"{type(name).__name__} {name!r}", "a device is named by a string",
                                "pass a name such as 'mychip'")
    fault = f"the name '{name}' is taken by tensocket" if name in TAKEN else name_fault(name, TAKEN)
    if not fault and keyword.iskeyword(name):
        fault = f"'{name}' is a word of the Python language"
    if fault:
        raise ArgumentError("new-backend", f"name '{name}'", fault, "choose another name, such as 'mychip'")


def _templates(folder: Traversable, path: tuple[str, ...]) -> list[tuple[tuple[str, ...], str]]:
    """Return path without the suffix, and text, of every template below ``folder``."""
    found: list[tuple[tuple[str, ...], str]] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            found += _templates(entry, (*path, entry.name))
        elif entry.name.endswith(_SUFFIX):
            found.append(((*path, entry.name.removesuffix(_SUFFIX)), entry.read_text("utf-8")))
    return found
