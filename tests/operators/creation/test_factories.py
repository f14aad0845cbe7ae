"""Factories: sizes, values, dtypes, devices."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators.creation.ranges import steps_between
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, ShapeError, UnknownDevice

FORM = r"^\[{}\] .+ — .+ — .+"
NATIVE = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


@pytest.mark.parametrize(("factory", "value"), [(torch.zeros, 0), (torch.ones, 1)])
@pytest.mark.parametrize("size", [(), (3,), (2, 3), (0,), (2, 0, 3)])
def test_constant_factories(device, factory, value, size):
    for x in (factory(size), factory(list(size)), *([factory(*size)] if size else [])):
        assert tuple(x.shape) == size
        assert x.dtype is torch.float32
        assert x.tolist() == np.full(size, float(value)).tolist()
        assert x.is_contiguous()
        assert x.device.type == device


@pytest.mark.parametrize("dtype", NATIVE)
def test_dtypes_of_factories(device, dtype, dtypes, host):
    chosen = dtypes[dtype]
    like = torch.empty(5, device=device)
    for x, value in (
            (torch.zeros(2, dtype=chosen), 0), (torch.ones(2, dtype=chosen), 1), (torch.full((2,), 1, dtype=chosen), 1),
            (torch.zeros_like(like[:2], dtype=chosen), 0), (like.new_ones(2, dtype=chosen), 1)):
        assert x.dtype is chosen
        assert (host(x) == value).all()
    assert torch.empty(2, dtype=chosen).dtype is chosen


@pytest.mark.parametrize(("value", "dtype"), [
    (True, "bool"), (3, "int64"), (2.5, "float32"), (math.inf, "float32"), (-7, "int64")])
def test_full(device, value, dtype, dtypes):
    x = torch.full((2, 2), value)
    assert x.dtype is dtypes[dtype]
    assert x.tolist() == [[value] * 2] * 2
    assert torch.full((), value).item() == value
    assert torch.full((1,), torch.tensor(value)).tolist() == [value]


def test_likes_take_shape_dtype_and_device():
    x = torch.arange(6, dtype=torch.int16, device="ref:1").reshape(2, 3)
    for y, value in ((torch.zeros_like(x), 0), (torch.ones_like(x), 1), (torch.full_like(x, 7), 7)):
        assert (tuple(y.shape), y.dtype, str(y.device)) == ((2, 3), torch.int16, "ref:1")
        assert y.tolist() == [[value] * 3] * 2
    y = torch.empty_like(x.t())
    assert (tuple(y.shape), y.dtype, str(y.device)) == ((3, 2), torch.int16, "ref:1")
    z = torch.full_like(x, 2.5, dtype=torch.float64, device="ref:0", requires_grad=True)
    assert (z.dtype, str(z.device), z.requires_grad) == (torch.float64, "ref:0", True)


def test_new_tensors_take_dtype_and_device():
    x = torch.ones(1, dtype=torch.float64, device="ref:1")
    made = [x.new_zeros(2), x.new_ones((2,)), x.new_full((2,), 3), x.new_tensor([1, 2]), x.new_empty(2)]
    assert {(tuple(y.shape), y.dtype, str(y.device)) for y in made} == {((2,), torch.float64, "ref:1")}
    assert [y.tolist() for y in made[:4]] == [[0.0, 0.0], [1.0, 1.0], [3.0, 3.0], [1.0, 2.0]]


@pytest.mark.parametrize("args", [
    (5,), (0,), (2, 7), (7, 2, -2), (3, 3), (-3, 4, 3), (0, 10, 4), (1.5,), (0.0, 1.0, 0.25), (1.0, -1.0, -0.5),
    (0, 3, 0.75), (2.5, 5)])
def test_arange(device, args):
    x = torch.arange(*args)
    expected = np.arange(*args)
    assert x.dtype is (torch.int64 if expected.dtype.kind == "i" else torch.float32)
    assert x.tolist() == expected.tolist()


def test_arange_with_keywords_and_dtypes():
    assert torch.arange(end=3).tolist() == [0, 1, 2]
    assert torch.arange(start=1, end=7, step=3).tolist() == [1, 4]
    assert torch.arange(3, dtype=torch.float64).tolist() == [0.0, 1.0, 2.0]
    assert torch.arange(3, dtype=torch.float64).dtype is torch.float64
    assert torch.arange(1, 4, dtype=torch.int8).tolist() == [1, 2, 3]
    assert torch.arange(torch.tensor(3)).tolist() == [0, 1, 2]
    assert torch.arange(3.0, requires_grad=True).requires_grad


@pytest.mark.parametrize("args", [(0, 3, 0), (0, 3, -1), (3, 0, 1), (0, math.inf), (math.nan, 1)])
def test_arange_checks_its_numbers(args):
    with pytest.raises(ArgumentError, match=FORM.format("arange")):
        torch.arange(*args)


def test_arange_needs_an_end():
    with pytest.raises(ArgumentTypeError, match=FORM.format("arange")):
        torch.arange()


@pytest.mark.parametrize(("start", "end", "steps"), [(0, 1, 5), (-2, 2, 9), (3, 3, 4), (1, 0, 3), (5, 6, 1), (0, 1, 0)])
def test_linspace(device, start, end, steps, near):
    near(torch.linspace(start, end, steps), np.linspace(start, end, steps), dtype="float32")
    near(torch.linspace(start, end, steps, dtype=torch.float64), np.linspace(start, end, steps), dtype="float64")


def test_linspace_checks_its_steps():
    with pytest.raises(ArgumentError, match=FORM.format("linspace")):
        torch.linspace(0, 1, -1)


@pytest.mark.parametrize(("n", "m"), [(3, None), (2, 4), (4, 2), (0, None), (1, 1)])
def test_eye(device, n, m):
    assert torch.eye(n, m).tolist() == np.eye(n, m).tolist()
    assert torch.eye(n, m, dtype=torch.int32).dtype is torch.int32
    assert torch.eye(2, requires_grad=True).is_leaf


# ---- host data


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list")
@pytest.mark.parametrize(("data", "dtype"), [
    (1, "int64"), (1.0, "float32"), (True, "bool"), ([], "float32"), ([[]], "float32"), ([1, 2], "int64"),
    ([1, 2.5], "float32"), ([True, 2], "int64"), ([True, False], "bool"), ([[1.0], [2.0]], "float32"),
    ((1, 2), "int64"), ([np.int8(3)], "int8"), (np.float64(2), "float64"),
    (np.zeros((2, 1), np.uint8), "uint8"), (np.ones(2, np.float16), "float16"),
    ([np.ones(2), np.zeros(2)], "float64"), (range(3), "int64")])
def test_dtypes_of_host_data(data, dtype, dtypes):
    x = torch.tensor(data)
    assert x.dtype is dtypes[dtype]
    assert x.tolist() == np.asarray(data).tolist()
    assert tuple(x.shape) == np.shape(data)


@pytest.mark.parametrize("dtype", NATIVE)
def test_host_data_of_a_given_dtype(device, dtype, dtypes):
    values = np.array([[0, 1], [2, 100]])
    assert torch.tensor(values, dtype=dtypes[dtype]).tolist() == values.astype(dtype).tolist()
    assert torch.tensor(values.tolist(), dtype=dtypes[dtype]).tolist() == values.astype(dtype).tolist()
    assert torch.tensor(values.T[:, ::-1].astype(dtype)).tolist() == values.T[:, ::-1].astype(dtype).tolist()


def test_tensors_among_host_data():
    x = torch.tensor([1.0, 2.0])
    assert torch.tensor([x[0], x[1] * 2]).tolist() == [1.0, 4.0]
    with pytest.raises(ShapeError, match="tensors in a list have one element and count as a number"):
        torch.tensor([x, x * 2])
    assert torch.tensor([torch.tensor(1), torch.tensor(2)]).dtype is torch.int64
    copied = torch.tensor(x, requires_grad=True)
    assert copied.is_leaf
    copied.detach().zero_()
    assert x.tolist() == [1.0, 2.0]


def test_data_is_copied():
    values = np.ones(3, np.float32)
    x = torch.tensor(values)
    values[:] = 5
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_default_dtype_of_data():
    torch.set_default_dtype(torch.float64)
    assert torch.tensor([1.0]).dtype is torch.float64
    assert torch.tensor([]).dtype is torch.float64
    assert torch.zeros(1).dtype is torch.float64
    assert torch.full((1,), 0.5).dtype is torch.float64
    assert torch.linspace(0, 1, 2).dtype is torch.float64
    assert torch.tensor([1]).dtype is torch.int64
    with pytest.raises(ArgumentTypeError, match=FORM.format("set_default_dtype")):
        torch.set_default_dtype(torch.int64)


@pytest.mark.parametrize(("call", "kind"), [
    (lambda: torch.tensor([[1, 2], [3]]), ShapeError),
    (lambda: torch.tensor("text"), ArgumentTypeError),
    (lambda: torch.tensor([None]), ArgumentTypeError),
    (lambda: torch.tensor([1, "a"]), ArgumentTypeError),
    (lambda: torch.tensor([2**63]), ArgumentError),
    (lambda: torch.tensor(2**70), ArgumentError),
    (lambda: torch.tensor([300], dtype=torch.uint8), ArgumentError),
    (lambda: torch.tensor([1.0], dtype="float32"), ArgumentTypeError),
    (lambda: torch.zeros(), ArgumentTypeError),
    (lambda: torch.zeros(2.5), ArgumentTypeError),
    (lambda: torch.zeros("2"), ArgumentTypeError),
    (lambda: torch.zeros(-1), ShapeError),
    (lambda: torch.empty(2**40, 2**40), ShapeError),
    (lambda: torch.eye(-1), ShapeError),
    (lambda: torch.full((2,), "a"), ArgumentTypeError),
    (lambda: torch.full((2,), 300, dtype=torch.int8), ArgumentError),
    (lambda: torch.zeros(2, dtype=str), ArgumentTypeError),
    (lambda: torch.zeros(2, device="nowhere"), UnknownDevice),
    (lambda: torch.from_numpy([1]), ArgumentTypeError),
    (lambda: torch.from_numpy(np.array(["a"])), ArgumentTypeError),
    (lambda: torch.from_numpy(np.arange(3)[::-1]), ArgumentError)])
def test_arguments_are_checked(call, kind):
    with pytest.raises(kind, match=FORM.format(r"\w+")):
        call()


# ---- sharing and devices


def test_as_tensor():
    x = torch.ones(2)
    assert torch.as_tensor(x) is x
    assert torch.as_tensor(x, dtype=torch.float64).dtype is torch.float64
    assert torch.as_tensor([1, 2]).tolist() == [1, 2]
    assert str(torch.as_tensor(np.ones(2), device="ref:1").device) == "ref:1"
    assert torch.as_tensor(np.ones(2), dtype=torch.int8).tolist() == [1, 1]


@pytest.mark.skipif(not torch.is_available("cpu"), reason="no backend on the host is installed")
def test_arrays_are_shared_on_the_host():
    values = np.zeros((2, 3))
    for x in (torch.from_numpy(values.T), torch.as_tensor(values.T, device="cpu")):
        assert (tuple(x.shape), x.dtype, str(x.device)) == ((3, 2), torch.float64, "cpu")
        values += 1
        assert x.tolist() == values.T.tolist()
    assert not np.shares_memory(torch.tensor(values, device="cpu").numpy(), values)


def test_default_device():
    assert str(torch.zeros(1).device) == str(torch.get_default_device()) == "ref:0"
    torch.set_default_device("ref:1")
    for x in (torch.zeros(1), torch.tensor([1]), torch.arange(2), torch.eye(2), torch.linspace(0, 1, 2)):
        assert str(x.device) == "ref:1"
    assert str(torch.zeros(1, device="ref:0").device) == "ref:0"
    assert torch.zeros(1, device=torch.device("ref", 0)).tolist() == [0.0]


def test_fresh_memory_is_not_read():
    x = torch.empty(3, 2, requires_grad=True)
    assert tuple(x.shape) == (3, 2)
    assert x.is_leaf
    assert x.detach().fill_(4).tolist() == [[4.0, 4.0]] * 3


def test_gradients_of_integers_cannot_be_required():
    for call in (lambda: torch.tensor([1], requires_grad=True), lambda: torch.arange(3, requires_grad=True)):
        with pytest.raises(RuntimeError, match=FORM.format("requires_grad")):
            call()


def test_numbers_beyond_64_bits(device):
    assert torch.tensor(2 ** 64, dtype=torch.float32).item() == 2.0 ** 64
    assert torch.tensor([2 ** 80, 0, 1.5], dtype=torch.bool_).tolist() == [True, False, True]


def test_lists_that_have_no_shape():
    endless = [0]
    endless += [endless]
    for data in (endless, [[1, 2], endless]):
        with pytest.raises(TypeError, match="self-referential lists are incompatible with tensors"):
            torch.tensor(data)
    first: list = []
    first.append(first)
    with pytest.raises(TypeError, match="self-referential lists are incompatible with tensors"):
        torch.tensor(first)

    class Sequence:
        def __len__(self):
            return 2

        def __getitem__(self, index):
            raise TypeError

    with pytest.raises(ValueError, match="could not determine the shape of such an object"):
        torch.tensor(Sequence())


def test_lists_of_arrays_are_slow():
    with pytest.warns(UserWarning, match=r"Creating a tensor from a list of numpy.ndarrays is extremely slow"):
        x = torch.tensor([np.array([0]), np.array([1])])
    assert x.tolist() == [[0], [1]]


@pytest.mark.parametrize(("arguments", "dtype", "expected"), [
    ((0.0, -8.000001, -4.0), "int32", [0, -4, -8]), ((0.0, -8.000001, -4.0), "int64", [0, -4]),
    ((0.0, 2.9999999), "int8", [0, 1, 2]), ((0.0, 2.9999999), "int64", [0, 1]), ((0.0, 1.0, 0.25), "int32", [0] * 4),
    ((0.5, 3.0), "int16", [0, 1, 2]), ((3, 0, -1), "int32", [3, 2, 1]), ((0, 3), "float32", [0, 1, 2]),
])
def test_arange_counts_with_the_given_numbers_but_for_int64(arguments, dtype, expected):
    # The values are those that PyTorch 2.13 gives.
    assert torch.arange(*arguments, dtype=getattr(torch, dtype)).tolist() == expected


def test_sizes_beyond_63_bits_are_refused():
    pytest.importorskip("tensocket_cpu")
    for size in ((1 << 62,), (1 << 63,), (1 << 40, 1 << 40)):
        with pytest.raises(ShapeError, match="bytes, also of repeated elements, fit 63 bits"):
            torch.ones(1, device="cpu").expand(size)
    assert torch.ones(1, device="cpu").expand(1 << 60).shape == (1 << 60,)


@pytest.mark.parametrize(("name", "attribute"), [
    ("T", lambda x: x.T), ("mT", lambda x: x.mT), ("H", lambda x: x.H), ("adjoint", lambda x: x.mH),
    ("adjoint", lambda x: x.adjoint())])
def test_transposes_of_numbers_are_numbers_with_a_warning(name, attribute):
    x = torch.tensor(2 + 1j)
    with pytest.warns(UserWarning, match=rf"\[{name}\] a 0-dimensional tensor — transposing is for matrices"):
        given = attribute(x)
    assert given.item() == (2 + 1j if name.endswith("T") else 2 - 1j)


def test_complex_numbers_are_true_unless_they_are_zero() -> None:
    assert torch.tensor([1j, 0, 1 + 0j], dtype=torch.bool_).tolist() == [True, False, True]
    with pytest.raises(ArgumentTypeError, match="real dtypes hold real numbers"):
        torch.tensor([1j], dtype=torch.float32)


@pytest.mark.parametrize("count", [5000, 65536, (1 << 17) + 1])
def test_factories_of_many_elements(count, device, dtypes):
    for dtype in (dtypes["float32"], dtypes["int64"], dtypes["bool"]):
        model = torch.ones(2, count // 2, dtype=dtype, device=device)
        made = [
            (torch.zeros(count, dtype=dtype, device=device), 0), (torch.ones((count,), dtype=dtype, device=device), 1),
            (torch.zeros_like(model), 0), (torch.ones_like(model), 1), (model.new_zeros(count, 1), 0), (model, 1),
            (torch.full((1, count), 3, device=device), 3), (torch.full([count], -2.5, device=device), -2.5),
            (torch.fill(model, True), 1)]
        for x, value in made:
            assert x.is_contiguous()
            assert (np.array(x.tolist()) == value).all()
        assert torch.empty(count, 1, dtype=dtype, device=device).shape == (count, 1)
    assert math.copysign(1, torch.full((count,), -0.0, device=device)[-1].item()) == -1
    for wrong in ((-count, -count), (count, -1)):
        with pytest.raises((ArgumentError, ShapeError)):
            torch.zeros(wrong, device=device)


@pytest.mark.parametrize(("start", "end"), [(0.1, 0.7), (-3.0, 1e308), (-1e308, 1e308), (5.0, 5.0), (math.nan, 1.0)])
def test_few_and_many_steps_are_counted_alike(start, end):
    for steps in (2, 3, 5, 31, 32, 33, 100):
        places = np.arange(steps)
        with np.errstate(all="ignore"):
            step = (np.float64(end) - start) / (steps - 1)
            wanted = np.where(places < steps // 2, start + step * places, end - step * (steps - 1 - places))
            np.testing.assert_array_equal(steps_between(start, end, steps), wanted)
