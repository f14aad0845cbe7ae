"""The operators of ONNX as functions of tensors, and the table that finds them."""

from __future__ import annotations

from . import (
    activations,
    attention,
    casting,
    control,
    generation,
    indexing,
    losses,
    normalization,
    pointwise,
    pooling,
    products,
    recurrent,
    reductions,
    resizing,
    shapes,
    strings,
    training,
    vision,
)
from .table import TABLE, Entry, find

__all__ = ["TABLE", "Entry", "activations", "attention", "casting", "control", "find", "generation", "indexing",
           "losses", "normalization", "pointwise", "pooling", "products", "recurrent", "reductions", "resizing",
           "shapes", "strings", "training", "vision"]
