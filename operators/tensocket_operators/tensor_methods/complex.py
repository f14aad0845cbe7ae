"""Attributes of complex tensors and of matrices: parts, transposes, conjugate transposes."""

from __future__ import annotations

import warnings
from typing import Any

from tensocket_core import functions
from tensocket_core.tensor import tensor_methods
from tensocket_plugins.contract.errors import ShapeError


def warn_of_number(name: str) -> None:
    """Warn that a 0-dimensional tensor has no matrix to transpose."""
    warnings.warn(f"[{name}] a 0-dimensional tensor — transposing is for matrices — use the tensor itself, or conj()",
                  UserWarning, stacklevel=3)


@tensor_methods
class ComplexAttributes:
    """Attributes and methods of tensors for complex numbers."""

    __slots__ = ()

    @property
    def real(self: Any) -> Any:
        """The real parts, as a view; a real tensor itself. Assignment writes to them."""
        return functions.real(self)

    @real.setter
    def real(self: Any, value: Any) -> None:
        functions.real(self).copy_(value)

    @property
    def imag(self: Any) -> Any:
        """The imaginary parts of a complex tensor, as a view. Assignment writes to them."""
        return functions.imag(self)

    @imag.setter
    def imag(self: Any, value: Any) -> None:
        functions.imag(self).copy_(value)

    @property
    def T(self: Any) -> Any:  # noqa: N802  PyTorch's name
        """The tensor with its dimensions reversed, as a view."""
        if not self._array.shape:
            warn_of_number("T")
        return self.permute(tuple(range(self.ndim - 1, -1, -1)))

    @property
    def mT(self: Any) -> Any:  # noqa: N802  PyTorch's name
        """The tensor with its last two dimensions exchanged; a number itself, with a warning."""
        if not self._array.shape:
            warn_of_number("mT")
            return self.transpose(0, 0)
        if self.ndim < 2:
            raise ShapeError("mT", f"a {self.ndim}-dimensional tensor", "matrices have at least 2 dimensions",
                             "unsqueeze it first")
        return self.transpose(-2, -1)

    @property
    def mH(self: Any) -> Any:  # noqa: N802  PyTorch's name
        """The conjugate transposes of the matrices in the last two dimensions; the conjugate of a number."""
        return functions.adjoint(self)

    @property
    def H(self: Any) -> Any:  # noqa: N802  PyTorch's name
        """The conjugate transpose of a matrix; the conjugate of a number, with a warning.

        Raises:
            ShapeError: The tensor has neither zero nor two dimensions.
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
