"""Products of groups of matrices, and of matrices with scales, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators.linalg.scaled_products import (
    ScalingType,
    SwizzleType,
    grouped_mm,
    int_mm,
    scaled_grouped_mm,
    scaled_mm,
    scaled_product,
)
from tensocket_operators.namespaces import ops
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, UnsupportedOperator

RNG = np.random.default_rng(7)
#: Small integers, which 8-bit floating-point numbers represent.
A = RNG.integers(-4, 5, (6, 4)).astype(np.float64)
B = RNG.integers(-4, 5, (4, 5)).astype(np.float64)
ALL, ROWS = ScalingType.TensorWise, ScalingType.RowWise


def eighth(array):
    return tc.tensor(array.astype(np.float32)).to(tc.float8_e4m3fn)


def same(tensor, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.array(tensor.to(tc.float64).tolist()), expected, tolerance, tolerance)


def test_one_scale_of_a_matrix():
    result = scaled_mm(eighth(A), eighth(B), tc.tensor(2.0), ALL, tc.tensor([0.5]), [ALL], output_dtype=tc.float32,
                       bias=tc.ones(5))
    assert result.dtype is tc.float32
    same(result, A @ B + 1)
    assert scaled_mm(eighth(A), eighth(B), tc.tensor(2.0), ALL, tc.tensor(3.0), ALL).dtype is tc.bfloat16


def test_scales_of_rows_and_columns():
    rows, columns = RNG.uniform(0.5, 2, 6), RNG.uniform(0.5, 2, 5)
    expected = (A * rows[:, None]) @ (B * columns)
    left, right = (tc.tensor(x.astype(np.float32)) for x in (rows, columns))
    same(scaled_mm(eighth(A), eighth(B), left[:, None], ROWS, right[None], ROWS, output_dtype=tc.float32), expected)
    same(scaled_product(eighth(A), eighth(B), left[:, None], right[None], out_dtype=tc.float32), expected)
    one = scaled_product(eighth(A), eighth(B), tc.tensor(0.25), tc.tensor(2.0), out_dtype=tc.bfloat16)
    same(one, A @ B / 2, 1e-2)


def test_errors_of_scales():
    with pytest.raises(ArgumentError, match=r"5 scales for a matrix of shape \[6, 4\] — ScalingType.RowWise has 6 "
                                            r"scales — check the scales' shape"):
        scaled_mm(eighth(A), eighth(B), tc.ones(5), ROWS, tc.ones(5), ROWS)
    with pytest.raises(UnsupportedOperator, match=r"scales are of the whole matrix or of its rows, in their own order "
                                                  r"— multiply the matrices by the scales of their blocks first"):
        scaled_mm(eighth(A), eighth(B), tc.ones(6), ScalingType.BlockWise1x128, tc.ones(5), ROWS)
    with pytest.raises(UnsupportedOperator, match=r"TensorWise with SwizzleType.SWIZZLE_32_4_4"):
        scaled_mm(eighth(A), eighth(B), tc.ones(1), ALL, tc.ones(1), ALL, SwizzleType.SWIZZLE_32_4_4)
    with pytest.raises(UnsupportedOperator, match=r"2 scales of a matrix — a matrix has one tensor of scales — "
                                                  r"multiply the scales of blocks and of the whole matrix first"):
        scaled_mm(eighth(A), eighth(B), [tc.ones(1), tc.ones(1)], [ALL, ALL], tc.ones(1), ALL)


def test_groups_of_rows_of_columns_and_of_the_sum():
    ends, matrices = tc.tensor([2, 5], dtype=tc.int32), RNG.normal(size=(2, 4, 3))
    rows = grouped_mm(tc.tensor(A), tc.tensor(matrices), offs=ends)
    same(rows, np.concatenate([A[:2] @ matrices[0], A[2:5] @ matrices[1], np.zeros((1, 3))]))
    wide = RNG.normal(size=(4, 6))
    columns = grouped_mm(tc.tensor(matrices.swapaxes(1, 2).copy()), tc.tensor(wide), offs=ends)
    same(columns, np.concatenate([matrices[0].T @ wide[:, :2], matrices[1].T @ wide[:, 2:5], np.zeros((3, 1))], 1))
    summed = grouped_mm(tc.tensor(wide), tc.tensor(A), offs=ends)
    same(summed, [wide[:, :2] @ A[:2], wide[:, 2:5] @ A[2:5]])
    batches = RNG.normal(size=(2, 3, 4))
    same(grouped_mm(tc.tensor(batches), tc.tensor(matrices), out_dtype=tc.float32), batches @ matrices)


def test_groups_divide_matrices_alone():
    with pytest.raises(ArgumentError, match="a matrix is divided into groups by offs, and only a matrix — pass offs"):
        grouped_mm(tc.tensor(A), tc.tensor(B))
    with pytest.raises(ArgumentError, match="3 and 3 dimensions"):
        grouped_mm(tc.ones(2, 3, 4), tc.ones(2, 4, 5), offs=tc.tensor([1, 2]))


def test_groups_with_scales():
    experts = RNG.integers(-3, 4, (2, 4, 5)).astype(np.float64)
    rows, columns = RNG.uniform(0.5, 2, 6), RNG.uniform(0.5, 2, (2, 5))
    left, right = (tc.tensor(x.astype(np.float32)) for x in (rows, columns))
    result = scaled_grouped_mm(eighth(A), eighth(experts), left, ROWS, right, ROWS, offs=tc.tensor([2, 6]),
                               output_dtype=tc.float32)
    scaled, factors = A * rows[:, None], experts * columns[:, None]
    same(result, np.concatenate([scaled[:2] @ factors[0], scaled[2:] @ factors[1]]))
    with pytest.raises(UnsupportedOperator, match=r"groups have scales of their own where they divide the sum — "
                                                  r"multiply the matrices by their scales, and call grouped_mm"):
        scaled_grouped_mm(eighth(A), eighth(B), left, ROWS, right, ROWS)


def test_integers():
    left, right = RNG.integers(-128, 128, (3, 70)), RNG.integers(-128, 128, (70, 2))
    result = int_mm(tc.tensor(left, dtype=tc.int8), tc.tensor(right, dtype=tc.int8))
    assert result.dtype is tc.int32
    np.testing.assert_array_equal(result.tolist(), left @ right)
    with pytest.raises(DtypeError, match="a matrix of int32 — both matrices are int8 — convert to int8, or use mm"):
        int_mm(tc.tensor(left, dtype=tc.int8), tc.tensor(right, dtype=tc.int32))


def test_names_in_graphs():
    x = tc.tensor([[1, 2]], dtype=tc.int8)
    assert ops.aten._int_mm.default(x, x.t()).tolist() == [[5]]
    assert ops.aten.is_pinned.default(tc.ones(2)) is False
    assert ops.aten._grouped_mm.default(tc.ones(1, 2, 3), tc.ones(1, 3, 2)).tolist() == [[[3, 3], [3, 3]]]
    assert ops.aten._scaled_mm.default(eighth(A), eighth(B), tc.ones(1), tc.ones(1), out_dtype=tc.float32).shape == (6,
                                                                                                                   5)
