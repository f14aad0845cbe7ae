"""Pickle, copy and deepcopy: values, geometry, sharing, classes, attributes; and of everything small."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_plugins.contract import dtypes as contract_dtypes
from tensocket_plugins.contract.errors import AutogradError

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)


class Named(tc.Tensor):
    """A subclass with attributes."""

    note: Any


def travel(value: Any, protocol: int = pickle.HIGHEST_PROTOCOL) -> Any:
    return pickle.loads(pickle.dumps(value, protocol))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_values_geometry_and_device(device: str, protocol: int) -> None:
    tensor = tc.arange(24.0).reshape(4, 6).t()[1:, ::2]
    made = travel(tensor, protocol)
    assert (made.dtype, made.device, made.stride()) == (tensor.dtype, tensor.device, tensor.stride())
    assert made.tolist() == np.arange(24.0).reshape(4, 6).T[1:, ::2].tolist()
    made.zero_()
    assert tensor.sum().item() > 0


@pytest.mark.parametrize("name", [dtype.name for dtype in contract_dtypes.ALL])
def test_every_dtype(name: str) -> None:
    dtype = contract_dtypes.BY_NAME[name]
    bits = tc.empty(3, dtype=dtype, device="meta")
    assert travel(bits).dtype is dtype
    if dtype.name in tc.profile("ref").dtypes and dtype.kind != "bool":
        assert travel(tc.ones(3, dtype=dtype)).to(tc.float64).tolist() == [1, 1, 1]


@pytest.mark.parametrize("make", [lambda: tc.tensor(2.5), lambda: tc.zeros(0), lambda: tc.zeros(3, 0, 2),
                                  lambda: tc.ones(1).expand(4, 5)])
def test_shapes_at_the_edge(device: str, make: Any) -> None:
    tensor = make()
    for made in (travel(tensor), copy.copy(tensor), copy.deepcopy(tensor)):
        assert tuple(made.shape) == tuple(tensor.shape)
        assert made.tolist() == tensor.tolist()


@pytest.mark.parametrize("again", [*(lambda x, p=p: travel(x, p) for p in PROTOCOLS), copy.deepcopy])
def test_views_that_go_together_share_memory(device: str, again: Any) -> None:
    base = tc.arange(6.0)
    same = {"base": base, "part": base[2:], "other": [base.reshape(2, 3).t(), base]}
    made = again(same)
    made["part"][0] = 50
    assert made["base"].tolist() == [0, 1, 50, 3, 4, 5]
    assert made["other"][0].tolist() == [[0, 3], [1, 4], [50, 5]]
    assert made["other"][1] is made["base"]
    assert made["other"][0].stride() == (1, 3)
    assert base.tolist() == [0, 1, 2, 3, 4, 5]
    assert made["base"]._version == made["other"][0]._version


def test_views_that_go_apart_do_not(device: str) -> None:
    base = tc.arange(4.0)
    first, second = travel(base), travel(base[1:])
    first.zero_()
    assert second.tolist() == [1, 2, 3]


def test_memory_of_meta_tensors_is_shared_too() -> None:
    base = tc.zeros(4, 6, device="meta")
    whole, part = travel([base, base[1:, 2:]])
    part.add_(1)
    assert (str(part.device), part.stride(), part.storage_offset()) == ("meta", (6, 1), 8)
    assert whole._version == 1


def test_memory_goes_out_of_band() -> None:
    buffers: list[pickle.PickleBuffer] = []
    tensor = tc.from_numpy(np.arange(1000.0)) if _has_cpu() else tc.arange(1000.0, dtype=tc.float64)
    data = pickle.dumps(tensor, protocol=5, buffer_callback=buffers.append)
    assert len(data) < 1000
    assert sum(buffer.raw().nbytes for buffer in buffers) == 8000
    assert pickle.loads(data, buffers=buffers).tolist() == list(range(1000))


def _has_cpu() -> bool:
    return tc.is_available("cpu") if "cpu" in [record.name for record in tc.backends()] else False


@pytest.mark.skipif(not _has_cpu(), reason="no host-resident device")
def test_memory_of_other_owners() -> None:
    values = np.arange(12.0).reshape(3, 4)
    column, row = tc.from_numpy(values[:, 1]), tc.from_numpy(values.T[0])
    made = travel([column, row])
    assert [x.tolist() for x in made] == [[1, 5, 9], [0, 4, 8]]
    field = np.zeros(3, [("a", "f4"), ("b", "f4")])
    field["b"] = [1, 2, 3]
    assert travel(tc.from_numpy(field["b"])).tolist() == [1, 2, 3]
    spread = tc.from_numpy(np.lib.stride_tricks.as_strided(np.arange(9.0)[1:], (2, 2), (24, 8)))
    assert travel(spread).tolist() == copy.deepcopy(spread).tolist() == [[1, 2], [4, 5]]
    frozen = np.ones(2)
    frozen.flags.writeable = False
    assert travel(tc.from_dlpack(frozen)).add_(1).tolist() == [2, 2]


# ------------------------------------------------------------------------------------------- classes and attributes


def named() -> Named:
    tensor = Named._make_subclass(tc.arange(3.0), True)
    tensor.note = ["kept"]
    tensor.grad = tc.ones(3)
    return tensor


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_class_attributes_and_requires_grad_are_pickled(protocol: int) -> None:
    made = travel(named(), protocol)
    assert (type(made), made.note, made.requires_grad, made.is_leaf) == (Named, ["kept"], True, True)
    assert made.grad is None
    assert made.tolist() == [0, 1, 2]


def test_copies_share_memory_and_attributes() -> None:
    tensor = named()
    made = copy.copy(tensor)
    assert made is not tensor
    assert (type(made), made.requires_grad, made.grad) == (Named, True, None)
    assert made.note is tensor.note
    made.detach().zero_()
    assert tensor.tolist() == [0, 0, 0]
    assert tensor._version == 1
    inner = tensor * 2
    assert copy.copy(inner).is_leaf


def test_deep_copies_share_nothing() -> None:
    tensor = named()
    made, same = copy.deepcopy([tensor, tensor])
    assert made is same
    assert (type(made), made.note, made.requires_grad) == (Named, ["kept"], True)
    assert made.note is not tensor.note
    assert made.grad.tolist() == [1, 1, 1]
    made.grad.zero_()
    made.detach().zero_()
    assert tensor.grad.tolist() == [1, 1, 1]
    assert tensor.tolist() == [0, 1, 2]


def test_attributes_may_refer_to_their_tensor() -> None:
    tensor = named()
    tensor.note = tensor
    assert travel(tensor).note.tolist() == [0, 1, 2]
    made = copy.deepcopy(tensor)
    assert made.note is made


def test_results_of_operators() -> None:
    result = tc.ones(2, requires_grad=True) * 2
    made = travel(result)
    assert (made.requires_grad, made.is_leaf, made.tolist()) == (True, True, [2, 2])
    with pytest.raises(AutogradError, match=r"\[deepcopy\] a tensor made by an operator — only leaf tensors"):
        copy.deepcopy(result)


def test_hooks_stay_behind() -> None:
    leaf = tc.ones(2, requires_grad=True)
    leaf.register_hook(lambda grad: grad * 100)
    view = leaf[:1]
    assert view.requires_grad
    for made in (travel(leaf), copy.deepcopy(leaf), copy.copy(leaf)):
        (made * 1).sum().backward()
        assert made.grad.tolist() == [1, 1]


# ----------------------------------------------------------------------------------------------------- small things


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_small_objects(protocol: int) -> None:
    for dtype in contract_dtypes.ALL:
        assert travel(dtype, protocol) is dtype
        assert copy.deepcopy(dtype) is copy.copy(dtype) is dtype
    for device in (tc.device("ref:1"), tc.device("nowhere")):
        assert travel(device, protocol) == copy.deepcopy(device) == device
    size = travel(tc.ones(2, 3).shape, protocol)
    assert (type(size), tuple(size)) == (tc.Size, (2, 3))


@pytest.mark.parametrize("again", [travel, copy.deepcopy, copy.copy, lambda generator: generator.clone_state()])
def test_generators_go_on_where_they_were(again: Any) -> None:
    generator = tc.Generator("ref:1").manual_seed(5)
    tc.rand(3, generator=generator)
    other = again(generator)
    assert (other.device, other.initial_seed()) == (generator.device, 5)
    assert tc.rand(4, generator=other).tolist() == tc.rand(4, generator=generator).tolist()


def test_a_pickler_of_several_dumps_shares_within_each() -> None:
    base = tc.arange(3.0)
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream)
    pickler.dump(base)
    pickler.dump(base[1:])
    stream.seek(0)
    unpickler = pickle.Unpickler(stream)
    assert [unpickler.load().tolist(), unpickler.load().tolist()] == [[0, 1, 2], [1, 2]]
