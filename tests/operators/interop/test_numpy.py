"""NumPy arrays and buffers as tensors, tensors as NumPy arrays, and expressions of both; on the host."""

from __future__ import annotations

import array
import operator
import warnings
from importlib.metadata import entry_points
from typing import Any

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, AutogradError

pytestmark = pytest.mark.skipif(
    "cpu" not in {entry.name for entry in entry_points(group="tensocket.backends")}, reason="no host-resident device"
)
NATIVE = ["bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32",
          "float64", "complex64", "complex128"]


@pytest.fixture(autouse=True)
def on_the_host(defaults: None) -> None:
    tc.set_default_device("cpu")


def frozen(values: Any) -> np.ndarray:
    made = np.array(values)
    made.flags.writeable = False
    return made


# ------------------------------------------------------------------------------------------------- arrays to tensors


@pytest.mark.parametrize("name", NATIVE)
def test_memory_is_shared_both_ways(name: str) -> None:
    values = np.zeros((2, 3), name)
    tensor = tc.from_numpy(values)
    assert tensor.dtype.name == name
    values[0, 1] = 1
    assert tensor.tolist()[0][1] == 1
    tensor[1, 2] = 1
    assert values[1, 2] == 1
    assert np.shares_memory(tensor.numpy(), values)


def test_strides_are_kept() -> None:
    values = np.arange(24.0).reshape(4, 6)
    tensor = tc.from_numpy(values.T[::2, 1:])
    assert (tuple(tensor.shape), tensor.stride()) == ((3, 3), (2, 6))
    assert tensor.tolist() == values.T[::2, 1:].tolist()
    assert tc.from_numpy(np.array(2.5)).item() == 2.5
    field = np.zeros(3, [("a", "f4"), ("b", "f4")])
    tc.from_numpy(field["b"])[1] = 7
    assert field["b"].tolist() == [0, 7, 0]


def test_subclasses_of_arrays_become_plain_ones() -> None:
    class Reversed(np.ndarray):
        def __mul__(self, other: Any) -> Any:
            raise AssertionError("operators of subclasses are not used")

    x = tc.from_numpy(np.array([1.0, 2.0]).view(Reversed))
    assert type(x.numpy()) is np.ndarray
    assert (x * x).tolist() == [1, 4]


