"""The interface of a C library: names, dtypes and shapes of what its functions take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import CompileError
from tensocket_plugins.ir.printers.dialect import C

from .polynomials import Polynomial

#: Elements in C: complex ones are two floats, and halves are their bits.
_COMPLEX: Final = {"complex64": "float", "complex128": "double"}


def c_type(dtype: DType) -> str:
    """Return the C type of an element.

    Raises:
        CompileError: C has none.
    """
    found = _COMPLEX.get(dtype.name) or C.storage.get(dtype.name) or C.types.get(dtype.name)
    if found is None:
        raise CompileError("compile_c", f"a tensor of {dtype.name}", f"elements in C are {', '.join(C.types)} or "
                           "complex", "convert it with .to(dtype)")
    return found


@dataclass(frozen=True, slots=True)
class Argument:
    """An input or an output.

    Attributes:
        name: Its name in C.
        dtype: Its dtype.
        shape: Its sizes.
    """

    name: str
    dtype: DType
    shape: tuple[Polynomial, ...]

    def elements(self, sizes: Sequence[str]) -> str:
        """Return its number of elements as C."""
        if all(n.is_constant for n in self.shape):
            return str(prod([n.at([0] * len(sizes)) for n in self.shape]) * (2 if self.dtype.name in _COMPLEX else 1))
        parts = [f"({n.text(sizes)})" for n in self.shape]
        return " * ".join([*parts, *(["2"] if self.dtype.name in _COMPLEX else [])])

    def sizes(self, sizes: Sequence[str]) -> str:
        """Return its shape as a comment."""
        return f"[{', '.join(n.text(sizes) for n in self.shape)}]"


@dataclass(frozen=True, slots=True)
class SizeRange:
    """A size that changes.

    Attributes:
        name: Its name in C.
        low: The smallest one.
        high: The largest one.
    """

    name: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Interface:
    """Names of a library.

    Attributes:
        name: The prefix of all of its names.
        inputs: The inputs.
        outputs: The outputs.
        states: Path and dtype of each tensor that stays, in the order of the runs.
        sizes: The sizes that change.
        conditions: Comparisons of the sizes that must hold, as C.
    """

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    states: tuple[tuple[str, DType], ...] = ()
    sizes: tuple[SizeRange, ...] = ()
    conditions: tuple[str, ...] = ()

    @property
    def upper(self) -> str:
        """The prefix of constants."""
        return self.name.upper()

    @property
    def size_names(self) -> list[str]:
        """Names of the sizes."""
        return [size.name for size in self.sizes]
