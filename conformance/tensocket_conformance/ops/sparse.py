"""Sparse tensors: construction from positions and from dense tensors, products, sums and arithmetic.

Elements that are not stored are 0 in the references. Results are compared as dense tensors, unless the case is about
layouts.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensocket as ts

from ..numerics import EXACT, HostArray, Tolerance
from ..record import Draw, Given, Maker, Operator, Sample, same

_SUM: Final = Tolerance(ulp=1.0, factor=32.0)
_DTYPES: Final = ("f32", "f64", "i64", "c64")
Sizes = tuple[int, int]


def _thin(draw: Draw, shape: tuple[int, ...], share: float = 0.3) -> Given:
    """Return a tensor argument with a share of nonzero elements."""
    values = draw.values(shape, -2.0, 2.0)
    return Given(np.where(draw.rng.random(shape) < share, values, 0).astype(values.dtype), draw.form.short)


def _placed(count: int, sizes: Sizes, keep: int = 0) -> Maker:
    """Return a sample of rows, columns and values; with few positions, several values share one."""
    return lambda draw: Sample((draw.index((count,), sizes[0]), draw.index((count,), sizes[1]),
                                draw.given((count, *((keep,) if keep else ())), "plain", -2.0, 2.0), *sizes))


def _pair(first: Sizes, second: Sizes, share: float = 0.3, *, thin: bool = False) -> Maker:
    """Return a sparse and a dense operand, or two sparse ones."""
    return lambda draw: Sample((_thin(draw, first, share),
                                _thin(draw, second) if thin else draw.given(second, "plain", -2.0, 2.0)))


def _single(shape: tuple[int, ...], *rest: Any, share: float = 0.3) -> Maker:
    return lambda draw: Sample((_thin(draw, shape, share), *rest))


def _coo(rows: Any, columns: Any, values: Any, height: int, width: int) -> Any:
    return ts.sparse_coo_tensor(ts.stack([rows, columns]), values, (height, width, *values.shape[1:]))


def _scattered(rows: HostArray, columns: HostArray, values: HostArray, height: int, width: int) -> HostArray:
    made = np.zeros((height, width, *values.shape[1:]), values.dtype)
    np.add.at(made, (rows, columns), values)
    return made


def _scattered_sizes(rows: HostArray, columns: HostArray, values: HostArray, height: int, width: int) -> HostArray:
    return _scattered(rows, columns, np.abs(values), height, width)


def _places(rows: HostArray, columns: HostArray, values: HostArray, height: int, width: int) -> HostArray:
    numbers = np.unique(rows * width + columns)
    return np.stack([numbers // max(width, 1), numbers % max(width, 1)])


def _compressed(x: Any) -> tuple[Any, ...]:
    made = x.to_sparse_csr()
    return made.crow_indices(), made.col_indices(), made.values()


def _rows(x: HostArray) -> tuple[HostArray, ...]:
    rows, columns = np.nonzero(x)
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(x)))]), columns, x[rows, columns]


def _product_sizes(x: HostArray, y: HostArray) -> Any:
    return np.matmul(np.abs(x), np.abs(y))


def _sampled(x: HostArray, y: HostArray, z: HostArray) -> Any:
    return np.where(x != 0, 2 * x + 3 * np.matmul(y, z), 0)


def _sampled_sizes(x: HostArray, y: HostArray, z: HostArray) -> Any:
    return 2 * np.abs(x) + 3 * np.matmul(np.abs(y), np.abs(z))


def _sampled_sample(m: int, k: int, n: int) -> Maker:
    return lambda draw: Sample((_thin(draw, (m, n)), draw.given((m, k), "plain", -1.0, 1.0),
                                draw.given((k, n), "plain", -1.0, 1.0)))


_PLACED: Final = {
    "prime#0": _placed(23, (7, 11)), "values#0": _placed(40, (3, 4)), "values#1": _placed(12, (3, 5), keep=2),
    "empty#0": _placed(0, (3, 4)), "one#0": _placed(5, (1, 1)), "large#0": _placed(20_000, (301, 257)),
}
_PRODUCTS: Final = {
    "prime#0": _pair((7, 13), (13, 5)), "square#0": _pair((16, 16), (16, 16)), "empty#0": _pair((5, 4), (4, 3), 0.0),
    "row#0": _pair((1, 101), (101, 1)), "large#0": _pair((129, 257), (257, 31), 0.05),
}
_PAIRS: Final = {
    "prime#0": _pair((7, 13), (13, 5), thin=True), "empty#0": _pair((5, 4), (4, 3), 0.0, thin=True),
    "large#0": _pair((61, 127), (127, 67), 0.05, thin=True),
}
_EQUAL: Final = {
    "prime#0": _pair((7, 13), (7, 13), thin=True), "empty#0": _pair((3, 4), (3, 4), 0.0, thin=True),
    "large#0": _pair((129, 131), (129, 131), thin=True),
}
_SHAPES: Final = {
    "prime#0": _single((7, 13)), "empty#0": _single((3, 4), share=0.0), "one#0": _single((1, 1), share=1.0),
    "large#0": _single((257, 301)),
}

#: The records of this family.
OPERATORS = [
    Operator("sparse.coo", lambda *args: _coo(*args).to_dense(), _scattered, _PLACED, _DTYPES, same, _SUM,
             _scattered_sizes),
    Operator("sparse.coalesce", lambda *args: _coo(*args).coalesce().indices(), _places, _PLACED, ("f32",),
             lambda short: "i64"),
    Operator("sparse.to_sparse_csr", _compressed, _rows, _SHAPES, _DTYPES, lambda short: ("i64", "i64", short), EXACT),
    Operator("sparse.to_sparse", lambda x: x.to_sparse().to_dense(), lambda x: x, {
        **_SHAPES, "dim#0": _single((5, 6, 7))}, _DTYPES, same, EXACT),
    Operator("sparse.transpose", lambda x: x.to_sparse().t().coalesce().to_dense(), np.transpose, _SHAPES, _DTYPES,
             same, EXACT),
    Operator("sparse.mm", lambda x, y: ts.sparse.mm(x.to_sparse(), y), np.matmul, _PRODUCTS, _DTYPES, same, _SUM,
             _product_sizes),
    Operator("sparse.mm.csr", lambda x, y: x.to_sparse_csr() @ y, np.matmul, _PRODUCTS, _DTYPES, same, _SUM,
             _product_sizes),
    Operator("sparse.mm.sparse", lambda x, y: ts.sparse.mm(x.to_sparse(), y.to_sparse()).to_dense(), np.matmul, _PAIRS,
             _DTYPES, same, _SUM, _product_sizes),
    Operator("sparse.sampled_addmm", lambda x, y, z: ts.sparse.sampled_addmm(
        x.to_sparse_csr(), y, z, beta=2, alpha=3).to_dense(), _sampled, {
            "prime#0": _sampled_sample(7, 5, 11), "large#0": _sampled_sample(67, 33, 129)}, ("f32", "f64", "c64"), same,
             _SUM, _sampled_sizes),
    Operator("sparse.add", lambda x, y: (x.to_sparse() + y.to_sparse()).to_dense(), np.add, _EQUAL, _DTYPES, same,
             Tolerance(ulp=0.5)),
    Operator("sparse.mul", lambda x, y: (x.to_sparse() * y.to_sparse()).to_dense(), np.multiply, _EQUAL, _DTYPES, same,
             Tolerance(ulp=0.5)),
    Operator("sparse.sum", lambda x, dim: ts.sparse.sum(x.to_sparse(), dim).to_dense(), np.sum, {
        "dim#0": _single((7, 13), 0), "dim#1": _single((7, 13), 1), "large#0": _single((129, 257), 0)},
        ("f32", "f64", "c64"), same, _SUM, lambda x, dim: np.abs(x).sum(dim)),
]
