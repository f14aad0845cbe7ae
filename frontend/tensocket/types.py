"""Names of types for annotations."""

from __future__ import annotations

import os
from typing import IO, TypeAlias

from tensocket_core import Size as _Size
from tensocket_core import Tensor as Tensor
from tensocket_core import UntypedStorage as Storage
from tensocket_core import device as _device

Number: TypeAlias = int | float | bool
Device: TypeAlias = _device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]

_int = int
_float = float
_bool = bool
_size: TypeAlias = _Size | list[int] | tuple[int, ...]

__all__ = ["Device", "FileLike", "Number", "Storage"]
