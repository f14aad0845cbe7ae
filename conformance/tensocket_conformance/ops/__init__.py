"""The operator records, one module per family."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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

#: The modules of the records, one for each family.
FAMILIES = (pointwise, inplace, reduction, matmul, movement, indexing, nn, casts, complexes, elementary, arrays,
             linalg, numeric, activations, images, statistics, losses, networks, special, sparse)


def operators() -> list[Operator]:
    """Return every record."""
    return [operator for family in FAMILIES for operator in family.OPERATORS]


def cases(declared: tuple[str, ...]) -> Iterator[Case]:
    """Yield the operator cases of tier T2 for a device that declares the element types ``declared``."""
    for family in FAMILIES:
        area = family.__name__.rpartition(".")[2]
        for operator in family.OPERATORS:
            yield from (replace(case, area=area) for case in operator.cases(declared))
    yield from (replace(case, area="creation") for case in creation.cases(declared))
    yield from (replace(case, area="random") for case in random.cases(declared))
