"""Products of small matrices as built-in functions: layouts, what goes to the fallback, references that stay right."""

from __future__ import annotations

import itertools
import sys

import numpy as np
import pytest

from tensocket_cpu.native import LAYOUT
from tensocket_plugins.contract.dtypes import complex64, float16, float32, float64
from tensocket_plugins.contract.plans import ProductPlan, WrapperLayout

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="this interpreter's objects are unknown")

MARK = object()
SIZES = [(3, 5, 5), (1, 1, 1), (64, 64, 64), (1, 7, 9), (7, 1, 9), (9, 7, 1), (16, 100, 3)]


class Holder:
    __slots__ = ("array", "counter", "key")

    def __init__(self, array):
        self.array = array
        self.key = self.counter = None


class Heir(Holder):
    pass


WRAPPER = WrapperLayout(Holder, "array", (("key", MARK, None), ("counter", None, None)), "counter")


def refused(*args):
    return ("fallback", *args)


def entry(device, dtype=float32, affine=False):
    made = device.compile_plan(ProductPlan(dtype, WRAPPER, affine), refused)
    if made is None:
        pytest.skip("no BLAS that is known")
    return made


def layouts(rng, rows, columns, dtype):
    def make(*shape):
        return rng.standard_normal(shape).astype(dtype)

    return [make(rows, columns), make(columns, rows).T, make(rows + 2, columns + 3)[1:-1, 2:-1],
            make(columns + 2, rows + 3)[1:-1, 2:-1].T]


def near(result, exact, dtype):
    bound = 1e-5 if dtype is float32 else 1e-13
    assert type(result) is Holder
    assert result.key is (MARK if exact.ndim else None)
    assert result.counter is None
    assert result.array.dtype == dtype.numpy
    assert result.array.flags.c_contiguous
    assert result.array.shape == exact.shape
    np.testing.assert_allclose(result.array, exact, rtol=0, atol=bound * (1 + np.abs(exact).max()))


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("sizes", SIZES)
def test_products(device, rng, dtype, sizes):
    m, k, n = sizes
    run = entry(device, dtype)
    for x, y in itertools.product(layouts(rng, m, k, dtype.numpy), layouts(rng, k, n, dtype.numpy)):
        near(run(Holder(x), Heir(y)), x.astype(np.float64) @ y.astype(np.float64), dtype)


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("sizes", SIZES)
def test_affine(device, rng, dtype, sizes):
    m, k, n = sizes
    run = entry(device, dtype, affine=True)
    bias = rng.standard_normal(n).astype(dtype.numpy)
    for x, weight in itertools.product(layouts(rng, m, k, dtype.numpy), layouts(rng, n, k, dtype.numpy)):
        exact = x.astype(np.float64) @ weight.T.astype(np.float64)
        near(run(Holder(x), Holder(weight), Holder(bias)), exact + bias, dtype)
        near(run(Heir(x), Holder(weight), None), exact, dtype)


X, Y = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)


@pytest.mark.parametrize(("x", "y"), [
    (X, np.ones((3, 5), np.float32)), (X.astype(np.float64), Y), (X, Y.astype(np.float64)), (X[:, 0], Y),
    (X, Y[:, 0]), (X[None], Y), (np.ones((3, 8), np.float32)[:, ::2], Y), (X[::-1], Y), (X, Y[:, ::-1]),
    (np.broadcast_to(X[:1], (3, 4)), Y), (X[:0], Y), (X[:, :0], Y[:0]), (X, Y[:, :0]),
    (np.zeros((200, 10), np.float32), np.zeros((10, 200), np.float32)),
    (np.zeros((100, 200), np.float32), np.zeros((200, 100), np.float32)),
    (np.frombuffer(bytes(49), np.uint8)[1:].view(np.float32).reshape(3, 4), Y),
    (np.ma.array(X), Y), (X.astype(">f4"), Y), (None, Y), (X, [1.0]),
])
def test_what_does_not_fit_goes_to_the_fallback(device, x, y):
    left, right = Holder(x), Holder(y)
    assert entry(device)(left, right) == ("fallback", left, right)


@pytest.mark.parametrize("args", [(), (Holder(X),), (Holder(X), Holder(Y), Holder(Y)), (X, Y), (Holder(X), 1.0)])
def test_other_arguments_go_to_the_fallback(device, args):
    assert entry(device)(*args) == ("fallback", *args)


def test_an_empty_slot_goes_to_the_fallback(device):
    left = object.__new__(Holder)
    right = Holder(Y)
    assert entry(device)(left, right) == ("fallback", left, right)


@pytest.mark.parametrize("bias", [np.ones(4, np.float32), np.ones((1, 5), np.float32), np.ones(10, np.float32)[::2],
                                  np.ones(5), np.float32(1)])
