"""The operator records, one module per family."""

from __future__ import annotations

from collections.abc import Iterator

from ..case import Case
from ..record import Operator
from . import (
    activations,
    arrays,
    casts,
    complexes,
    creation,
    elementary,
    images,
    indexing,
    inplace,
    linalg,
    losses,
    matmul,
    movement,
    networks,
    nn,
    numeric,
    pointwise,
    random,
    reduction,
    sparse,
    special,
    statistics,
)

_FAMILIES = (pointwise, inplace, reduction, matmul, movement, indexing, nn, casts, complexes, elementary, arrays,
             linalg, numeric, activations, images, statistics, losses, networks, special, sparse)


def operators() -> list[Operator]:
    """Every record."""
    return [operator for family in _FAMILIES for operator in family.OPERATORS]


def cases(declared: tuple[str, ...]) -> Iterator[Case]:
    """The operator cases of tier T2 for a device that declares the element types ``declared``."""
    for operator in operators():
        yield from operator.cases(declared)
    yield from creation.cases(declared)
    yield from random.cases(declared)
