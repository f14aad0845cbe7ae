"""PyTorch's names for NumPy, DLPack, pickle, ``meta`` and deterministic algorithms."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn


def test_dlpack_under_pytorch_s_names():
    tensor = torch.arange(3.0)
    back = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(tensor))
    assert back.data_ptr() == tensor.data_ptr()
    assert np.from_dlpack(tensor).tolist() == [0, 1, 2]


def test_filling_of_memory_is_an_attribute_of_a_module():
    assert torch.utils.deterministic.fill_uninitialized_memory is True
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(2).isnan().all()
        torch.utils.deterministic.fill_uninitialized_memory = False
        assert torch.utils.deterministic.fill_uninitialized_memory is False
        with pytest.raises(TypeError, match=r"\[fill_uninitialized_memory\] value=3"):
            torch.utils.deterministic.fill_uninitialized_memory = 3
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
        torch.use_deterministic_algorithms(False)


def test_modules_are_made_without_memory_and_filled_later():
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    assert {p.device.type for p in model.parameters()} == {"meta"}
    assert tuple(model(torch.empty(5, 3, device="meta")).shape) == (5, 2)
    model(torch.empty(5, 3, device="meta")).sum().backward()
    assert all(p.grad.is_meta and p.grad.shape == p.shape for p in model.parameters())
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        model.to("cpu")
    parameters = list(model.parameters())
    source = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    filled = model.to_empty(device="cpu")
    assert filled is model
    assert [id(p) for p in model.parameters()] == [id(p) for p in parameters]
    model.load_state_dict(source.state_dict())
    x = torch.ones(2, 3)
    assert model(x).tolist() == source(x).tolist()


def test_parameters_travel_with_class_and_attributes():
    parameter = nn.Parameter(torch.arange(3.0), requires_grad=False)
    parameter.note = "kept"
    parameter.grad = torch.ones(3)
    for made in (pickle.loads(pickle.dumps(parameter)), copy.copy(parameter)):
        assert (type(made), made.note, made.requires_grad, made.grad) == (nn.Parameter, "kept", False, None)
        assert made.tolist() == [0, 1, 2]
    assert copy.copy(parameter).data_ptr() == parameter.data_ptr()
    buffer = nn.Buffer(torch.ones(2), persistent=False)
    assert pickle.loads(pickle.dumps(buffer)).persistent is False


def test_modules_travel_with_shared_parameters():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    made = pickle.loads(pickle.dumps(model))
    assert made[1].weight is made[0].weight
    x = torch.ones(1, 2)
    assert made(x).tolist() == model(x).tolist()