@pytest.mark.parametrize(
    ("make", "kind", "pytorch", "message"),
    [
        (lambda: tc.from_numpy([1]), ArgumentTypeError, TypeError, r"\[from_numpy\] list — a NumPy array is needed"),
        (lambda: tc.from_numpy(np.array(["a"])), ArgumentTypeError, TypeError, "dtype <U1 — "
         "elements are bools, integers, floats or complex numbers of NumPy's basic dtypes"),
        (lambda: tc.from_numpy(np.array([None])), ArgumentTypeError, TypeError, "dtype object"),
        (lambda: tc.from_numpy(np.zeros(1, "M8[s]")), ArgumentTypeError, TypeError, r"dtype datetime64\[s\]"),
        (lambda: tc.from_numpy(np.zeros(1, np.longdouble)), ArgumentTypeError, TypeError, "dtype float128"),
        (lambda: tc.tensor(np.zeros(1, np.longdouble)), ArgumentTypeError, TypeError, r"\[tensor\] .* dtype float128"),
        (lambda: tc.from_numpy(np.zeros(1, ">f8")), ArgumentError, ValueError,
         "elements are in the machine's byte order"),
        (lambda: tc.from_numpy(np.arange(3)[::-1]), ArgumentError, ValueError, "strides are not negative"),
        (
            lambda: tc.from_numpy(np.zeros(2, [("a", "i2"), ("b", "f4")])["b"]),
            ArgumentError,
            ValueError,
            r"float32 with strides of \(6,\) bytes — strides are multiples of the element size",
        ),
    ],
)
def test_arrays_that_tensors_cannot_be(make: Any, kind: type, pytorch: type, message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        make()
    assert isinstance(caught.value, pytorch)


def test_read_only_arrays_warn_and_are_not_written() -> None:
    with pytest.warns(UserWarning, match="the NumPy array is not writable: the tensor shares its memory"):
        tensor = tc.from_numpy(frozen([1.0, 2.0]))
    with pytest.warns(UserWarning, match="the NumPy array is not writable"):
        tc.as_tensor(frozen([1.0]))
    assert (tensor + 1).tolist() == [2, 3]
    for write in (lambda: tensor.add_(1), lambda: tensor.zero_(), lambda: tensor.copy_(tensor + 1),
                  lambda: operator.setitem(tensor, 0, 5.0), lambda: operator.setitem(tensor, tc.tensor([0]), 5.0)):
        with pytest.raises(ArgumentError, match=r"a tensor of shape \[.*\] on read-only memory — "
                           "the owner of the memory does not allow writing"):
            write()
    assert tensor.tolist() == [1, 2]
    assert not tensor.numpy().flags.writeable


# ------------------------------------------------------------------------------------------------- tensors to arrays


def test_arrays_of_tensors() -> None:
    tensor = tc.arange(6.0).reshape(2, 3)
    assert np.shares_memory(np.asarray(tensor), tensor.numpy())
    assert np.shares_memory(np.array(tensor, copy=False), tensor.numpy())
    assert not np.shares_memory(np.array(tensor), tensor.numpy())
    converted = np.asarray(tensor, dtype=np.int32)
    assert (converted.dtype, converted.tolist()) == (np.int32, [[0, 1, 2], [3, 4, 5]])
    with pytest.raises(ValueError, match=r"copy=False and dtype int32 for a tensor of float32 — "
                       "a conversion needs a copy"):
        np.asarray(tensor, dtype=np.int32, copy=False)
    assert tensor.__array__().tolist() == tensor.tolist()


def test_what_numpy_cannot_have() -> None:
    leaf = tc.ones(2, requires_grad=True)
    with pytest.raises(AutogradError, match=r"\[numpy\] a tensor that requires grad"):
        leaf.numpy()
    with pytest.raises(AutogradError):
        np.sin(leaf)
    assert leaf.numpy(force=True).tolist() == [1, 1]
    for dtype in (tc.bfloat16, tc.float8_e5m2, tc.float8_e4m3fn):
        for force in (False, True):
            with pytest.raises(ArgumentTypeError, match=rf"a tensor of dtype {dtype.name} — NumPy has no such dtype"):
                tc.zeros(2, dtype=dtype).numpy(force=force)
    with pytest.raises(ArgumentTypeError, match="a tensor on ref:0 — NumPy arrays are in host memory"):
        tc.ones(2, device="ref").numpy()
    assert tc.ones(2, device="ref").numpy(force=True).tolist() == [1, 1]


def test_numpy_functions_take_tensors() -> None:
    tensor, values = tc.arange(3.0), np.arange(3.0, dtype=np.float32)
    for function in (np.sin, np.exp, np.negative, np.cumsum, np.argsort):
        result = function(tensor)
        assert isinstance(result, tc.Tensor)
        np.testing.assert_array_equal(result.numpy(), function(values))
    assert np.isfinite(tensor).dtype is tc.bool_
    np.testing.assert_array_equal(np.stack([tensor, tensor]), np.stack([values, values]))
    np.testing.assert_array_equal(np.concatenate([tensor, tensor]), np.concatenate([values, values]))
    assert [part.tolist() for part in np.modf(tensor)] == [[0, 0, 0], [0, 1, 2]]
    assert np.allclose(tensor, values)
    assert tensor.__array_wrap__(values[::-1]).tolist() == [2, 1, 0]
    out = np.zeros(3, np.float32)
    assert np.sqrt(tensor, out=out) is out


# ---------------------------------------------------------------------------------------------------- mixed expressions


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "pow", "floordiv", "mod"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_a_tensor_and_an_array_are_computed_by_numpy(name: str, dtype: str) -> None:
    function = getattr(operator, name)
    tensor, other = tc.tensor([5.0, 3.0, 2.0]), np.array([2, 3, 4], dtype)
    result = function(tensor, other)
    expected = function(tensor.numpy(), other)
    assert isinstance(result, tc.Tensor)
    assert result.dtype.name == expected.dtype.name
    np.testing.assert_array_equal(result.numpy(), expected)


def test_an_array_and_a_tensor_do_not_mix() -> None:
    for function in (operator.add, operator.sub, operator.mul, operator.mod):
        with pytest.raises(TypeError):
            function(np.ones(3), tc.ones(3))


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_with_arrays(name: str) -> None:
    function = getattr(operator, name)
    tensor, values = tc.tensor([1.0, 2.0, 3.0]), np.array([3.0, 2.0, 1.0])
    for result, expected in ((function(tensor, values), function(tensor.numpy(), values)),
                             (function(values, tensor), function(values, tensor.numpy()))):
        assert result.dtype is tc.bool_
        assert result.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("number", "dtype"),
    [(np.float64(2), "float32"), (np.float32(2), "float32"), (np.int64(2), "int64"), (np.int8(2), "int64"),
     (np.bool_(True), "int64"), (np.complex128(2), "complex64")],
)
def test_numpy_numbers_are_python_numbers(number: Any, dtype: str) -> None:
    tensor = tc.tensor([1, 2, 3])
    for result in (tensor * number, number * tensor, tc.mul(tensor, number)):
        assert isinstance(result, tc.Tensor)
        assert result.dtype.name == dtype
        assert result.tolist() == (np.array([1, 2, 3]) * number).tolist()
    if dtype == "float32":
        assert (number - tensor).tolist() == [1, 0, -1]
        assert (number / tensor).tolist() == [2, 1, np.float32(2) / np.float32(3)]
        assert (number < tensor).tolist() == [False, False, True]


