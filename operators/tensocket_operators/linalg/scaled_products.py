"""Products of groups of matrices, of matrices with scales, as those of 8-bit numbers have, and of integers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import pairwise
from typing import Any

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, UnsupportedOperator

from ..shapes._functions import cat, stack


class ScalingType(Enum):
    """The elements that share a scale: all, a row (for the second matrix, a column), or a block."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(Enum):
    """The order of scales in memory."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def _single(name: str, given: Any) -> Any:
    """Return the only element of a list, or the value."""
    if not isinstance(given, (list, tuple)):
        return given
    if len(given) != 1:
        raise UnsupportedOperator(name, f"{len(given)} scales of a matrix", "a matrix has one tensor of scales",
                                  "multiply the scales of blocks and of the whole matrix first")
    return given[0]


def _decoded(name: str, matrix: Any, scale: Any, recipe: Any, swizzle: Any, dim: int) -> Any:
    """Return a matrix in float32, times its scales; row-wise scales lie along ``dim``."""
    scale, recipe, swizzle = _single(name, scale), _single(name, recipe), _single(name, swizzle)
    if recipe not in (ScalingType.TensorWise, ScalingType.RowWise) or swizzle not in (None, SwizzleType.NO_SWIZZLE):
        raise UnsupportedOperator(name, f"{recipe} with {swizzle or SwizzleType.NO_SWIZZLE}",
                                  "scales are of the whole matrix or of its rows, in their own order",
                                  "multiply the matrices by the scales of their blocks first")
    count = 1 if recipe is ScalingType.TensorWise else matrix.numel() // matrix.shape[-3 - dim]
    if scale.numel() != count:
        raise ArgumentError(name, f"{scale.numel()} scales for a matrix of shape {list(matrix.shape)}",
                            f"{recipe} has {count} scales", "check the scales' shape")
    if recipe is ScalingType.RowWise:
        scale = scale.reshape((*matrix.shape[:-2], matrix.shape[dim])).unsqueeze(-1 if dim == -2 else -2)
    return matrix.to(dtypes.float32) * scale.to(dtypes.float32)


def int_mm(input: Any, mat2: Any) -> Any:
    """Return the product of two matrices of int8 in int32.

    Args:
        input: Shape ``(n, k)``.
        mat2: Shape ``(k, m)``.

    Raises:
        DtypeError: A matrix has another dtype.
    """
    for matrix in (input, mat2):
        if matrix.dtype is not dtypes.int8:
            raise DtypeError("_int_mm", f"a matrix of {matrix.dtype.name}", "both matrices are int8",
                             "convert to int8, or use mm")
    return input.to(dtypes.int32).mm(mat2.to(dtypes.int32))


def scaled_product(input: Any, mat2: Any, scale_a: Any, scale_b: Any, bias: Any = None,
                   scale_result: Any = None, out_dtype: DType | None = None,
                   use_fast_accum: bool = False) -> Any:
    """Return the product of two matrices times their scales, as ``scaled_mm``: one scale, or one for every row.

    Args:
        input: The first matrix.
        mat2: The second matrix.
        scale_a: Scales of the first matrix.
        scale_b: Scales of the second matrix.
        bias: Added to every row.
        scale_result: Multiplies the result, where this is of 8-bit numbers.
        out_dtype: The result's dtype; None for that of the first matrix.
        use_fast_accum: Whether a less exact sum is allowed.
    """
    recipes = [ScalingType.TensorWise if scale.numel() == 1 else ScalingType.RowWise for scale in (scale_a, scale_b)]
    made = scaled_mm(input, mat2, scale_a, recipes[0], scale_b, recipes[1], bias=bias, output_dtype=dtypes.float32)
    dtype = input.dtype if out_dtype is None else out_dtype
    return (made * scale_result if scale_result is not None and dtype.itemsize == 1 else made).to(dtype)


def scaled_mm(mat_a: Any, mat_b: Any, scale_a: Any, scale_recipe_a: Any, scale_b: Any, scale_recipe_b: Any,
              swizzle_a: Any = None, swizzle_b: Any = None, bias: Any = None,
              output_dtype: DType | None = dtypes.bfloat16, contraction_dim: Sequence[int] = (),
              use_fast_accum: bool = False) -> Any:
    """Return the product of two matrices times their scales, summed in float32.

    Args:
        mat_a: The first matrix.
        mat_b: The second matrix.
        scale_a: Scales of the first matrix.
        scale_recipe_a: The elements that share one of them.
        scale_b: Scales of the second matrix.
        scale_recipe_b: The elements that share one of them.
        swizzle_a: The order of the first scales.
        swizzle_b: The order of the second scales.
        bias: Added to every row.
        output_dtype: The result's dtype; None for that of the first matrix.
        contraction_dim: Not used: matrices of 8-bit numbers have only one form.
        use_fast_accum: Whether a less exact sum is allowed.

    Raises:
        UnsupportedOperator: Blocks have scales.
        ArgumentError: The number of scales is wrong.
    """
    left = _decoded("scaled_mm", mat_a, scale_a, scale_recipe_a, swizzle_a, -2)
    right = _decoded("scaled_mm", mat_b, scale_b, scale_recipe_b, swizzle_b, -1)
    product = left @ right
    return (product if bias is None else product + bias).to(mat_a.dtype if output_dtype is None else output_dtype)


def grouped_mm(mat_a: Any, mat_b: Any, *, offs: Any = None, bias: Any = None,
               out_dtype: DType | None = None) -> Any:
    """Return the products of groups of matrices.

    Args:
        mat_a: Matrices, or one matrix of which groups of rows (of columns, if ``mat_b`` is one too) are factors.
        mat_b: Matrices, or one matrix of which groups of columns (or rows) are factors.
        offs: The end of every group. Rows or columns after the last group are 0 in the result.
        bias: Added to the products.
        out_dtype: The result's dtype; None for that of ``mat_a``.

    Raises:
        ArgumentError: ``offs`` is given for matrices without groups, or not for others.
    """
    if (offs is None) != (mat_a.ndim == 3 == mat_b.ndim):
        raise ArgumentError("grouped_mm", f"{mat_a.ndim} and {mat_b.ndim} dimensions, offs={offs}",
                            "a matrix is divided into groups by offs, and only a matrix", "pass offs for it")
    result = mat_a @ mat_b if offs is None else _divided(mat_a, mat_b, offs.tolist())
    return (result if bias is None else result + bias).to(mat_a.dtype if out_dtype is None else out_dtype)


def _divided(a: Any, b: Any, ends: list[int]) -> Any:
    """Return the products of groups that end at these rows or columns."""
    groups = list(pairwise([0, *ends]))
    if a.ndim == b.ndim:
        return stack([a[:, start:end] @ b[start:end] for start, end in groups])
    dim, whole = (0, a) if a.ndim == 2 else (1, b)
    parts = [a[start:end] @ b[k] if dim == 0 else a[k] @ b[:, start:end] for k, (start, end) in enumerate(groups)]
    rest = list(parts[0].shape)
    rest[dim] = whole.shape[dim] - ends[-1]
    return cat([*parts, parts[0].new_zeros(rest)], dim)


def scaled_grouped_mm(mat_a: Any, mat_b: Any, scale_a: Any, scale_recipe_a: Any, scale_b: Any,
                      scale_recipe_b: Any, swizzle_a: Any = None, swizzle_b: Any = None, bias: Any = None,
                      offs: Any = None, output_dtype: DType | None = dtypes.bfloat16,
                      contraction_dim: Sequence[int] = (), use_fast_accum: bool = False) -> Any:
    """Return the products of groups of matrices times their scales; arguments as of ``scaled_mm`` and ``grouped_mm``.

    Raises:
        UnsupportedOperator: Blocks have scales, or groups divide the dimension that is summed.
        ArgumentError: The number of scales is wrong.
    """
    if mat_a.ndim == 2 == mat_b.ndim:
        raise UnsupportedOperator("scaled_grouped_mm", "two matrices", "groups have scales of their own where they "
                                  "divide the sum", "multiply the matrices by their scales, and call grouped_mm")
    left = _decoded("scaled_grouped_mm", mat_a, scale_a, scale_recipe_a, swizzle_a, -2)
    right = _decoded("scaled_grouped_mm", mat_b, scale_b, scale_recipe_b, swizzle_b, -1)
    return grouped_mm(left, right, offs=offs, bias=bias,
                      out_dtype=mat_a.dtype if output_dtype is None else output_dtype)