def test_a_bias_that_does_not_fit_goes_to_the_fallback(device, bias):
    args = Holder(X), Holder(np.ascontiguousarray(Y.T)), Holder(bias)
    assert entry(device, affine=True)(*args) == ("fallback", *args)


def vectors(device, dtype, *ranks):
    made = device.compile_plan(ProductPlan(dtype, WRAPPER, False, ranks), refused)
    if made is None:
        pytest.skip("no BLAS that is known")
    return made


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize("size", [1, 2, 31, 1000, 1 << 17])
def test_inner_products(device, rng, dtype, size):
    x, y = (rng.standard_normal(size).astype(dtype.numpy) for _ in range(2))
    near(vectors(device, dtype, 1, 1)(Holder(x), Heir(y)), x.astype(np.float64) @ y.astype(np.float64), dtype)


@pytest.mark.parametrize("dtype", [float32, float64])
@pytest.mark.parametrize(("m", "k"), [(1, 1), (5, 10), (10, 1), (1, 40), (64, 100)])
def test_matrices_and_vectors(device, rng, dtype, m, k):
    y = rng.standard_normal(k).astype(dtype.numpy)
    for x in layouts(rng, m, k, dtype.numpy):
        near(vectors(device, dtype, 2, 1)(Holder(x), Heir(y)), x.astype(np.float64) @ y.astype(np.float64), dtype)


def test_other_vectors_are_left_to_the_next_path(device, rng):
    x, long = np.ones(6, np.float32), np.ones((1 << 17) + 1, np.float32)
    wide = np.ones((5, 6), np.float32)
    for ranks, pairs in (((1, 1), [(x, x[:5]), (x[::2], x[:3]), (x[:3], x[::-2]), (x[:0], x[:0]), (long, long),
                                   (wide, x), (x, x.astype(np.float64)), (x, wide), (wide[0, 0].reshape(()), x)]),
                         ((2, 1), [(wide, x[:5]), (wide[:, ::2], x[:3]), (wide[:, :3], x[::2]), (wide[:0], x), (x, x),
                                   (wide, wide.T), (wide[:, :0], x[:0]), (wide, x.astype(np.float64))])):
        run = vectors(device, float32, *ranks)
        for pair in pairs:
            args = tuple(map(Holder, pair))
            assert run(*args) == ("fallback", *args)


def test_references_of_vectors_stay_right(device, rng):
    x, y, matrix = (Holder(rng.standard_normal(shape).astype(np.float32)) for shape in [(4,), (4,), (3, 4)])
    inner, product = vectors(device, float32, 1, 1), vectors(device, float32, 2, 1)
    held = [x, y, matrix, x.array, y.array, matrix.array]
    inner(x, y), product(matrix, x)
    before = [sys.getrefcount(item) for item in held]
    for _ in range(100):
        inner(x, y), product(matrix, x), inner(x, matrix)
    assert [sys.getrefcount(item) for item in held] == before


def test_references_stay_right(device, rng):
    x, y, bias = (Holder(rng.standard_normal(shape).astype(np.float32)) for shape in [(3, 4), (5, 4), (5,)])
    run = entry(device, affine=True)
    held = [x, y, bias, x.array, y.array, bias.array, None, MARK, Holder, np.dtype(np.float32), np.ndarray]

    def counts():
        return [sys.getrefcount(item) for item in held]

    run(x, y, bias)
    before = counts()
    for _ in range(100):
        run(x, y, bias)
        run(x, y, x)
    results = [run(x, y, bias) for _ in range(10)]
    assert all(sys.getrefcount(r.array) == 2 for r in results)
    del results
    after = counts()
    assert after[:6] == before[:6]
    assert max(abs(a - b) for a, b in zip(after[6:], before[6:], strict=True)) < 10


def test_not_a_number_in_memory_that_is_reused_does_not_matter(device):
    run = entry(device)
    for _ in range(50):
        garbage = np.full((60, 60), np.nan, np.float32)
        del garbage
        result = run(Holder(np.ones((60, 7), np.float32)), Holder(np.ones((7, 60), np.float32)))
        assert (result.array == 7).all()


def test_dtypes_without_entries(device):
    for dtype in (float16, complex64):
        assert device.compile_plan(ProductPlan(dtype, WRAPPER), refused) is None


def test_without_a_library_or_a_layout_there_are_none(device, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("tensocket_cpu.device.best_library", lambda: None)
        assert device.compile_plan(ProductPlan(float32, WRAPPER), refused) is None
    with monkeypatch.context() as patch:
        patch.setattr("tensocket_cpu.native.LAYOUT", None)
        assert device.compile_plan(ProductPlan(float32, WRAPPER), refused) is None
