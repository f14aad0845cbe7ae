"""Complex tensors against NumPy, and their gradients against differences in both directions."""

from __future__ import annotations

import cmath

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_plugins.contract.errors import (
    ArgumentError,
    AutogradError,
    DtypeError,
    ShapeError,
    UndefinedDtype,
    UnsupportedDtype,
)

COMPLEX = ("complex64", "complex128")
PART = {"complex64": "float32", "complex128": "float64"}
RTOL = {"complex64": 4e-6, "complex128": 1e-13, "float32": 4e-6, "float64": 1e-13}


@pytest.fixture(params=COMPLEX)
def dtype(request):
    return request.param


@pytest.fixture
def ready(device, dtype):
    """Skips devices that do not compute with the dtype; these refuse it."""
    if dtype in tc.profile(device).dtypes:
        return True
    with pytest.raises(UnsupportedDtype, match=rf"\[tensor\] {dtype} on {device}"):
        tc.tensor([1j], dtype=getattr(tc, dtype))
    return False


def values(shape=(3, 5), seed=0):
    """Multiples of 1/16 of moderate size, none of them on an axis."""
    rng = np.random.default_rng(seed)
    re, im = (np.round(rng.uniform(0.2, 2.5, shape) * 16) / 16 * rng.choice([-1, 1], shape) for _ in range(2))
    return re + 1j * im


def near(tensor, reference, dtype, scale=1.0):
    assert tensor.dtype is getattr(tc, dtype)
    actual = np.asarray(tensor.detach()._values())
    reference = np.asarray(reference)
    assert actual.shape == reference.shape
    bound = scale * RTOL[dtype]
    np.testing.assert_allclose(actual, reference, rtol=bound, atol=bound)


UNARY = {
    "neg": np.negative, "square": np.square, "reciprocal": np.reciprocal, "exp": np.exp, "expm1": np.expm1,
    "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda z: 1 / np.sqrt(z), "sin": np.sin, "cos": np.cos,
    "tanh": np.tanh, "sigmoid": lambda z: 1 / (1 + np.exp(-z)), "sgn": lambda z: z / np.abs(z), "conj": np.conj,
    "conj_physical": np.conj,
}
TO_REAL = {"abs": np.abs, "angle": np.angle, "real": np.real, "imag": np.imag}
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power,
}
TESTS = {
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "logical_not": np.logical_not,
    "isreal": lambda z: z.imag == 0,
}
#: Small arrays, and ones that generated kernels run on; strided ones, and a 0-d one.
LAYOUTS = {
    "small": lambda x: x, "transposed": lambda x: x.t(), "step": lambda x: x[:, ::2], "scalar": lambda x: x[1, 2],
}


@pytest.mark.parametrize("name", UNARY)
def test_functions(ready, dtype, name):
    if not ready:
        return
    a = values()
    x = tc.tensor(a, dtype=getattr(tc, dtype))
    for cut in LAYOUTS.values():
        reference = cut(np.asarray(a).view(_Array))
        near(getattr(f, name)(cut(x)), UNARY[name](np.asarray(reference)), dtype, 4)


class _Array(np.ndarray):
    """NumPy's array with PyTorch's name of the transpose."""

    def t(self):
        return self.T


@pytest.mark.parametrize("name", TO_REAL)
def test_functions_with_real_results(ready, dtype, name):
    if ready:
        a = values()
        near(getattr(f, name)(tc.tensor(a, dtype=getattr(tc, dtype)).t()), TO_REAL[name](a.T), PART[dtype])


@pytest.mark.parametrize("name", BINARY)
def test_arithmetic(ready, dtype, name):
    if not ready:
        return
    a, b = values(), values(seed=1)
    x, y = (tc.tensor(v, dtype=getattr(tc, dtype)) for v in (a, b))
    run, reference = getattr(f, name), BINARY[name]
    for left, right, expected in (
        (x, y, reference(a, b)), (x, y[0], reference(a, b[0])), (x, 2.5, reference(a, 2.5)),
        (x, 1 - 2j, reference(a, 1 - 2j)), (x, y.real, reference(a, b.real)), (x.real, y, reference(a.real + 0j, b)),
    ):
        near(run(left, right), expected, dtype, 64 if name == "pow" else 4)
    near(2 - x, 2 - a, dtype)
    near(3j / x, 3j / a, dtype)
    near(2**x, 2**a, dtype, 8)
    near((x.real + 0) * 1j, a.real * 1j, dtype)


