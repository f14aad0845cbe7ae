"""Every element type: storage, copies, views and conversions; what is computed with unsigned integers; float8."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_plugins.contract.dtypes import ALL, BY_NAME
from tensocket_plugins.contract.errors import ArgumentTypeError, DtypeError, UndefinedDtype

EVERY = [dtype.name for dtype in ALL]
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOAT8 = {"float8_e4m3fn": (3, 7, 448.0, False), "float8_e5m2": (2, 15, 57344.0, True)}
#: Exact in every dtype.
SMALL = np.array([[0, 1, 2], [3, 4, 1]])


@pytest.fixture(params=EVERY)
def dtype(request, device):
    if request.param not in tc.profile(device).dtypes:
        pytest.skip(f"{device} refuses {request.param}, as test_complex and test_copies check")
    return BY_NAME[request.param]


def stored(dtype):
    return (SMALL != 0).tolist() if dtype.kind == "bool" else SMALL.tolist()


def test_storage(device, dtype):
    x = tc.tensor(stored(dtype), dtype=dtype)
    assert x.dtype is dtype
    assert x.tolist() == stored(dtype)
    assert x.element_size() == dtype.itemsize
    assert x.clone().tolist() == x.tolist()
    assert x.t()[1:].tolist() == np.array(stored(dtype)).T[1:].tolist()
    assert x.t().contiguous().tolist() == np.array(stored(dtype)).T.tolist()
    assert x.reshape(3, 2).tolist() == np.array(stored(dtype)).reshape(3, 2).tolist()
    assert x.to("ref:1").to(device).tolist() == x.tolist()
    assert f.cat([x, x]).tolist() == [*stored(dtype), *stored(dtype)]
    assert x[tc.tensor([1, 0])].tolist() == stored(dtype)[::-1]
    assert f.stack([x, x], 2).shape == (2, 3, 2)
    assert repr(x).startswith("tensor([[")


def test_writing(device, dtype):
    x = tc.zeros(2, 3, dtype=dtype)
    assert not any(map(any, x.tolist()))
    x[0] = tc.ones(3, dtype=dtype)
    x[1, 1] = 1
    assert x.tolist() == [[1, 1, 1], [0, 1, 0]]
    x.copy_(tc.tensor(stored(dtype), dtype=tc.float32 if dtype.kind != "bool" else tc.bool_))
    assert x.tolist() == stored(dtype)
    assert x.fill_(1).tolist() == tc.full((2, 3), 1, dtype=dtype).tolist() == tc.ones_like(x).tolist()
    assert f.where(tc.tensor([True, False, True]), x, tc.zeros_like(x)).tolist() == [[1, 0, 1]] * 2
    assert (x == tc.ones_like(x)).all().item()
    assert (x != x).tolist() == [[False] * 3] * 2


def test_conversion_to_every_dtype(device, dtype):
    x = tc.tensor(stored(dtype), dtype=dtype)
    for name in EVERY:
        if name in tc.profile(device).dtypes:
            target = BY_NAME[name]
            expected = (SMALL != 0).tolist() if "bool" in (name, dtype.name) else SMALL.tolist()
            for source in (x, x.t().contiguous().t()):
                assert source.to(target).dtype is target
                assert source.to(target).tolist() == expected


def test_large_copies_between_dtypes():
    """Those that generated kernels make on host-resident devices."""
    if "cpu" not in [backend.name for backend in tc.backends()]:
        pytest.skip("only core is installed")
    values = np.arange(70000) % 5
    x = tc.tensor(values, device="cpu")
    for name in EVERY:
        there = x.to(BY_NAME[name])
        expected = values != 0 if name == "bool" else values
        assert there.to(tc.int64).tolist() == expected.tolist()
        assert there.reshape(2, -1).t().contiguous().to(tc.float32).sum().item() == expected.reshape(2, -1).sum()


# ---------------------------------------------------------------------------------------------------------- integers


@pytest.mark.parametrize("name", UNSIGNED)
def test_unsigned_integers_compute_and_wrap(device, name):
    bits = 8 * BY_NAME[name].itemsize
    kind = f"u{bits // 8}"
    a = np.array([0, 1, 5, (1 << bits) - 1, 1 << (bits - 1)], kind)
    b = np.array([3, 7, 2, (1 << bits) - 2, 2], kind)
    x, y = tc.tensor(a, dtype=BY_NAME[name]), tc.tensor(b, dtype=BY_NAME[name])
    with np.errstate(all="ignore"):
        for run, reference in (
            (f.add, a + b), (f.sub, a - b), (f.mul, a * b), (f.floor_divide, a // b), (f.remainder, a % b),
            (f.maximum, np.maximum(a, b)), (f.bitwise_and, a & b), (f.bitwise_xor, a ^ b), (f.lt, a < b),
            (f.ge, a >= b),
            (f.eq, a == b), (lambda p, q: ~p, ~a), (lambda p, q: -p, -a), (lambda p, q: p.abs(), a),
            (lambda p, q: p.square(), a * a), (lambda p, q: p.clamp(1, 4), np.clip(a, 1, 4)),
            (lambda p, q: p.amax(), a.max()), (lambda p, q: p.amin(), a.min()), (lambda p, q: p.argmax(), a.argmax()),
            (lambda p, q: p.any(), True), (lambda p, q: p.sort()[0], np.sort(a)),
        ):
            assert run(x, y).tolist() == np.asarray(reference).tolist()
    assert (x / 2).dtype is tc.float32
    assert x.sum().dtype is tc.int64
    assert (x[:3] + 1.5).tolist() == [1.5, 2.5, 6.5]


@pytest.mark.parametrize("name", [n for n in EVERY if "int" in n])
def test_shifts(device, name):
    dtype = BY_NAME[name]
    bits = 8 * dtype.itemsize
    low = -(1 << (bits - 1)) if dtype.is_signed else 0
    numbers = [0, 1, 5, low, (1 << (bits - 1)) - 1, -3 if dtype.is_signed else 3]
    counts = [0, 1, bits - 1, bits, bits + 40, 2]
    x = tc.tensor(np.array(numbers, dtype.numpy), dtype=dtype)

    def wrapped(value):
        value &= (1 << bits) - 1
        return value - (1 << bits) if dtype.is_signed and value >> (bits - 1) else value

    for count in counts:
        left = [wrapped(v << count) if count < bits else 0 for v in numbers]
        right = [v >> count for v in numbers]
        assert (x << count).tolist() == x.bitwise_left_shift(count).tolist() == left
        assert (x >> count).tolist() == x.bitwise_right_shift(count).tolist() == right
        y = x.clone()
        y <<= tc.tensor(count, dtype=dtype)
        assert y.tolist() == left
        y = x.clone()
        y >>= count
        assert y.tolist() == right
    assert (1 << tc.tensor([0, 3], dtype=dtype)).tolist() == [1, 8]
    assert (9 >> tc.tensor([0, 3], dtype=dtype)).tolist() == [9, 1]
    if dtype.is_signed:
        assert (x << -1).tolist() == [0] * 6
        assert (x >> -1).tolist() == [v >> (bits - 1) for v in numbers]


@pytest.mark.parametrize("run", [
    lambda: tc.ones(2) << 1, lambda: tc.ones(2, dtype=tc.int32) << 1.5, lambda: tc.tensor([True]) >> tc.tensor([True]),
    lambda: tc.tensor([1j]).bitwise_left_shift(1)])
def test_only_integers_are_shifted(run):
    with pytest.raises(UndefinedDtype, match=r"\[bitwise_(left|right)_shift\]"):
        run()


# ------------------------------------------------------------------------------------------------------------ float8


def reference_values(name):
    """The numbers of a float8 format by its definition, one per word."""
    fraction, bias, largest, infinite = FLOAT8[name]
    values = []
    for word in range(256):
        exponent, digits = (word & 0x7F) >> fraction, word & ((1 << fraction) - 1)
        if exponent == 0:
            value = digits * 2.0 ** (1 - bias - fraction)
        else:
            value = (1 + digits / (1 << fraction)) * 2.0 ** (exponent - bias)
        if value > largest:
            value = np.inf if infinite and digits == 0 else np.nan
        values.append(-value if word & 0x80 else value)
    return np.array(values, np.float32)


@pytest.mark.parametrize("name", FLOAT8)
@pytest.mark.parametrize("place", ["ref", "cpu"])
def test_float8_numbers(name, place):
    if place not in [backend.name for backend in tc.backends()]:
        pytest.skip("only core is installed")
    words, known = np.arange(256, dtype=np.uint8), reference_values(name)
    if place == "cpu":  # enough for a generated kernel
        words, known = np.tile(words, 300), np.tile(known, 300)
    x = tc.tensor(known, device=place).to(BY_NAME[name])
    np.testing.assert_array_equal(x.float()._values(), known)
    bits = np.array(x._host())
    np.testing.assert_array_equal(bits[~np.isnan(known)], words[~np.isnan(known)])


@pytest.mark.parametrize("name", FLOAT8)
@pytest.mark.parametrize("place", ["ref", "cpu"])
def test_float8_rounds_to_nearest_even(name, place):
    if place not in [backend.name for backend in tc.backends()]:
        pytest.skip("only core is installed")
    known = reference_values(name)
    positive = np.sort(known[:128][np.isfinite(known[:128])])
    middle = (positive[1:] + positive[:-1]) / 2
    even = np.where(np.arange(len(middle)) % 2 == 0, positive[:-1], positive[1:])
    given = np.concatenate([middle, np.nextafter(middle, 0), np.nextafter(middle, 1e9), [1e6, -1e6, np.inf, np.nan]])
    largest = FLOAT8[name][2]
    beyond = np.inf if FLOAT8[name][3] else largest
    expected = np.concatenate([even, positive[:-1], positive[1:], [beyond, -beyond, beyond, np.nan]])
    repeat = 100 if place == "cpu" else 1
    x = tc.tensor(np.tile(given.astype(np.float32), repeat), device=place)
    np.testing.assert_array_equal(x.to(BY_NAME[name]).float()._values(), np.tile(expected, repeat))


@pytest.mark.parametrize("name", FLOAT8)
def test_float8_is_printed_compared_and_kept(name):
    x = tc.tensor([1.1, -2.0, 0.0], dtype=BY_NAME[name])
    assert x.tolist()[1:] == [-2.0, 0.0]
    assert f"dtype=tensocket.{name}" in repr(x)
    assert (x == x).tolist() == [True] * 3
    assert x.abs().dtype is x.dtype
    assert x.abs().tolist()[1] == 2.0
    assert x.isnan().tolist() == [False] * 3
    assert x[1].item() == -2.0
    assert x.any().item()
    assert tc.sum(x, dtype=tc.float32).dtype is tc.float32
    assert f.where(x == x, x, x).tolist() == x.tolist()


@pytest.mark.parametrize("run", [
    lambda x: x + x, lambda x: x + 1, lambda x: x * 2.0, lambda x: -x, lambda x: x < x, lambda x: x.exp(),
    lambda x: x.sum(), lambda x: x.mean(), lambda x: x.amax(), lambda x: f.relu(x), lambda x: x.argmax(),
    lambda x: x.reshape(1, 3) @ x.reshape(3, 1), lambda x: tc.arange(3, dtype=x.dtype),
    lambda x: tc.rand(2, dtype=x.dtype), lambda x: f.softmax(x, 0)])
@pytest.mark.parametrize("name", FLOAT8)
def test_arithmetic_with_float8(name, run):
    with pytest.raises(NotImplementedError):
        run(tc.ones(3, dtype=BY_NAME[name]))
    with pytest.raises(DtypeError, match="float8 dtypes are for storage"):
        tc.ones(3, dtype=BY_NAME[name]) * tc.ones(3)


# ------------------------------------------------------------------------------------------------------------ limits


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_finfo_is_numpys(name):
    ours, known = tc.finfo(BY_NAME[name]), np.finfo(name)
    for attribute in ("bits", "eps", "max", "min", "tiny", "smallest_normal"):
        assert getattr(ours, attribute) == getattr(known, attribute)
    assert ours.resolution == pytest.approx(float(known.resolution), rel=1e-3)
    assert ours.dtype == name


def test_finfo_of_the_other_types():
    assert tc.finfo(tc.complex64) == tc.finfo(tc.float32) == tc.finfo()
    assert hash(tc.finfo(tc.complex128)) == hash(tc.finfo(tc.float64))
    assert (tc.finfo(tc.bfloat16).eps, tc.finfo(tc.bfloat16).resolution) == (2.0**-7, 0.01)
    for name, (fraction, _, largest, _) in FLOAT8.items():
        positive = reference_values(name)[:128]
        limits = tc.finfo(BY_NAME[name])
        assert limits.max == largest == np.max(positive[np.isfinite(positive)])
        assert limits.eps == 2.0**-fraction
        assert limits.tiny == positive[1 << fraction]
        assert (limits.bits, limits.resolution) == (8, 1.0)
    assert repr(tc.finfo(tc.float16)) == (
        "finfo(resolution=0.001, min=-65504, max=65504, eps=0.000976562, smallest_normal=6.10352e-05, "
        "tiny=6.10352e-05, dtype=float16)")


@pytest.mark.parametrize("name", [n for n in EVERY if "int" in n])
def test_iinfo_is_numpys(name):
    ours, known = tc.iinfo(BY_NAME[name]), np.iinfo(name)
    assert (ours.bits, ours.min, ours.max, ours.dtype) == (known.bits, known.min, known.max, name)
    assert ours == tc.iinfo(BY_NAME[name])
    assert hash(ours) == hash(tc.iinfo(BY_NAME[name]))
    assert repr(tc.iinfo(tc.int32)) == "iinfo(min=-2.14748e+09, max=2.14748e+09, dtype=int32)"


def test_limits_of_the_wrong_kind():
    for wrong in (tc.int32, tc.bool_, "float32"):
        with pytest.raises(ArgumentTypeError, match=r"\[finfo\]"):
            tc.finfo(wrong)
    for wrong in (tc.float32, tc.bool_, tc.complex64):
        with pytest.raises(ArgumentTypeError, match=r"\[iinfo\]"):
            tc.iinfo(wrong)


# ---------------------------------------------------------------------------------------------------------- complex32


def halves(values):
    """Complex numbers with both parts rounded to float16."""
    with np.errstate(all="ignore"):
        wide = np.ascontiguousarray(values, np.complex64).view(np.float32)
        return wide.astype(np.float16).astype(np.float32).view(np.complex64)


@pytest.fixture
def numbers(device):
    if "complex32" not in tc.profile(device).dtypes:
        pytest.skip("a device without complex32")
    generator = np.random.default_rng(4)
    return (generator.normal(size=(3, 4)) + 1j * generator.normal(size=(3, 4))).astype(np.complex64)


def test_complex32_rounds_both_parts(numbers, device):
    x = tc.tensor(numbers).to(tc.complex32)
    assert x.element_size() == 4
    assert np.array_equal(np.array(x.to(tc.complex64).tolist()), halves(numbers))
    assert np.array_equal(np.array(x.tolist()), halves(numbers))
    assert (x.real.dtype, x.imag.dtype) == (tc.float16, tc.float16)
    assert np.array_equal(x.T.imag.tolist(), halves(numbers).T.imag)
    assert f.view_as_real(x).shape == (3, 4, 2)
    assert f.view_as_complex(f.view_as_real(x)).tolist() == x.tolist()
    parts = f.complex(x.real.contiguous(), x.imag.contiguous())
    assert (parts.dtype, parts.tolist()) == (tc.complex32, x.tolist())
    assert x.chalf().tolist() == x.tolist()
    assert repr(x).endswith("dtype=tensocket.complex32)")
    large = tc.tensor([70000 + 1j]).to(tc.complex32).item()
    assert (large.real, large.imag) == (np.inf, 1)


def test_complex32_is_computed_with_in_complex64(numbers, device):
    a, b = halves(numbers), halves(numbers[::-1] * 2)
    x, y = tc.tensor(a).to(tc.complex32), tc.tensor(b).to(tc.complex32)
    for run in (lambda p, q: p + q, lambda p, q: p * q, lambda p, q: p * (2 - 1j), lambda p, q: p.conj() - q):
        expected = run(a, b)
        result = run(x, y)
        assert result.dtype is tc.complex32
        np.testing.assert_allclose(np.array(result.tolist()), halves(expected), rtol=2e-3, atol=2e-3)
    assert x.abs().dtype is tc.float16
    np.testing.assert_allclose(x.abs().tolist(), np.abs(a), rtol=2e-3)
    assert (x == x).all().item()
    assert (tc.ones(2, dtype=tc.float16) * 1j).dtype is tc.complex32


def test_complex32_is_added_at_positions(numbers, device):
    a = halves(numbers)
    x = tc.zeros(2, 4, dtype=tc.complex32).index_add(0, tc.tensor([0, 1, 0]), tc.tensor(a).to(tc.complex32))
    np.testing.assert_allclose(np.array(x.tolist()), [a[0] + a[2], a[1]], rtol=2e-3, atol=2e-3)


def test_what_complex32_is_not_defined_for(numbers, device):
    x = tc.tensor(numbers).to(tc.complex32)
    with pytest.raises(UndefinedDtype, match="products of matrices are not of complex32"):
        x @ x.T
    with pytest.raises(UndefinedDtype, match="sum is not defined for it"):
        x.sum()
