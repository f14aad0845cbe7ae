"""The parts of tensors' text form, from which subclasses of libraries make their own."""

from __future__ import annotations

from typing import Any

import tensocket as torch
from tensocket.nn import Parameter
from tensocket_operators import get_printoptions, printoptions, set_printoptions
from tensocket_operators.tensor_methods.printing import PRINT_OPTIONS as PRINT_OPTS
from tensocket_operators.tensor_methods.printing import format_values as _tensor_str
from tensocket_operators.tensor_methods.printing import with_suffixes as _add_suffixes

__all__ = ["PRINT_OPTS", "_add_suffixes", "_str", "_str_intern", "_tensor_str", "get_printoptions", "printoptions",
           "set_printoptions"]


def _str_intern(inp: Any, *, tensor_contents: str | None = None) -> str:
    """Return the text of a tensor in this package's form, whatever ``__repr__`` its subclass defines.

    Args:
        inp: The tensor.
        tensor_contents: Text for the values.
    """
    own: Any = next(kind for kind in type(inp).__mro__ if kind.__module__.partition(".")[0].startswith("tensocket")
                    and "__repr__" in vars(kind) and kind is not Parameter)
    return str(own.__repr__(inp, tensor_contents=tensor_contents))


def _str(self: Any, *, tensor_contents: str | None = None) -> str:
    """Return the same text with modes off, which do not see the operators that printing calls."""
    with torch.no_grad(), torch.utils._python_dispatch._disable_current_modes():
        return _str_intern(self, tensor_contents=tensor_contents)