@pytest.mark.parametrize("name", ["exp", "mul", "abs", "add", "sqrt"])
def test_large_arrays_are_computed_by_generated_kernels(name):
    """Beyond the limits of NumPy's kernels on host-resident devices, with the same results."""
    if "cpu" not in [backend.name for backend in tc.backends()]:
        pytest.skip("only core is installed")
    a = np.tile(values((64, 64)), (8, 8))
    x = tc.tensor(a, device="cpu")
    got = getattr(f, name)(x, x) if name in BINARY else getattr(f, name)(x)
    expected = BINARY[name](a, a) if name in BINARY else {**UNARY, **TO_REAL}[name](a)
    near(got, expected, got.dtype.name)
    turned = getattr(f, name)(x.t(), x) if name in BINARY else getattr(f, name)(x.t()[1:])
    near(turned, BINARY[name](a.T, a) if name in BINARY else expected.T[1:], got.dtype.name)


@pytest.mark.parametrize("name", TESTS)
def test_tests(ready, dtype, name):
    if not ready:
        return
    inf, nan = np.inf, np.nan
    a = np.array([1 + 2j, 0, 3, complex(nan, 1), complex(1, nan), complex(inf, nan), complex(0, -inf), -0.0j])
    result = getattr(f, name)(tc.tensor(a, dtype=getattr(tc, dtype)))
    assert result.dtype is tc.bool_
    assert result.tolist() == TESTS[name](a).tolist()


def test_comparison(ready, dtype):
    if not ready:
        return
    x = tc.tensor([1 + 2j, 1 - 2j, 3], dtype=getattr(tc, dtype))
    y = tc.tensor([1 + 2j, 1 + 2j, 4], dtype=getattr(tc, dtype))
    assert (x == y).tolist() == [True, False, False]
    assert (x != y).tolist() == [False, True, True]
    assert (x == 3).tolist() == [False, False, True]
    assert (x == 1 - 2j).tolist() == [False, True, False]
    zero = tc.tensor([0, 1j, 0], dtype=getattr(tc, dtype))
    assert f.logical_and(x, zero).tolist() == [False, True, False]
    assert f.logical_xor(x, zero).tolist() == [True, False, True]
    assert f.where(x == y, x, 2j).tolist() == [1 + 2j, 2j, 2j]
    assert x.masked_fill(x == y, 5j).tolist() == [5j, 1 - 2j, 3]


def test_reductions(ready, dtype):
    if not ready:
        return
    a = values((4, 6))
    x = tc.tensor(a, dtype=getattr(tc, dtype))
    near(x.sum(), a.sum(), dtype, 8)
    near(x.sum(0), a.sum(0), dtype, 8)
    near(x.t().mean(0, True), a.T.mean(0, keepdims=True), dtype, 8)
    near(x.prod(1), a.prod(1), dtype, 64)
    near(x.var(1), np.var(a, 1, ddof=1), PART[dtype], 8)
    near(x.std(), np.std(a, ddof=1), PART[dtype], 8)
    near(x.real.sum(dtype=getattr(tc, dtype)), a.real.sum(), dtype, 8)
    mask = tc.tensor([[0, 0], [1j, 0], [1j, 1]], dtype=getattr(tc, dtype))
    assert mask.any(1).tolist() == [False, True, True]
    assert mask.all(1).tolist() == [False, False, True]


def test_products_of_matrices(ready, dtype):
    if not ready:
        return
    a, b = values((2, 3, 4)), values((4, 5), 1)
    x, y = (tc.tensor(v, dtype=getattr(tc, dtype)) for v in (a, b))
    near(x @ y, a @ b, dtype, 16)
    near(x.mH @ x, a.conj().swapaxes(-1, -2) @ a, dtype, 16)
    near(y.H, b.conj().T, dtype)
    near(x[0, 0].dot(x[0, 1]), a[0, 0] @ a[0, 1], dtype, 16)
    near(x[0, 0].vdot(x[0, 1]), np.vdot(a[0, 0], a[0, 1]), dtype, 16)
    with pytest.raises(DtypeError, match=r"\[matmul\]"):
        x @ y.real


