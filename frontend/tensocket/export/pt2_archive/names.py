"""Names in files that generated code contains."""

from __future__ import annotations

import keyword
import re
from typing import Any, Final

_PATH: Final = re.compile(r"[\w@-]+(\.[\w@-]+)*")


def identifier_of(name: Any) -> str:
    """Return a name that generated code may contain.

    Raises:
        ValueError: It is not an identifier.
    """
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{str(name)[:80]!r} is not a name")
    return name


def path_of(path: Any) -> str:
    """Return the path of a parameter, buffer or constant.

    Raises:
        ValueError: It is not a path.
    """
    if not isinstance(path, str) or not _PATH.fullmatch(path) or any(x.startswith("__") for x in path.split(".")):
        raise ValueError(f"{str(path)[:80]!r} is not the path of a tensor")
    return path
