"""Types for annotations."""

from __future__ import annotations

import os
from typing import IO, TypeAlias

from tensocket_core import device as _device
from tensocket_operators import Size as _Size
from tensocket_operators import Tensor as Tensor
from tensocket_operators import UntypedStorage as Storage
from tensocket_plugins.contract.dtypes import DType

Number: TypeAlias = int | float | bool
Device: TypeAlias = _device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]

_dtype = DType
_int = int
_float = float
_bool = bool
_str = str
_bytes = bytes
_complex = complex
_size: TypeAlias = _Size | list[int] | tuple[int, ...]

__all__ = ["Device", "FileLike", "Number", "Storage"]