def test_movement(ready, dtype):
    if not ready:
        return
    a = values((3, 4))
    x = tc.tensor(a, dtype=getattr(tc, dtype))
    index = tc.tensor([[2, 0, 1, 1]])
    for got, expected in (
        (f.cat([x, x.conj()], 1), np.concatenate([a, a.conj()], 1)), (f.stack([x, x]), np.stack([a, a])),
        (x[tc.tensor([2, 0])], a[[2, 0]]), (x[x.real > 0], a[a.real > 0]),
        (x.gather(0, index), a[[[2, 0, 1, 1]], range(4)]),
        (x.flip(0), a[::-1]), (x.t().clone(), a.T), (x.t().contiguous(), a.T), (x.repeat(2, 1), np.tile(a, (2, 1))),
        (x.index_select(1, tc.tensor([3, 1])), a[:, [3, 1]]), (x.t()[1:].reshape(-1), a.T[1:].ravel()),
    ):
        near(got, expected, dtype)
    added = x.scatter_add(0, index, x[:1] * 2)
    reference = a.copy()
    reference[[2, 0, 1, 1], range(4)] += 2 * a[0]
    near(added, reference, dtype)
    x[1] = 7j
    x[0, 1:3] = tc.tensor([1.5, 2.5])
    a[1], a[0, 1:3] = 7j, [1.5, 2.5]
    near(x, a, dtype)
    assert f.nonzero(tc.tensor([0, 1j, 0], dtype=x.dtype)).tolist() == [[1]]


def test_conversions(ready, dtype, device):
    if not ready:
        return
    x = tc.tensor([1.5 + 2j, 0, 3j], dtype=getattr(tc, dtype))
    assert x.to(tc.float64).tolist() == [1.5, 0, 0]
    assert x.to(tc.int32).tolist() == [1, 0, 0]
    assert x.to(tc.bool_).tolist() == [True, False, True]
    assert x.cfloat().dtype is tc.complex64
    assert x.cdouble().dtype is tc.complex128
    assert x.to(tc.bfloat16).tolist() == [1.5, 0, 0]
    assert tc.tensor([1, 2]).to(x.dtype).tolist() == [1, 2]
    assert tc.tensor([True, False]).to(x.dtype).tolist() == [1, 0]
    assert tc.tensor([1.5], dtype=tc.bfloat16).to(x.dtype).tolist() == [1.5]
    assert x.to("ref:1").to(device).tolist() == x.tolist()
    assert x.type_as(tc.ones(1)).dtype is tc.float32


def test_parts_are_views(ready, dtype):
    if not ready:
        return
    x = tc.tensor([[1 + 2j, 3 - 1j], [5j, 4]], dtype=getattr(tc, dtype))
    assert x.real.tolist() == [[1, 3], [0, 4]]
    assert x.t().imag.tolist() == [[2, 5], [-1, 0]]
    assert x.real.stride() == (4, 2)
    x.real.fill_(9)
    x.imag = tc.tensor([1.0, -1.0])
    assert x.tolist() == [[9 + 1j, 9 - 1j], [9 + 1j, 9 - 1j]]
    x.real = 0
    pairs = tc.view_as_real(x)
    assert pairs.tolist() == [[[0, 1], [0, -1]], [[0, 1], [0, -1]]]
    pairs[0, 0, 0] = 6
    assert x[0, 0].item() == 6 + 1j
    back = tc.view_as_complex(pairs)
    back[1, 1] = 8
    assert x[1, 1].item() == 8
    assert x._version == back._version > 0
    assert tc.view_as_complex(pairs[:, 1]).tolist() == [-1j, 8]
    one = tc.as_strided(tc.tensor([3.0, 4.0]), (1, 1, 2), (2, 1, 1))
    assert tc.view_as_complex(one).tolist() == [[3 + 4j]]
    real = tc.ones(2)
    assert tc.real(real) is real is real.conj()


def test_numbers(ready, dtype):
    if not ready:
        return
    x = tc.tensor([1 + 2j, 4], dtype=getattr(tc, dtype))
    assert x[0].item() == complex(x[0]) == 1 + 2j
    assert float(x[1]) == int(x[1]) == 4
    assert bool(x[0])
    with pytest.raises(ArgumentError, match=r"\[float\] the complex number"):
        float(x[0])
    with pytest.raises(ArgumentError, match=r"\[int\]"):
        int(x[0])
    assert complex(tc.tensor(2.5)) == 2.5


