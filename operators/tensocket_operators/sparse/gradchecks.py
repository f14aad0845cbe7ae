"""Checks of gradients of sparse inputs against differences, as functions of dense tensors of values."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ..differentiation.gradcheck import SPARSE
from .construct import sparse_coo_tensor
from .layouts import coo_positions, dense_of, in_layout_of, split_positions
from .tensor import is_sparse, wrap_sparse


def _parts(source: Any, masked: bool) -> tuple[Any, Callable[[Any], Any]]:
    """Return a leaf of values, and the function that makes the sparse tensor from it."""
    if masked:
        leaf = source.raw.detach().clone()
        return leaf, lambda v: wrap_sparse(source.positions, v, source.shape, source._kind, source.coalesced)
    count = source.sparse_dim() if source.is_sparse else coo_positions(source).shape[0]
    sizes = tuple(source.shape[:count])
    positions = split_positions(source.raw.new_zeros(()).new_arange(0, math.prod(sizes), 1), sizes)
    leaf = dense_of(source.alias()).reshape((math.prod(sizes), *source.shape[count:])).clone()

    def assembled(values: Any) -> Any:
        made = sparse_coo_tensor(positions, values, tuple(source.shape), is_coalesced=True)
        return made if source.is_sparse else in_layout_of(made, source)

    return leaf, assembled


def strided_check(function: Callable[..., Any], inputs: tuple[Any, ...],
                  masked: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a function of dense tensors that computes the same as one of sparse tensors, and its inputs.

    Args:
        function: Takes the inputs.
        inputs: Inputs, some of them sparse.
        masked: Whether only stored elements vary; otherwise all do.
    """
    made: list[Any] = []
    builders: list[Callable[[Any], Any] | None] = []
    for value in inputs:
        if is_sparse(value) and value.requires_grad:
            leaf, builder = _parts(value, masked)
            made.append(leaf.requires_grad_())
            builders.append(builder)
        else:
            made.append(value)
            builders.append(None)

    def plain(*given: Any) -> Any:
        outputs = function(*(x if b is None else b(x) for x, b in zip(given, builders, strict=True)))
        if isinstance(outputs, (tuple, list)):
            return tuple(x.to_dense(masked_grad=masked) if is_sparse(x) else x for x in outputs)
        return outputs.to_dense(masked_grad=masked) if is_sparse(outputs) else outputs

    return plain, tuple(made)


def as_sparse_gradcheck(gradcheck: Callable[..., Any]) -> Callable[..., Any]:
    """Extend a check of gradients like ``differentiation.gradcheck`` to sparse inputs and outputs.

    Args:
        gradcheck: Takes a function and its inputs, as ``differentiation.gradcheck`` does. The extended check has an
            argument ``masked``: whether gradients are those of the stored elements (by default, those of all).
    """

    @functools.wraps(gradcheck)
    def extended(function: Callable[..., Any], inputs: Any, **kwargs: Any) -> Any:
        masked = bool(kwargs.pop("masked", False))
        given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        plain, values = strided_check(function, given, masked)
        if any(map(is_sparse, given)):
            kwargs["check_batched_grad"] = False  # positions are not batched
        return gradcheck(plain, values, masked=masked, **kwargs)

    return extended


SPARSE.append(strided_check)
__all__ = ["as_sparse_gradcheck"]
