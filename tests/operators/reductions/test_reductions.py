"""Reductions against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensocket_operators as torch
from tensocket_plugins.contract.errors import ArgumentTypeError, DimensionError, DtypeError, ShapeError

FORM = r"^\[{}\] .+ — .+ — .+"
X = np.random.default_rng(0).normal(size=(2, 3, 4))
DIMS = [None, 0, 1, 2, -1, -3, (0, 1), (0, 2), (2, 1), (0, 1, 2), (-1,)]
FUNCTIONS = {"sum": np.sum, "mean": np.mean, "prod": np.prod, "amax": np.max, "amin": np.min}
WHOLE = ["uint8", "int8", "int16", "int32", "int64"]
FLOATS = ["float16", "float32", "float64"]


def double(values):
    return torch.tensor(np.asarray(values, np.float64))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_dimensions(device, name, dim, keepdim, near):
    near(getattr(double(X), name)(dim, keepdim), FUNCTIONS[name](X, axis=dim, keepdims=keepdim))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_spellings(name, near):
    x, expected = double(X), FUNCTIONS[name](X, axis=1, keepdims=True)
    near(getattr(torch, name)(x, 1, True), expected)
    near(getattr(x, name)(dim=1, keepdim=True), expected)
    near(getattr(x, name)(axis=1, keepdim=True), expected)
    near(getattr(x, name)(), FUNCTIONS[name](X))
    out = torch.zeros(2, 1, 4, dtype=torch.float64)
    assert getattr(torch, name)(x, 1, True, out=out) is out
    near(out, expected)


@pytest.mark.parametrize("view", [
    lambda x: x.T, lambda x: x[:, ::2], lambda x: x[1:, 1, 1:], lambda x: x[..., :1], lambda x: x[1, 1],
    lambda x: x[0, 0, 0]])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_views(device, name, view, near):
    near(getattr(view(double(X)), name)(), FUNCTIONS[name](view(X)))
    if view(X).ndim:
        near(getattr(view(double(X)), name)(0), FUNCTIONS[name](view(X), axis=0))


@pytest.mark.parametrize("name", ["sum", "prod"])
@pytest.mark.parametrize("dtype", ["bool", *WHOLE])
def test_sums_of_integers_are_int64(device, name, dtype, make, near):
    values = np.array([[1, 0, 2], [100, 3, 1]]).astype(dtype)
    x = make(values, dtype)
    near(getattr(x, name)(1), FUNCTIONS[name](values.astype(np.int64), axis=1), dtype="int64")
    assert getattr(x, name)(dtype=torch.float64).item() == FUNCTIONS[name](values.astype(np.float64))


def test_sums_beyond_the_dtype_of_elements():
    assert torch.full((300,), 100, dtype=torch.int8).sum().item() == 30000
    assert torch.full((2,), 2**62).sum().item() == -(2**63)
    assert torch.full((300,), 100, dtype=torch.uint8).sum(dtype=torch.uint8).item() == 30000 % 256


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "float16"])
def test_more_elements_than_the_dtype_counts(device, dtype, make):
    values = np.zeros((2, 300), dtype)
    values[1, 299] = values[0, 5] = 1
    x = make(values, dtype)
    assert x.amax(1).tolist() == [1, 1]
    assert x.amin().item() == 0
    assert x.argmax(1).tolist() == [5, 299]
    assert (x.any().item(), x.all().item()) == (True, False)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_floats_keep_their_dtype(device, name, dtype, make, near):
    x = X.astype(dtype)
    near(getattr(make(x, dtype), name)(1), FUNCTIONS[name](x.astype(np.float64), axis=1), scale=4, dtype=dtype)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bfloat16(name, make, near, host):
    x = make(X, "bfloat16")
    near(getattr(x, name)(2), FUNCTIONS[name](host(x), axis=2), dtype="bfloat16")


def test_narrow_floats_are_summed_in_a_wider_one(make):
    # In float16, 2048 + 1 is 2048.
    x = make([2048.0] + [1.0] * 64, "float16")
    assert x.sum().item() == 2112.0
    assert x.mean(dtype=torch.float64).item() == 2112 / 65
    assert make([256.0] + [1.0] * 256, "bfloat16").sum().item() == 512.0


def test_many_elements(near):
    x = np.random.default_rng(5).normal(size=2500)
    near(double(x).sum(), x.sum(), scale=10)
    near(double(x).reshape(50, 50).t().mean(0), x.reshape(50, 50).mean(1), scale=10)
    assert double(x).argmax().item() == x.argmax()


@pytest.mark.parametrize("dtype", WHOLE)
def test_extremes_of_integers(device, dtype, dtypes):
    info = np.iinfo(dtype)
    values = np.array([[info.max, info.min, 1], [info.min, 5, info.min]], dtype)
    x = torch.tensor(values)
    for name in ("amax", "amin"):
        result = getattr(x, name)(1)
        assert result.dtype is dtypes[dtype]
        assert result.tolist() == FUNCTIONS[name](values, axis=1).tolist()
    assert x.argmax(1).tolist() == values.argmax(1).tolist()
    assert x.argmin(0).tolist() == values.argmin(0).tolist()


def test_extremes_of_bools_and_infinities(device):
    assert torch.tensor([False, True]).amax().item() is True
    assert torch.tensor([False, True]).amin().item() is False
    assert torch.tensor([-math.inf, -math.inf]).amax().item() == -math.inf
    assert torch.tensor([math.inf, 1.0]).amin().item() == 1.0


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "amin"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_nan_is_contagious(device, name, place):
    values = [1.0, -math.inf, 2.0]
    values[place] = math.nan
    assert math.isnan(getattr(torch.tensor(values), name)().item())


# ---- any and all


@pytest.mark.parametrize("dtype", ["bool", "int16", "float16", "float32", "float64"])
@pytest.mark.parametrize("dim", [None, 0, 1, (0, 1)])
def test_any_and_all(device, dtype, dim, make):
    values = np.array([[0, 0.5, 2], [0, 0, 3]]).astype(dtype)
    for name, reference in (("any", np.any), ("all", np.all)):
        result = getattr(make(values, dtype), name)(dim)
        assert result.dtype is torch.bool_
        assert result.tolist() == reference(values, axis=dim).tolist()


def test_any_and_all_of_special_values():
    assert torch.tensor([math.nan]).all().item() is True
    assert torch.tensor([-0.0]).any().item() is False
    assert torch.tensor([0, 256]).any().item() is True
    result = torch.tensor([3, 0], dtype=torch.uint8)
    assert (result.any().dtype, result.any().item(), result.all().item()) == (torch.uint8, 1, 0)


# ---- positions


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [None, 0, 1, 2, -1])
@pytest.mark.parametrize(("name", "reference"), [("argmax", np.argmax), ("argmin", np.argmin)])
def test_positions(device, name, reference, dim, keepdim):
    values = np.random.default_rng(6).integers(0, 3, (2, 3, 4)).astype(np.float32)
    for x, v in ((torch.tensor(values), values), (torch.tensor(values).T, values.T)):
        result = getattr(x, name)(dim, keepdim)
        assert result.dtype is torch.int64
        assert result.tolist() == reference(v, axis=dim, keepdims=keepdim).tolist()


def test_the_first_nan_is_the_extreme(device):
    x = torch.tensor([1.0, math.nan, math.inf, math.nan])
    assert x.argmax().item() == 1
    assert x.argmin().item() == 1
    assert torch.tensor([-math.inf] * 3).argmax().item() == 0
    assert torch.tensor(4.0).argmax().item() == 0


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_max_and_min_along_a_dimension(device, dim, keepdim):
    values = np.random.default_rng(7).integers(0, 9, (3, 4))
    for name, extreme, place in (("max", np.max, np.argmax), ("min", np.min, np.argmin)):
        result = getattr(torch.tensor(values), name)(dim, keepdim)
        assert type(result).__name__ == name
        assert result.values.tolist() == extreme(values, axis=dim, keepdims=keepdim).tolist()
        assert result.indices.tolist() == place(values, axis=dim, keepdims=keepdim).tolist()
        found, places = getattr(torch, name)(torch.tensor(values), dim, keepdim)
        assert (found.tolist(), places.tolist()) == (result[0].tolist(), result[1].tolist())


def test_max_and_min_of_everything_and_of_two():
    x, y = torch.tensor([3, -1]), torch.tensor([2, 5])
    assert (x.max().item(), x.min().item()) == (3, -1)
    assert torch.max(x, y).tolist() == [3, 5]
    assert torch.min(x, y).tolist() == [2, -1]
    assert tuple(part.item() for part in torch.tensor(2.5).max(0)) == (2.5, 0)


# ---- spread


@pytest.mark.parametrize("correction", [0, 1, 1.5])
@pytest.mark.parametrize("dim", [None, 0, 2, (0, 2)])
def test_variance(device, dim, correction, near):
    for keepdim in (False, True):
        near(double(X).var(dim, keepdim=keepdim, correction=correction),
             X.var(axis=dim, ddof=correction, keepdims=keepdim))
        near(double(X).std(dim, keepdim=keepdim, correction=0), X.std(axis=dim, keepdims=keepdim))


def test_ways_to_write_the_correction(near):
    x = double(X)
    near(x.var(), X.var(ddof=1))
    near(x.std(1), X.std(axis=1, ddof=1))
    for biased in (x.var(False), x.var(unbiased=False), x.var(correction=0)):
        near(biased, X.var())
    near(x.std(1, False, True), X.std(axis=1, keepdims=True))
    near(x.var(1, True), X.var(axis=1, ddof=1))
    with pytest.raises(ArgumentTypeError, match=FORM.format("var")):
        x.var(unbiased=True, correction=1)


def test_variance_of_too_few_is_not_a_number():
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        assert math.isnan(torch.tensor([1.0]).var().item())
    assert torch.tensor([1.0]).var(correction=0).item() == 0.0
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        assert math.isnan(torch.zeros(0).std().item())


def test_variance_does_not_cancel(near):
    # Far from zero, the mean of squares less the square of the mean has no digits left.
    near(double(X + 1e8).var(), X.var(ddof=1), scale=1e5)


# ---- logsumexp


@pytest.mark.parametrize("dim", [0, 1, (0, 2), -1])
def test_logsumexp(device, dim, near):
    for keepdim in (False, True):
        near(double(X).logsumexp(dim, keepdim), np.log(np.exp(X).sum(axis=dim, keepdims=keepdim)))


def test_logsumexp_of_extreme_values(near):
    near(torch.tensor([1000.0, 1000.0]).logsumexp(0), 1000 + math.log(2))
    near(torch.tensor([-1000.0, -1000.0]).logsumexp(0), -1000 + math.log(2))
    assert torch.tensor([-math.inf, -math.inf]).logsumexp(0).item() == -math.inf
    assert torch.tensor([math.inf, 0.0]).logsumexp(0).item() == math.inf
    assert torch.zeros(0).logsumexp(0).item() == -math.inf
    near(torch.tensor([1, 2]).logsumexp(0), np.log(np.exp(1) + np.exp(2)), dtype="float32")
    assert torch.tensor([math.nan, 0.0]).logsumexp(0).isnan().item()
    assert torch.tensor(2.0).logsumexp(0).item() == 2.0


def test_gradient_of_logsumexp_is_softmax(device, near):
    x = torch.tensor([[1000.0, -math.inf, 998.0], [0.0, 1.0, 2.0]], requires_grad=True)
    x.logsumexp(1).sum().backward()
    exponentials = np.exp([[0, -math.inf, -2], [0, 1, 2]])
    near(x.grad, exponentials / exponentials.sum(1, keepdims=True))


# ---- nothing to reduce, and what is refused


@pytest.mark.parametrize("size", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_neutral_elements(device, size):
    x = torch.zeros(size)
    assert x.sum().item() == 0.0
    assert x.prod().item() == 1.0
    assert x.any().item() is False
    assert x.all().item() is True
    assert math.isnan(x.mean().item())
    assert x.sum(0).tolist() == np.zeros(size).sum(0).tolist()
    assert x.prod(-1).tolist() == np.zeros(size).prod(-1).tolist()


def test_extremes_of_nothing(device):
    x = torch.zeros(2, 0)
    assert x.amax(0).shape == (0,)
    assert x.argmin(0).shape == (0,)
    for call in (lambda: x.amax(1), lambda: x.argmax(1)):
        with pytest.raises(DimensionError, match=FORM.format(r"\w+")):
            call()
    with pytest.raises(ShapeError, match=FORM.format("amin")):
        x.amin()


def test_one_element_without_dimensions(device):
    x = torch.tensor(2.5)
    for name in FUNCTIONS:
        assert getattr(x, name)().item() == 2.5
        assert getattr(x, name)(0).item() == 2.5
        assert getattr(x, name)(-1, True).shape == ()


@pytest.mark.parametrize(("call", "kind"), [
    (lambda x: x.sum(2), DimensionError),
    (lambda x: x.amax(-3), DimensionError),
    (lambda x: x.argmax(5), DimensionError),
    (lambda x: x.max(2), DimensionError),
    (lambda x: x.var(2), DimensionError),
    (lambda x: x.long().mean(), DtypeError),
    (lambda x: x.bool().mean(1), DtypeError),
    (lambda x: x.sum(dtype="float32"), ArgumentTypeError),
    (lambda x: x.long().var(), DtypeError)])
def test_what_is_refused(call, kind):
    with pytest.raises(kind, match=FORM.format(r"\w+")):
        call(torch.ones(2, 3))


def test_dimensions_are_listed_once():
    with pytest.raises(RuntimeError, match=FORM.format("sum")):
        torch.ones(2, 3).sum((0, 0))
    with pytest.raises(RuntimeError, match=FORM.format("sum")):
        torch.ones(2, 3).sum((1, -1))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_any_shape_and_dimensions(data):
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    order = data.draw(st.permutations(range(len(shape))))
    dims = data.draw(st.lists(st.sampled_from(range(len(shape))), min_size=1, unique=True))
    keepdim = data.draw(st.booleans())
    values = np.random.default_rng(len(shape)).integers(-9, 9, shape)
    x = torch.tensor(values).permute(order)
    v = values.transpose(order)
    assert x.sum(dims, keepdim).tolist() == v.sum(axis=tuple(dims), keepdims=keepdim).tolist()
    assert x.amax(dims, keepdim).tolist() == v.max(axis=tuple(dims), keepdims=keepdim).tolist()
    assert x.argmin(dims[0]).tolist() == v.argmin(axis=dims[0]).tolist()


def test_results_with_names_are_printed_and_pickled():
    result = torch.tensor([[1.0, 3.0], [5.0, 2.0]]).max(1)
    assert repr(result) == ("tensocket.return_types.max(\nvalues=" + repr(result.values) + ",\nindices="
                            + repr(result.indices) + ")")
    assert result.values.tolist() == [3.0, 5.0]


@pytest.mark.parametrize("dim", [(), []])
def test_any_and_all_reduce_no_dimension_of_an_empty_list(dim: object) -> None:
    x = torch.tensor([[0.0, 1.0], [1.0, 2.0]])
    for function in (torch.any, torch.all):
        assert function(x, dim=dim).tolist() == [[False, True], [True, True]]
        assert function(x, dim, True).shape == (2, 2)
    small = torch.any(x.to(torch.uint8), dim=dim)
    assert small.dtype is torch.uint8
    assert small.tolist() == [[0, 1], [1, 1]]
