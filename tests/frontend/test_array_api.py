"""The array API namespace: every name with the standard's signature, and where its rules are not PyTorch's."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

import tensocket as torch
import tensocket.array_api as xp
from tensocket.errors import ArgumentError, ArgumentTypeError, DimensionError, DtypeError, ShapeError

#: Parameters of the standard's functions, version 2024.12: ``/`` and ``*`` as in Python.
UNARY = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf
isnan log log10 log1p log2 logical_not negative positive real reciprocal round sign signbit sin sinh sqrt square tan
tanh trunc"""
BINARY = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal
floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum
multiply nextafter not_equal pow remainder subtract"""
SIGNATURES = dict.fromkeys(UNARY.split(), "x, /") | dict.fromkeys(BINARY.split(), "x1, x2, /") | {
    "clip": "x, /, min=None, max=None", "arange": "start, /, stop=None, step=1, *, dtype=None, device=None",
    "asarray": "obj, /, *, dtype=None, device=None, copy=None", "empty": "shape, *, dtype=None, device=None",
    "empty_like": "x, /, *, dtype=None, device=None",
    "eye": "n_rows, n_cols=None, /, *, k=0, dtype=None, device=None", "from_dlpack": "x, /, *, device=None, copy=None",
    "full": "shape, fill_value, *, dtype=None, device=None",
    "full_like": "x, /, fill_value, *, dtype=None, device=None",
    "linspace": "start, stop, /, num, *, dtype=None, device=None, endpoint=True",
    "meshgrid": "*arrays, indexing='xy'", "ones": "shape, *, dtype=None, device=None",
    "ones_like": "x, /, *, dtype=None, device=None", "tril": "x, /, *, k=0", "triu": "x, /, *, k=0",
    "zeros": "shape, *, dtype=None, device=None", "zeros_like": "x, /, *, dtype=None, device=None",
    "astype": "x, dtype, /, *, copy=True, device=None", "can_cast": "from_, to, /", "finfo": "type, /",
    "iinfo": "type, /", "isdtype": "dtype, kind", "result_type": "*arrays_and_dtypes",
    "take": "x, indices, /, *, axis=None", "take_along_axis": "x, indices, /, *, axis=-1",
    "matmul": "x1, x2, /", "matrix_transpose": "x, /", "tensordot": "x1, x2, /, *, axes=2",
    "vecdot": "x1, x2, /, *, axis=-1", "broadcast_arrays": "*arrays", "broadcast_to": "x, /, shape",
    "concat": "arrays, /, *, axis=0", "expand_dims": "x, /, axis=0", "flip": "x, /, *, axis=None",
    "moveaxis": "x, source, destination, /", "permute_dims": "x, /, axes", "repeat": "x, repeats, /, *, axis=None",
    "reshape": "x, /, shape, *, copy=None", "roll": "x, /, shift, *, axis=None", "squeeze": "x, /, axis",
    "stack": "arrays, /, *, axis=0", "tile": "x, repetitions, /", "unstack": "x, /, *, axis=0",
    "argmax": "x, /, *, axis=None, keepdims=False", "argmin": "x, /, *, axis=None, keepdims=False",
    "count_nonzero": "x, /, *, axis=None, keepdims=False", "nonzero": "x, /",
    "searchsorted": "x1, x2, /, *, side='left', sorter=None", "where": "condition, x1, x2, /",
    "unique_all": "x, /", "unique_counts": "x, /", "unique_inverse": "x, /", "unique_values": "x, /",
    "argsort": "x, /, *, axis=-1, descending=False, stable=True",
    "sort": "x, /, *, axis=-1, descending=False, stable=True",
    "cumulative_prod": "x, /, *, axis=None, dtype=None, include_initial=False",
    "cumulative_sum": "x, /, *, axis=None, dtype=None, include_initial=False",
    "max": "x, /, *, axis=None, keepdims=False", "mean": "x, /, *, axis=None, keepdims=False",
    "min": "x, /, *, axis=None, keepdims=False", "prod": "x, /, *, axis=None, dtype=None, keepdims=False",
    "std": "x, /, *, axis=None, correction=0.0, keepdims=False",
    "sum": "x, /, *, axis=None, dtype=None, keepdims=False",
    "var": "x, /, *, axis=None, correction=0.0, keepdims=False", "all": "x, /, *, axis=None, keepdims=False",
    "any": "x, /, *, axis=None, keepdims=False", "diff": "x, /, *, axis=-1, n=1, prepend=None, append=None",
    # 2025.12
    "broadcast_shapes": "*shapes", "isin": "x1, x2, /, *, invert=False", "__array_namespace_info__": "",
}
ONE = "x, /, *, n=None, axis=-1, norm='backward'"
SEVERAL = "x, /, *, s=None, axes=None, norm='backward'"
EXTENSIONS = {
    "fft": {"fft": ONE, "ifft": ONE, "rfft": ONE, "irfft": ONE, "hfft": ONE, "ihfft": ONE, "fftn": SEVERAL,
            "ifftn": SEVERAL, "rfftn": SEVERAL, "irfftn": SEVERAL, "fftfreq": "n, /, *, d=1.0, dtype=None, device=None",
            "rfftfreq": "n, /, *, d=1.0, dtype=None, device=None", "fftshift": "x, /, *, axes=None",
            "ifftshift": "x, /, *, axes=None"},
    "linalg": {"cholesky": "x, /, *, upper=False", "cross": "x1, x2, /, *, axis=-1", "det": "x, /",
               "diagonal": "x, /, *, offset=0", "eigh": "x, /", "eigvalsh": "x, /", "inv": "x, /",
               "matmul": "x1, x2, /", "matrix_norm": "x, /, *, keepdims=False, ord='fro'", "matrix_power": "x, n, /",
               "matrix_rank": "x, /, *, rtol=None", "matrix_transpose": "x, /", "outer": "x1, x2, /",
               "pinv": "x, /, *, rtol=None", "qr": "x, /, *, mode='reduced'", "slogdet": "x, /", "solve": "x1, x2, /",
               "svd": "x, /, *, full_matrices=True", "svdvals": "x, /", "tensordot": "x1, x2, /, *, axes=2",
               "trace": "x, /, *, offset=0, dtype=None", "vecdot": "x1, x2, /, *, axis=-1",
               "vector_norm": "x, /, *, axis=None, keepdims=False, ord=2", "eig": "x, /", "eigvals": "x, /"},
}
DTYPES = "bool complex64 complex128 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64"
CONSTANTS = "e inf nan newaxis pi fft linalg __array_api_version__"


def signature(function):
    plain = inspect.signature(function)
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in plain.parameters.values()]
    return str(plain.replace(parameters=bare, return_annotation=inspect.Signature.empty))[1:-1]


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name):
    assert signature(getattr(xp, name)) == SIGNATURES[name]


@pytest.mark.parametrize(("extension", "name"), [(e, n) for e, names in EXTENSIONS.items() for n in names])
def test_signatures_of_extensions(extension, name):
    assert signature(getattr(getattr(xp, extension), name)) == EXTENSIONS[extension][name]


def test_the_namespace_has_these_names_and_no_others():
    assert sorted(xp.__all__) == sorted([*SIGNATURES, *DTYPES.split(), *CONSTANTS.split()])
    assert all(hasattr(xp, name) for name in xp.__all__)


def test_tensors_name_their_namespace():
    x = torch.ones(2)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2022.12") is xp
    assert xp.__array_api_version__ == "2024.12"
    message = r"\[__array_namespace__\] api_version='2030.1' — the version is one of 202.+, 2024.12 — leave it out"
    with pytest.raises(ArgumentError, match=message):
        x.__array_namespace__(api_version="2030.1")


def test_to_device():
    x = torch.ones(2)
    assert x.to_device("cpu") is x
    assert x.to_device("ref").device.type == "ref"
    with pytest.raises(ArgumentError, match=r"\[to_device\] stream=1 — copies run on the current streams"):
        x.to_device("cpu", stream=1)


@pytest.mark.parametrize(("a", "b", "expected"), [
    ("int8", "uint8", "int16"), ("int8", "uint16", "int32"), ("int64", "uint32", "int64"),
    ("uint8", "uint16", "uint16"),
    ("float32", "float64", "float64"), ("float64", "complex64", "complex128"), ("bool", "uint16", "uint16"),
])
def test_promotion_is_the_standards(a, b, expected):
    x, y = xp.ones((2,), dtype=getattr(xp, a)), xp.ones((), dtype=getattr(xp, b))
    assert xp.result_type(x, y) is getattr(xp, expected)
    assert xp.where(xp.ones((2,), dtype=xp.bool), x, y).dtype is getattr(xp, expected)
    if "bool" not in (a, b):
        assert xp.add(x, y).dtype is getattr(xp, expected)


def test_arrays_without_axes_and_numbers():
    wide = xp.asarray(1.0, dtype=xp.float64)
    assert xp.add(xp.ones(2), wide).dtype is xp.float64
    assert xp.add(xp.ones(2), 1).dtype is xp.float32
    assert xp.subtract(1.5, xp.ones(2)).tolist() == [0.5, 0.5]
    assert xp.result_type(xp.int8, 3) is xp.int8
    assert xp.result_type(xp.float32, 1j) is xp.complex64
    with pytest.raises(DtypeError, match="uint64"):
        xp.result_type(xp.int64, xp.uint64)
    with pytest.raises(ArgumentTypeError, match=r"\[result_type\] numbers only — "
                                                "an array or a dtype is among the operands"):
        xp.result_type(1, 2.0)
    with pytest.raises(ArgumentTypeError, match=r"\[result_type\] a str — operands are arrays or Python numbers"):
        xp.result_type(xp.int8, "x")


def test_dtypes():
    assert xp.isdtype(xp.int8, "signed integer")
    assert xp.isdtype(xp.float32, ("bool", "real floating"))
    assert not xp.isdtype(xp.uint8, xp.int8)
    assert xp.can_cast(xp.int8, xp.float32)
    assert not xp.can_cast(xp.float32, xp.int64)
    assert not xp.can_cast(xp.int64, xp.uint64)
    assert (xp.finfo(xp.complex64).bits, xp.finfo(xp.float64).dtype) == (32, xp.float64)
    assert (xp.iinfo(xp.uint8).max, xp.iinfo(xp.int8).min) == (255, -128)
    assert xp.astype(xp.asarray([1 + 2j]), xp.float64).tolist() == [1.0]
    x = xp.ones(2)
    assert xp.astype(x, xp.float32, copy=False) is x
    assert xp.astype(x, xp.float32) is not x
    with pytest.raises(ArgumentError, match=r"\[isdtype\] kind 'odd' — a kind is one of bool"):
        xp.isdtype(xp.int8, "odd")
    with pytest.raises(ArgumentTypeError, match=r"\[dtype\] a str — this is a dtype or an array"):
        xp.can_cast("int8", xp.int8)


def test_creation():
    assert xp.arange(3, 0).tolist() == []
    assert xp.arange(3, 0).dtype is xp.int64
    assert xp.eye(2, 3, k=1).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert xp.linspace(0, 1, 4, endpoint=False).tolist() == [0, 0.25, 0.5, 0.75]
    assert xp.linspace(0, 2j, 3).tolist() == [0, 1j, 2j]
    assert xp.asarray([xp.asarray(1), [2]][:1]).tolist() == [1]
    assert xp.asarray([[xp.asarray(1.0), 2], (3, 4)]).tolist() == [[1, 2], [3, 4]]
    x = xp.ones(2)
    assert xp.asarray(x) is x
    assert xp.asarray(x, copy=True) is not x
    first, second = xp.meshgrid(xp.arange(2), xp.arange(3))
    assert first.tolist() == [[0, 1]] * 3
    assert second.tolist() == [[0, 0], [1, 1], [2, 2]]
    with pytest.raises(ArgumentError, match=r"\[arange\] step=0 — the step leads from start to stop"):
        xp.arange(3, step=0)


def test_sums_keep_the_sign_of_their_integers():
    small = xp.ones((2, 3), dtype=xp.uint8)
    assert xp.sum(small).dtype is xp.uint64
    assert xp.prod(xp.astype(small, xp.int16), axis=()).dtype is xp.int64
    assert xp.cumulative_sum(small[0], include_initial=True).tolist() == [0, 1, 2, 3]
    assert xp.cumulative_prod(small, axis=1).dtype is xp.uint64
    assert xp.all(small).dtype is xp.bool
    assert xp.var(xp.asarray([1.0, 3.0])).item() == 1
    assert xp.std(xp.asarray([1.0, 3.0]), correction=1).item() == pytest.approx(math.sqrt(2))
    assert xp.max(xp.ones((2, 2)), axis=()).tolist() == [[1, 1], [1, 1]]
    with pytest.raises(ArgumentError, match=r"\[cumulative_sum\] a 2-dimensional array without an axis — "
                                            "arrays of several axes are accumulated along one"):
        xp.cumulative_sum(small)


def test_values_that_differ_from_pytorchs():
    inf, nan = math.inf, math.nan
    quotient = xp.floor_divide(xp.asarray([inf, -1.0, 1.0, 7.0]), xp.asarray([2.0, inf, -inf, -2.0]))
    np.testing.assert_array_equal(np.array(quotient.tolist()), [inf, -0.0, -0.0, -4.0])
    rest = xp.remainder(xp.asarray([-0.0, 0.0]), xp.asarray([2.0, -2.0]))
    assert [math.copysign(1, v) for v in rest.tolist()] == [1, -1]
    assert math.isnan(xp.sign(xp.asarray(nan)).item())
    assert xp.sign(xp.asarray(3 + 4j)).item() == pytest.approx(0.6 + 0.8j)
    assert xp.round(xp.asarray(1.5 - 2.6j)).item() == 2 - 3j
    clipped = xp.clip(xp.asarray([1, 5]), None, xp.asarray([[2], [9]]))
    assert clipped.tolist() == [[1, 2], [1, 5]]
    assert xp.clip(xp.asarray([1, 5]), -inf, inf).tolist() == [1, 5]
    assert math.isnan(xp.clip(xp.asarray([1.0]), xp.asarray([nan])).item())


def test_manipulation():
    x = xp.reshape(xp.arange(6), (2, 3))
    assert xp.concat([x, x], axis=None).shape == (12,)
    assert xp.flip(x).tolist() == [[5, 4, 3], [2, 1, 0]]
    assert xp.roll(x, (1, 1)).tolist() == [[4, 5, 0], [1, 2, 3]]
    assert xp.repeat(x, xp.asarray([2]), axis=0).shape == (4, 3)
    assert xp.expand_dims(x, axis=-1).shape == (2, 3, 1)
    assert [part.tolist() for part in xp.unstack(x, axis=1)] == [[0, 3], [1, 4], [2, 5]]
    assert xp.broadcast_shapes((2, 1), (3,)) == (2, 3)
    assert xp.broadcast_shapes() == ()
    assert xp.tile(x, (2,)).shape == (2, 6)
    assert xp.reshape(x, (3, 2), copy=True).tolist() == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(ShapeError):
        xp.reshape(xp.permute_dims(x, (1, 0)), (6,), copy=False)
    with pytest.raises(ArgumentError, match=r"\[squeeze\] axis 0 of shape \[2, 3\] — removed axes have size 1"):
        xp.squeeze(x, 0)
    with pytest.raises(DimensionError, match=r"\[expand_dims\] axis 4 of a 2-dimensional array — "
                                             "an axis lies between -3 and 2"):
        xp.expand_dims(x, axis=4)
    with pytest.raises(ArgumentError, match=r"\[expand_dims\] axis \(0, 0\) — every axis appears once"):
        xp.expand_dims(x, axis=(0, 0))
    assert xp.expand_dims(x, axis=(0, -1)).shape == (1, 2, 3, 1)


def test_search_and_sets():
    x = xp.asarray([[3, 1], [1, 1]])
    found = xp.unique_all(x)
    assert [part.tolist() for part in found] == [[1, 3], [1, 0], [[1, 0], [0, 0]], [3, 1]]
    assert xp.unique_counts(x).counts.tolist() == [3, 1]
    assert xp.unique_inverse(x).inverse_indices.shape == (2, 2)
    assert xp.take(xp.asarray([5, 6, 7]), xp.asarray([[-1, 0]])).tolist() == [[7, 5]]
    assert xp.take_along_axis(x, xp.asarray([[-1], [0]])).tolist() == [[1], [1]]
    assert xp.argmax(x, keepdims=True).shape == (1, 1)
    assert xp.count_nonzero(x, axis=()).tolist() == [[1, 1], [1, 1]]
    assert xp.isin(x, xp.asarray([3])).tolist() == [[True, False], [False, False]]
    assert xp.searchsorted(xp.asarray([1.0, 2.0]), xp.asarray([[1.5]], dtype=xp.float64)).tolist() == [[1]]
    assert xp.where(xp.asarray([True, False]), 1, 2.5).tolist() == [1.0, 2.5]
    with pytest.raises(ArgumentError, match=r"\[nonzero\] a 0-dimensional array — positions are those along axes"):
        xp.nonzero(xp.asarray(1))


def test_extensions():
    x = xp.asarray([[2.0, 1.0], [1.0, 3.0]])
    assert xp.linalg.slogdet(x).sign.item() == 1
    assert xp.linalg.trace(xp.astype(x, xp.uint8)).dtype is xp.uint64
    batch = xp.linalg.solve(xp.stack([x, x]), xp.ones((2, 1)))
    np.testing.assert_allclose(batch.tolist(), np.linalg.solve(np.array([x.tolist()] * 2), np.ones((2, 2, 1))), 1e-6)
    assert xp.linalg.vector_norm(x, axis=(), ord=0).tolist() == [[1, 1], [1, 1]]
    assert xp.vecdot(xp.asarray([1j, 1.0]), xp.asarray([1j, 2.0])).item() == 3
    with pytest.raises(ShapeError, match=r"\[vecdot\] shapes \[2\] and \[1\], axis -1 — the vectors have equal sizes"):
        xp.vecdot(xp.ones(2), xp.ones(1))
    assert xp.fft.rfft(xp.ones(4)).dtype is xp.complex64
    assert xp.fft.fftfreq(4, d=0.5).tolist() == [0, 0.5, -1, -0.5]


def test_inspection():
    info = xp.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.default_device() in info.devices()
    assert info.default_dtypes()["complex floating"] is xp.complex64
    assert list(info.dtypes(kind="real floating")) == ["float32", "float64"]
    assert set(info.dtypes(kind=("bool", "integral"))) == set(DTYPES.split()) - {
        "float32", "float64", "complex64", "complex128"}
    assert set(info.dtypes()) == set(DTYPES.split())


def test_corner_cases_of_creation():
    assert torch.arange(0.0, 0, 1).dtype is torch.float32
    assert xp.asarray([0, 2**64 - 1024], dtype=xp.uint64).tolist() == [0, 2**64 - 1024]
    assert xp.linalg.solve(xp.ones((1, 0, 0)), xp.ones((0, 0, 0))).shape == (0, 0, 0)


def test_diagonals_far_outside_are_empty():
    for k in (-2**63 - 1, -3, 2, 2**70):
        assert not xp.any(xp.eye(3, 2, k=k))
    assert xp.eye(3, 2, k=-2).tolist() == [[0, 0], [0, 0], [1, 0]]