def test_factories(ready, dtype):
    if not ready:
        return
    kind = getattr(tc, dtype)
    assert tc.zeros(2, dtype=kind).tolist() == [0, 0]
    assert tc.full((2,), 1 + 2j, dtype=kind).tolist() == [1 + 2j, 1 + 2j]
    assert tc.eye(2, dtype=kind).tolist() == [[1, 0], [0, 1]]
    assert tc.linspace(0, 1j, 3, dtype=kind).tolist() == [0, 0.5j, 1j]
    assert tc.tensor([1j]).dtype is tc.full((1,), 1j).dtype is tc.complex64
    tc.set_default_dtype(tc.float64)
    assert tc.tensor([1j]).dtype is tc.complex128
    assert tc.ones(2).mul(1j).dtype is tc.complex128


def test_parts_make_complex_numbers(ready, dtype):
    if not ready:
        return
    part = getattr(tc, PART[dtype])
    re, im = tc.tensor([1.0, -2.0], dtype=part), tc.tensor([[3.0], [0.5]], dtype=part)
    near(tc.complex(re, im), np.array([1.0, -2]) + 1j * np.array([[3.0], [0.5]]), dtype)
    near(tc.polar(re.abs(), im), np.array([1.0, 2]) * np.exp(1j * np.array([[3.0], [0.5]])), dtype)


def test_random_numbers(ready, dtype):
    if not ready:
        return
    tc.manual_seed(3)
    x = tc.randn(4000, dtype=getattr(tc, dtype))
    got = x._values()
    assert abs(np.mean(np.abs(got) ** 2) - 1) < 0.1
    assert abs(np.var(got.real) - 0.5) < 0.05
    assert abs(np.var(got.imag) - 0.5) < 0.05
    assert abs(np.mean(got.real * got.imag)) < 0.05
    u = tc.rand(4000, dtype=getattr(tc, dtype))._values()
    assert min(u.real.min(), u.imag.min()) >= 0
    assert max(u.real.max(), u.imag.max()) < 1
    assert abs(u.imag.mean() - 0.5) < 0.05


def test_in_place(ready, dtype):
    if not ready:
        return
    x = tc.tensor([1 + 2j, 3], dtype=getattr(tc, dtype))
    x.mul_(2).add_(1j).sub_(tc.tensor([1.0, 0.0]))
    assert x.tolist() == [1 + 5j, 6 + 1j]
    assert x.conj_physical_().tolist() == [1 - 5j, 6 - 1j]
    near(x.exp_(), np.exp([1 - 5j, 6 - 1j]), dtype, 4)
    with pytest.raises(DtypeError, match=r"\[abs_\].*the result is real"):
        x.abs_()
    with pytest.raises(DtypeError, match=r"\[add_\]"):
        x.real.add_(x)


def test_what_conjugates_are(device):
    x = tc.ones(2)
    assert x.conj() is x.resolve_conj() is x.resolve_neg() is x
    assert not x.is_conj()
    assert not x.is_neg()
    assert not tc.is_complex(x)
    assert tc.isreal(x).tolist() == [True, True]
    assert tc.angle(tc.tensor([1.0, -1.0, 0.0, float("nan")])).tolist()[:3] == [0.0, pytest.approx(cmath.pi), 0.0]
    assert tc.angle(tc.tensor([-2, 3])).tolist() == [pytest.approx(cmath.pi), 0]
    assert tc.sgn(tc.tensor([-2.5, 0.0, 3.0])).tolist() == [-1, 0, 1]
    assert tc.sgn(tc.tensor([True, False])).tolist() == [True, False]


def test_conj_physical_copies_complex_tensors_only(device):
    for x in (tc.ones(2), tc.tensor([1, -2]), tc.tensor([True]), tc.ones(2, requires_grad=True)):
        assert x.conj_physical() is tc.conj_physical(x) is x
    out = tc.zeros(2)
    assert tc.conj_physical(tc.tensor([3.0, -4.0]), out=out) is out
    assert out.tolist() == [3, -4]
    x = tc.tensor([2.0, 3.0], requires_grad=True)
    (x.conj_physical() * x).sum().backward()
    assert x.grad.tolist() == [4, 6]
    if device != "plain":
        z = tc.tensor([1 + 2j])
        assert z.conj_physical().tolist() == [1 - 2j]
        assert not z.conj_physical().is_conj()


REFUSED = [
    "lt", "le", "gt", "ge", "maximum", "minimum", "floor_divide", "remainder", "fmod", "bitwise_and", "clamp_min",
]


