"""Steps of a library that multiply matrices: which operand is packed, and which weights ``name_init`` packs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tensocket_plugins.contract.dtypes import DType

from .cblas import has_blas
from .interface import c_type
from .plan import Number, Operand, PlannedStep
from .polynomials import Polynomial
from .products import Matrices, Value, product_call

#: Columns from which a constant first operand becomes the second one of the transposed product, to be packed once.
_WIDE: Final = 16
#: Filters of an image below which most lanes of a tile would have no column.
_FEW: Final = 4
#: Bytes of the widest vector: panels of packed columns are no larger than with these.
_VECTOR: Final = 64


@dataclass(frozen=True, slots=True)
class Packing:
    """Matrices of a block that ``name_init`` packs.

    Attributes:
        dtype: The dtype.
        block: The block.
        offset: The first element there.
        numbers: The number of matrices, the step between them, k, n, and the steps of these.
        place: Where the packed matrices begin, in bytes.
    """

    dtype: DType
    block: int
    offset: int
    numbers: tuple[int, ...]
    place: int


class PackedWeights:
    """Matrices that ``name_init`` packs.

    Args:
        is_constant: Whether a block has the same contents in all calls.
        names: Names of the sizes that change.
        blas: Whether BLAS multiplies plain matrices, which are not packed then.

    Attributes:
        nbytes: Bytes of all packed matrices.
        calls: The packings, in order.
    """

    def __init__(self, is_constant: Callable[[int], bool], names: Sequence[str], *, blas: bool = False) -> None:
        self._is_constant, self._names, self._blas = is_constant, names, blas
        self._places: dict[tuple[object, ...], int] = {}
        self.nbytes = 0
        self.calls: list[Packing] = []

    def step(self, step: PlannedStep, element: Callable[[Operand], str]) -> str:
        """Return a product as C; ``element`` returns the pointer to the first element of an operand."""
        given = Matrices.of_numbers([_value(x) for x in step.numbers])
        out, x, y = step.operands
        if self._blas and given.is_plain and has_blas(out.dtype):
            return product_call(out.dtype, given, "TS_PANELS", [element(out), element(x), element(y)], self._text)
        if given.is_plain and not self._is_constant(y.block) and self._is_wide(x, given):
            given, x, y = given.transposed(), y, x
        pointers, form = [element(out), element(x), element(y)], "TS_PANELS"
        columns = given.sizes[-2]
        if not given.is_plain and isinstance(columns, int) and columns < _FEW:
            form = "TS_LINES"
        elif (numbers := self._numbers(y, given)) is not None:
            place, batch = self._place(y, numbers), _matrices(given)
            steps = [int(k in batch) for k in range(len(given.x))]
            given, form = replace(given, y=(*steps, *given.y[-2:])), "TS_PACKED"
            pointers[2] = f"(const {c_type(y.dtype)} *)(self->packed + {place})"
        return product_call(out.dtype, given, form, pointers, self._text)

    def _text(self, value: Value) -> str:
        return str(value) if isinstance(value, int) else value.text(self._names)

    def _is_wide(self, x: Operand, given: Matrices) -> bool:
        """Whether the transposed product has packed columns, and enough of them."""
        m = given.sizes[-3]
        return isinstance(m, int) and m >= _WIDE and self._numbers(x, given.transposed()) is not None

    def _numbers(self, y: Operand, given: Matrices) -> tuple[int, ...] | None:
        """Return how many matrices y has, their step, k, n, and the steps of these; None if y is not to be packed."""
        batch = _matrices(given)
        if len(batch) > 1 or not self._is_constant(y.block) or not y.offset.is_constant:
            return None
        count, step = (given.sizes[batch[0]], given.y[batch[0]]) if batch else (1, 0)
        n, k = given.sizes[-2:]
        numbers = (count, step, k, n, *given.y[-2:])
        whole = tuple([x for x in numbers if isinstance(x, int)])
        return whole if len(whole) == len(numbers) else None

    def _place(self, y: Operand, numbers: tuple[int, ...]) -> int:
        """Return the place of the packed y, in bytes."""
        offset = _constant(y.offset)
        key = y.block, offset, y.dtype, numbers
        if key not in self._places:
            self._places[key] = self.nbytes
            self.calls.append(Packing(y.dtype, y.block, offset, numbers, self.nbytes))
            count, _, k, n, *_ = numbers
            self.nbytes += count * k * _rounded(n * y.dtype.itemsize)
        return self._places[key]


def _matrices(given: Matrices) -> list[int]:
    """Return the batch dimensions along which y changes."""
    return [d for d, (size, step) in enumerate(zip(given.sizes, given.y[:-2], strict=False)) if step != 0 and size != 1]


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _VECTOR) * _VECTOR


def _constant(value: Polynomial) -> int:
    return sum(factor for _, factor in value.terms)


def _value(number: Number) -> Value:
    """Return a number of a product, as an integer if it is the same for all sizes."""
    value = number.value
    assert isinstance(value, Polynomial)
    return _constant(value) if value.is_constant else value
