"""The operator records, by family. Importing this package defines them all."""

from __future__ import annotations

from . import arithmetic, indexing, inplace, matmul, movement, nn, pointwise, rearrangement, reduction, subscript

__all__ = [
    "arithmetic",
    "indexing",
    "inplace",
    "matmul",
    "movement",
    "nn",
    "pointwise",
    "rearrangement",
    "reduction",
    "subscript",
]