@pytest.mark.parametrize("name", REFUSED)
def test_operators_of_ordered_numbers(name):
    x = tc.tensor([1 + 2j])
    with pytest.raises(UndefinedDtype, match=rf"\[{name}\] dtype complex64") as caught:
        getattr(f, name)(x, x)
    assert isinstance(caught.value, (NotImplementedError, RuntimeError))
    with pytest.raises(NotImplementedError if name not in ("maximum", "minimum") else TypeError):
        getattr(f, name)(tc.ones(1), 1j)


@pytest.mark.parametrize("name", [
    "floor", "ceil", "trunc", "round", "sign", "relu", "erf", "bitwise_not", "amax", "amin", "argmax", "argmin"])
def test_functions_of_ordered_numbers(name):
    with pytest.raises(NotImplementedError, match=rf"\[{name}\] dtype complex64"):
        getattr(f, name)(tc.tensor([1 + 2j]))


@pytest.mark.parametrize("make", [
    lambda: tc.view_as_complex(tc.ones(5)[1:3]), lambda: tc.view_as_complex(tc.tensor(1.0))])
def test_pairs_that_are_no_complex_numbers_in_place(make):
    with pytest.raises(ShapeError, match=r"\[view_as_complex\]"):
        make()


def test_in_place_results_stay_real():
    with pytest.raises(DtypeError, match=r"\[add_\] a result of dtype complex64"):
        tc.ones(2).add_(1j)
    with pytest.raises(ArgumentError, match=r"\[fill_\] 2j"):
        tc.ones(2).fill_(2j)


def test_backward_starts_from_real_numbers():
    z = tc.tensor([1j], requires_grad=True)
    with pytest.raises(AutogradError, match="implicitly for real numbers only"):
        z.sum().backward()
    z.sum().backward(tc.tensor(2j))
    assert z.grad.tolist() == [2j]


# -------------------------------------------------------------------------------------------------------- gradients

H = 1e-6
A, B, C = values((2, 3)), values((2, 3), 1), values((2, 3), 2)
R = np.array([[0.7, -1.3, 1.6], [-0.4, 2.3, -2.6]])
M = np.array([[True, False, True], [False, False, True]])


def gradient_cases():
    for name in ("neg", "square", "reciprocal", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "sin", "cos", "tanh",
                 "sigmoid", "abs", "angle", "sgn", "conj", "conj_physical", "real", "imag", "view_as_real"):
        yield name, getattr(f, name), (A,)
    for name in ("add", "sub", "mul", "div"):
        for other in (B, B[0], R, R[:, 1:2]):
            yield name, getattr(f, name), (A, other)
            yield name, getattr(f, name), (other, A)
    yield "mul number", lambda x: x * (2 - 3j) / 1j, (A,)
    yield "mul number real", lambda x: x * (2 - 3j) + 1j, (R,)
    yield "pow", f.pow, (A, B)
    yield "pow real base", f.pow, (np.abs(R), B)
    yield "pow real exponent", f.pow, (A, R)
    yield "pow number", lambda x: x**3 + x**-1.5 + (1 + 1j) ** x + 2**x, (A,)
    yield "negative base", lambda x: (-2.0) ** x, (A,)
    yield "alpha", lambda x, y: f.add(x, y, alpha=2j), (A, B)
    yield "where", lambda x, y: f.where(tc.tensor(M), x, y), (A, R)
    yield "masked_fill", lambda x: x.masked_fill(tc.tensor(M), 1j), (A,)
    yield "lerp", f.lerp, (A, B, C)
    yield "addcmul", lambda x, y, z: f.addcmul(x, y, z, value=1 - 2j), (A, B, C)
    yield "addcdiv", lambda x, y, z: f.addcdiv(x, y, z, value=0.5), (A, B, C)
    yield "matmul", lambda x, y: x @ y.t(), (A, B)
    yield "adjoint", lambda x, y: x @ y.mH, (A, B)
    yield "vdot", lambda x, y: x[0].vdot(y[1]), (A, B)
    for dim in (None, 1):
        for name in ("sum", "mean", "prod", "var"):
            yield name, lambda x, name=name, dim=dim: getattr(x, name)(dim), (A,)
    yield "complex", f.complex, (R, R[0])
    yield "polar", f.polar, (np.abs(R), R[:, 1:2])
    yield "view_as_complex", lambda x: f.view_as_complex(x[:, :2].contiguous()) ** 2, (R,)
    yield "to complex", lambda x: x.to(tc.complex128) * (1 + 1j), (R,)
    yield "to real", lambda x: x.to(tc.float64) * 2, (A,)
    yield "index", lambda x: x[:, [2, 0, 2]] * x[1, 0], (A,)
    yield "cat", lambda x, y: f.cat([x, y.t().reshape(2, 3)], 1), (A, B)
    yield "assignment", _assigned, (A, R)
    yield "real part written", _written, (A, R)
    yield "in place", lambda x, y: (x * 1).mul_(y).div_(x + 3).exp_(), (A, B)


