"""Types of schemas, as generated stubs name them: only type checkers and editors read this module."""

import builtins
from typing import TypeAlias

from .assembly import Tensor

# Some methods are called like built-in types.
_int: TypeAlias = builtins.int
_bool: TypeAlias = builtins.bool
_float: TypeAlias = builtins.float
Scalar: TypeAlias = bool | int | float | complex
Operand: TypeAlias = Tensor | Scalar
