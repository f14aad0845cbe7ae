"""Derivatives of functions; see ``func``."""

from __future__ import annotations

from typing import Any

from tensocket_core.transforms.arguments import chosen, picked
from tensocket_operators.transforms import (
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
)


def _slice_argnums(args: tuple[Any, ...], argnums: int | tuple[int, ...], as_tuple: bool = True) -> Any:
    """Return the arguments at these positions; for one position, a tuple with one argument or the argument itself.

    Raises:
        AutogradError: ``argnums`` is not an int or a tuple of ints, or names an argument twice or a missing one.
    """
    chosen("argnums", args, argnums)
    found = picked(args, argnums)
    return (found,) if as_tuple and isinstance(argnums, int) else found


__all__ = ["functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]