def _assigned(x, y):
    z = x * 1
    z[0] = y[1]
    return z * z


def _written(x, y):
    z = x * 1j
    z.real = y
    z.imag.mul_(2)
    return z * z


CASES = list(gradient_cases())


@pytest.mark.parametrize(("name", "run", "arguments"), CASES, ids=[f"{k}-{case[0]}" for k, case in enumerate(CASES)])
@pytest.mark.parametrize("place", ["ref", "cpu"])
def test_gradients(name, run, arguments, place):
    """PyTorch's convention: of a real L, grad = dL/dRe + i dL/dIm; real arguments have real gradients."""
    if place not in [backend.name for backend in tc.backends()]:
        pytest.skip("only core is installed")
    tc.set_default_device(place)
    rng = np.random.default_rng(4)
    leaves = [tc.tensor(a, requires_grad=True) for a in arguments]
    out = run(*leaves)
    weights = rng.standard_normal(tuple(out.shape)) + (1j * rng.standard_normal(tuple(out.shape)) if (
        out.is_complex()) else 0)

    def loss(*given):
        with tc.no_grad():
            made = run(*[tc.tensor(v) for v in given])._values()
        return np.sum((weights.conj() * made).real)

    out.backward(tc.tensor(weights))
    for k, (a, leaf) in enumerate(zip(arguments, leaves, strict=True)):
        expected = np.zeros_like(a)
        for at in np.ndindex(a.shape):
            for unit in (1, 1j) if np.iscomplexobj(a) else (1,):
                above, below = a.copy(), a.copy()
                above[at] += H * unit
                below[at] -= H * unit
                given = [list(arguments), list(arguments)]
                given[0][k], given[1][k] = above, below
                expected[at] += unit * (loss(*given[0]) - loss(*given[1])) / (2 * H)
        assert leaf.grad.dtype is leaf.dtype
        np.testing.assert_allclose(leaf.grad._values(), expected, rtol=2e-7, atol=2e-7)


@pytest.mark.parametrize("run", [
    lambda z: (z * z).abs(), lambda z: (z.exp() / z).imag, lambda z: z.angle() * z.abs(), lambda z: (z.conj() * z).real,
    lambda z: z.sgn().real, lambda z: (z**3).imag])
def test_second_derivatives(run):
    """The gradient's own gradient along a direction, against a difference of first gradients."""
    tc.set_default_device("ref")
    direction = values((2, 3), 5)

    def first(a, create):
        z = tc.tensor(a, requires_grad=True)
        return z, tc.autograd.grad(run(z).sum(), z, create_graph=create)[0]

    z, grad = first(A, True)
    (grad * tc.tensor(direction).conj()).real.sum().backward()
    expected = np.zeros_like(A)
    for at in np.ndindex(A.shape):
        for unit in (1, 1j):
            step = np.zeros_like(A)
            step[at] = H * unit
            change = (first(A + step, False)[1]._values() - first(A - step, False)[1]._values()) / (2 * H)
            expected[at] += unit * np.sum((change * direction.conj()).real)
    np.testing.assert_allclose(z.grad._values(), expected, rtol=1e-6, atol=1e-6)


def test_zeros_have_finite_gradients():
    z = tc.tensor([0j, 1j], requires_grad=True)
    (z.abs() + z.sgn().real + z.angle()).sum().backward()
    assert np.isfinite(z.grad._values()).all()
    assert z.grad[0].item() == 0


def test_parts_share_the_storage():
    x = tc.tensor([[1 + 2j, 3 + 4j], [5 + 6j, 7 + 8j]])
    for part in (x.real, x.imag, x.T.real, tc.view_as_real(x.T), x[1:].imag):
        assert part.untyped_storage() is x.untyped_storage()
    assert x.imag.storage_offset() == 1
    assert x[1:].real.storage_offset() == 4