def test_functions_do_not_take_arrays() -> None:
    for call in (lambda: tc.add(tc.ones(2), np.ones(2)), lambda: tc.ones(2).add(np.ones(2)),
                 lambda: tc.functions.sin(np.ones(2)), lambda: tc.functions.stack([np.ones(2)])):
        with pytest.raises(ArgumentTypeError):
            call()


def test_arrays_index_tensors_and_tensors_index_arrays() -> None:
    tensor, values = tc.arange(4.0), np.arange(4.0)
    assert tensor[np.array([0, 2])].tolist() == [0, 2]
    assert tensor[values > 1].tolist() == [2, 3]
    assert tensor[np.int64(3)].item() == 3
    assert values[tc.tensor([1, 3])].tolist() == [1, 3]
    assert values[tc.tensor(2)] == 2


def test_numpy_integers_are_sizes() -> None:
    assert tuple(tc.zeros(np.int64(2), np.int32(3)).shape) == (2, 3)
    assert tuple(tc.arange(np.int64(3)).reshape(np.int64(3), 1).shape) == (3, 1)


# ----------------------------------------------------------------------------------------------------------- buffers


def test_buffers_are_shared() -> None:
    data = bytearray(b"\x01\x02\x03\x04")
    tensor = tc.frombuffer(data, dtype=tc.uint8)
    data[0] = 9
    tensor[1] = 8
    assert (tensor.tolist(), data) == ([9, 8, 3, 4], bytearray(b"\x09\x08\x03\x04"))
    assert tc.frombuffer(data, dtype=tc.int16).tolist() == np.frombuffer(data, np.int16).tolist()
    assert tc.frombuffer(data, dtype=tc.int8, offset=1, count=2).tolist() == [8, 3]
    assert tc.frombuffer(bytearray(b"\x80\x3f"), dtype=tc.bfloat16).item() == 1.0
    assert tc.frombuffer(array.array("d", [1, 2]), dtype=tc.float64, requires_grad=True).requires_grad
    assert tc.frombuffer(memoryview(np.arange(6).reshape(2, 3)), dtype=tc.int64).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"buffer": bytearray(4), "dtype": tc.int32, "offset": 1},
         "the bytes after the offset are a multiple of the element size, 4"),
        ({"buffer": bytearray(4), "dtype": tc.int8, "offset": 4}, "the offset lies within the buffer"),
        ({"buffer": bytearray(4), "dtype": tc.int8, "offset": -1}, "the offset lies within the buffer"),
        ({"buffer": bytearray(4), "dtype": tc.int8, "count": 0}, "a buffer and a count are not empty"),
        ({"buffer": bytearray(), "dtype": tc.int8}, "a buffer and a count are not empty"),
        ({"buffer": bytearray(4), "dtype": tc.int16, "count": 3}, "the buffer has 4 bytes after the offset"),
        ({"buffer": 3, "dtype": tc.int8}, "a int — a contiguous buffer is needed"),
        ({"buffer": np.arange(6)[::2], "dtype": tc.int8}, r"a contiguous buffer is needed \(.*\) — pass"),
    ],
)
def test_buffers_that_do_not_fit(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=rf"\[frombuffer\] .*{message}") as caught:
        tc.frombuffer(arguments.pop("buffer"), **arguments)
    assert isinstance(caught.value, ValueError)


