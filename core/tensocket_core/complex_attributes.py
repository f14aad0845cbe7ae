"""Attributes of complex tensors: their parts, conjugate transposes, the number behind one element."""

from __future__ import annotations

import warnings
from typing import Any

from tensocket_plugins.contract.errors import ArgumentError, ShapeError

from ._generated import functions


def warn_of_number(name: str) -> None:
    """Warn that a 0-dimensional tensor has no matrix that could be transposed."""
    warnings.warn(f"[{name}] a 0-dimensional tensor — transposing is for matrices — use the tensor itself, or conj()",
                  UserWarning, stacklevel=3)


class ComplexAttributes:
    """What tensors have because they may be complex."""

    __slots__ = ()

    @property
    def real(self: Any) -> Any:
        """The real parts, a view; a real tensor itself. Assigning writes them."""
        return functions.real(self)

    @real.setter
    def real(self: Any, value: Any) -> None:
        functions.real(self).copy_(value)

    @property
    def imag(self: Any) -> Any:
        """The imaginary parts of a complex tensor, a view. Assigning writes them."""
        return functions.imag(self)

    @imag.setter
    def imag(self: Any, value: Any) -> None:
        functions.imag(self).copy_(value)

    @property
    def mH(self: Any) -> Any:  # noqa: N802  PyTorch's name
        """Conjugate transposes of the matrices in the last two dimensions; a number's is its conjugate."""
        return functions.adjoint(self)

    @property
    def H(self: Any) -> Any:  # noqa: N802  PyTorch's name
        """The conjugate transpose of a matrix; a number's is its conjugate, with a warning.

        Raises:
            ShapeError: The tensor has another number of dimensions than two.
        """
        rank = len(self._array.shape)
        if rank == 0:
            warn_of_number("H")
            return self.conj()
        if rank != 2:
            raise ShapeError("H", f"a {rank}-dimensional tensor", "a matrix has 2 dimensions", "use .mH for batches")
        return functions.adjoint(self)

    def __complex__(self: Any) -> complex:
        return complex(self.item())


def real_number(operator: str, value: Any) -> Any:
    """A Python number that is no complex one; the real part of a complex one without imaginary part.

    Raises:
        ArgumentError: The imaginary part is not zero.
    """
    if type(value) is not complex:
        return value
    if value.imag:
        raise ArgumentError(operator, f"the complex number {value}", "a real number has no imaginary part",
                            "take .real or .abs() first")
    return value.real
