"""The operator records, by family. Importing this package defines them all."""

from __future__ import annotations

from . import (
    arithmetic,
    bits,
    complexes,
    decompositions,
    elementary,
    fourier,
    indexing,
    inplace,
    linalg,
    matmul,
    movement,
    nn,
    pointwise,
    rearrangement,
    reduction,
    scan,
    selection,
    sorting,
    subscript,
)

__all__ = [
    "arithmetic",
    "bits",
    "complexes",
    "decompositions",
    "elementary",
    "fourier",
    "indexing",
    "inplace",
    "linalg",
    "matmul",
    "movement",
    "nn",
    "pointwise",
    "rearrangement",
    "reduction",
    "scan",
    "selection",
    "sorting",
    "subscript",
]