def test_other_errors_of_buffers() -> None:
    with pytest.raises(ArgumentTypeError, match=r"\[frombuffer\] dtype 'int8' — dtype is a tensocket dtype"):
        tc.frombuffer(bytearray(4), dtype="int8")
    with pytest.raises(AutogradError):
        tc.frombuffer(bytearray(4), dtype=tc.int32, requires_grad=True)
    with pytest.warns(UserWarning, match="the buffer is not writable: the tensor shares its memory"):
        tc.frombuffer(b"12", dtype=tc.int8)


# ------------------------------------------------------------------------------------------------ as_tensor and asarray


def test_as_tensor_shares_where_it_can() -> None:
    values, tensor = np.arange(3.0), tc.arange(3)
    assert np.shares_memory(tc.as_tensor(values).numpy(), values)
    assert not np.shares_memory(tc.as_tensor(values, dtype=tc.float32).numpy(), values)
    assert tc.as_tensor(tensor) is tensor
    assert tc.as_tensor(tensor, dtype=tc.float64).dtype is tc.float64
    assert tc.as_tensor(np.float64(2)).dtype is tc.float64
    assert tc.as_tensor([1, 2]).tolist() == [1, 2]
    assert str(tc.as_tensor(values, device="ref").device) == "ref:0"


def test_the_selected_device_applies_to_everything_but_shared_memory() -> None:
    values = np.arange(3.0)
    with tc.device("ref"):
        assert {str(x.device) for x in (tc.as_tensor(values), tc.asarray(values), tc.as_tensor([1.0]), tc.asarray(1),
                                        tc.as_tensor(tc.ones(2, device="cpu")))} == {"ref:0"}
        assert {str(x.device) for x in (tc.from_numpy(values), tc.from_dlpack(values),
                                        tc.frombuffer(bytearray(2), dtype=tc.int8))} == {"cpu"}


def test_asarray_shares_or_copies_as_told() -> None:
    values, tensor = np.arange(3.0), tc.arange(3.0)
    assert np.shares_memory(tc.asarray(values).numpy(), values)
    assert np.shares_memory(tc.asarray(values, copy=False).numpy(), values)
    assert not np.shares_memory(tc.asarray(values, copy=True).numpy(), values)
    assert tc.asarray(tensor) is tensor
    assert tc.asarray(tensor, copy=False) is tensor
    assert tc.asarray(tensor, copy=True) is not tensor
    assert tc.asarray(tensor.__dlpack__()).data_ptr() == tensor.data_ptr()
    data = array.array("i", [1, 2])
    shared = tc.asarray(data, dtype=tc.int32)
    data[0] = 5
    assert shared.tolist() == [5, 2]
    assert tc.asarray(bytearray(8)).dtype is tc.float32  # bytes are read as the default dtype
    for obj, dtype in (([1, 2.5], tc.float32), (2, tc.int64), (np.float64(2), tc.float64), (range(3), tc.int64)):
        assert tc.asarray(obj).dtype is dtype


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tc.asarray(np.arange(3.0), dtype=tc.float32, copy=False), "float64 on cpu as float32 on cpu — "
         "another dtype or device needs a copy"),
        (lambda: tc.asarray(tc.ones(2), device="ref", copy=False), "float32 on cpu as float32 on ref:0"),
        (lambda: tc.asarray([1], copy=False), "copy=False for a list — only tensors, arrays and buffers are shared"),
    ],
)
def test_asarray_does_not_copy_when_told_not_to(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=rf"\[asarray\] .*{message}"):
        make()


def test_gradients_of_asarray() -> None:
    leaf = tc.ones(2, requires_grad=True)
    assert tc.asarray(leaf) is leaf
    assert not tc.asarray(leaf, requires_grad=False).requires_grad
    assert tc.asarray(np.ones(2), requires_grad=True).requires_grad
    assert (leaf * 2).grad_fn is not None
    assert tc.asarray(leaf * 2).grad_fn is not None


def test_nothing_here_warns_without_need() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tc.asarray(np.ones(2))
        np.sin(tc.ones(2))
        np.array(tc.ones(2))
