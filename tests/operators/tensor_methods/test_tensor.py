"""The attributes of tensors, and their conversions to Python and NumPy values."""

from __future__ import annotations

import copy
import operator
import pickle

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError, DimensionError, ShapeError


def test_shape_and_size():
    x = tc.zeros(2, 3, 4)
    assert x.shape == (2, 3, 4)
    assert isinstance(x.shape, tuple)
    assert repr(x.shape) == "tensocket.Size([2, 3, 4])"
    assert x.shape.numel() == x.numel() == x.nelement() == 24
    assert x.size() == x.shape
    assert x.size(-1) == x.size(2) == 4
    assert x.ndim == x.dim() == 3
    assert len(x) == 2
    assert tc.zeros(()).shape.numel() == 1


def test_strides_and_memory(dtypes):
    x = tc.zeros(2, 3, 4)
    assert x.stride() == (12, 4, 1)
    assert x.stride(1) == x.stride(-2) == 4
    assert x.transpose(0, 2).stride() == (1, 4, 12)
    assert x[1, :, 1:].storage_offset() == 13
    assert x.storage_offset() == 0
    assert (x.itemsize, x.element_size(), x.nbytes) == (4, 4, 96)
    for name, dtype in dtypes.items():
        lacking = {"bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1, "complex32": 4}
        size = lacking.get(name) or np.dtype(name).itemsize
        assert tc.zeros(3, dtype=dtype).nbytes == 3 * size
    assert x.is_contiguous()
    assert not x.transpose(0, 1).is_contiguous()
    assert tc.zeros(0, 3).transpose(0, 1).is_contiguous()


def test_dtype_and_device():
    x = tc.zeros(2, dtype=tc.float16)
    assert x.dtype is tc.float16
    assert x.is_floating_point()
    assert not x.is_complex()
    assert not tc.zeros(1, dtype=tc.int8).is_floating_point()
    assert str(x.device) == "ref:0"
    assert x.get_device() == 0
    assert repr(tc.float16) == "tensocket.float16"
    assert pickle.loads(pickle.dumps(tc.bool_)) is tc.bool_


def test_elements_as_python_values(device):
    assert tc.tensor([[1.5, -2.0]]).tolist() == [[1.5, -2.0]]
    assert tc.tensor([True, False]).tolist() == [True, False]
    assert tc.tensor(7).item() == 7
    assert type(tc.tensor(7).item()) is int
    assert type(tc.tensor(True).item()) is bool
    assert type(tc.tensor([[2.5]], dtype=tc.float16).item()) is float
    assert tc.zeros(0, 2).tolist() == []
    assert tc.zeros(2, 0).tolist() == [[], []]


def test_bfloat16_as_python_values():
    assert tc.tensor([1.5, 3.140625, float("inf")], dtype=tc.bfloat16).tolist() == [1.5, 3.140625, float("inf")]


def test_conversions_to_python():
    assert bool(tc.tensor(0.5))
    assert not bool(tc.tensor([[0]]))
    assert int(tc.tensor(3.7)) == 3
    assert float(tc.tensor(2)) == 2.0
    assert operator.index(tc.tensor(2)) == 2
    assert ["a", "b"][tc.tensor(1)] == "b"
    assert list(range(3))[tc.tensor(1) :] == [1, 2]
    assert f"{tc.tensor(1.25):.1f}" == "1.2"
    assert f"{tc.tensor([1.0])}" == repr(tc.tensor([1.0]))


def test_iteration_gives_views():
    x = tc.arange(6).reshape(3, 2)
    rows = list(x)
    assert [row.tolist() for row in rows] == [[0, 1], [2, 3], [4, 5]]
    rows[1].fill_(9)
    assert x.tolist() == [[0, 1], [9, 9], [4, 5]]
    assert 9 in x
    assert 7 not in x


def test_tensors_are_hashable_by_identity():
    x, y = tc.ones(2), tc.ones(2)
    assert {x: 1}[x] == 1
    assert hash(x) != hash(y)
    assert (x == y).tolist() == [True, True]
    assert (x == None) is False  # noqa: E711
    assert (x != "text") is True


def test_transposed_properties():
    x = tc.arange(24).reshape(2, 3, 4)
    assert x.T.shape == (4, 3, 2)
    assert x.mT.shape == (2, 4, 3)
    assert x.mT[1].tolist() == np.arange(24).reshape(2, 3, 4)[1].T.tolist()
    assert (+x) is x


@pytest.mark.skipif(not tc.is_available("cpu"), reason="no backend on the host is installed")
@pytest.mark.parametrize("name", ["float16", "float32", "float64", "int8", "uint8", "int64", "bool"])
def test_numpy_shares_host_memory(name, dtypes):
    x = tc.ones(2, 3, dtype=dtypes[name], device="cpu")
    array = x.numpy()
    assert array.dtype == name
    array[0, 0] = 0
    assert x[0, 0].item() == 0
    assert np.shares_memory(np.asarray(x), array)
    back = tc.from_numpy(array)
    back[1, 1] = 0
    assert array[1, 1] == 0
    assert back.dtype is dtypes[name]


def test_numpy_of_other_tensors_needs_force():
    x = tc.tensor([1.0, 2.0])
    with pytest.raises(ArgumentTypeError, match=r"\[numpy\] a tensor on ref:0"):
        x.numpy()
    assert x.numpy(force=True).tolist() == [1.0, 2.0]
    with pytest.raises(AutogradError, match=r"\[numpy\]"):
        x.requires_grad_().numpy()


def test_requires_grad_is_for_floating_leaves():
    x = tc.zeros(2)
    assert not x.requires_grad
    assert x.is_leaf
    assert x.requires_grad_() is x
    assert x.requires_grad
    assert (x * 2).requires_grad
    assert not (x * 2).is_leaf
    x.requires_grad = False
    assert (x * 2).grad_fn is None
    with pytest.raises(AutogradError, match="requires_grad"):
        tc.zeros(2, dtype=tc.int64).requires_grad_()


def test_grad_is_checked():
    x = tc.zeros(2, requires_grad=True)
    assert x.grad is None
    x.grad = tc.ones(2)
    assert x.grad.tolist() == [1.0, 1.0]
    x.grad = None
    with pytest.raises(ShapeError, match=r"\[grad\]"):
        x.grad = tc.ones(3)
    with pytest.raises(ArgumentTypeError, match=r"\[grad\]"):
        x.grad = 1.0


def test_data_and_detach_share_memory():
    x = tc.zeros(2, requires_grad=True)
    x.data.add_(1)
    x.detach().mul_(3)
    assert x.tolist() == [3.0, 3.0]
    assert not x.data.requires_grad
    x.data = tc.ones(3)
    assert x.shape == (3,)
    assert x.requires_grad
    y = x * 2
    assert y.detach_() is y
    assert y.is_leaf


def test_copies():
    x = tc.arange(3.0, requires_grad=True)
    x.grad = tc.ones(3)
    y = copy.deepcopy([x, x])
    assert y[0] is y[1]
    assert y[0].requires_grad
    assert y[0].grad.tolist() == [1.0, 1.0, 1.0]
    y[0].data.fill_(5)
    assert x.tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(AutogradError, match=r"\[deepcopy\]"):
        copy.deepcopy(x * 2)


def test_versions_count_changes_of_all_views():
    x = tc.zeros(4)
    assert x._version == 0
    view = x[1:]
    x.add_(1)
    view.mul_(2)
    x.detach().fill_(0)
    assert x._version == view._version == 3


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda x: len(tc.zeros(())), ArgumentTypeError),
        (lambda x: iter(tc.zeros(())), ArgumentTypeError),
        (lambda x: x.size(2), DimensionError),
        (lambda x: x.stride(-3), DimensionError),
        (lambda x: tc.zeros(2).mT, ShapeError),
        (lambda x: x.item(), ShapeError),
        (lambda x: bool(x), ShapeError),
        (lambda x: int(x), ShapeError),
        (lambda x: operator.index(tc.tensor(1.0)), ArgumentTypeError),
        (lambda x: operator.index(x), ArgumentTypeError),
    ],
)
def test_what_a_tensor_is_not(call, kind):
    with pytest.raises(kind, match=r"^\[\w+\] .+ — .+ — .+"):
        call(tc.zeros(2, 3))


def test_tensors_hash_as_their_identity():
    x = tc.ones(2)
    assert hash(x) == id(x)
    assert len({x, x.detach(), x}) == 2
