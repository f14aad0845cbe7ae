"""Modules, optimizers, loaders and files with tensors on devices other than the CPU."""

from __future__ import annotations

import io

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.serialization import load_safetensors, save_safetensors
from tensocket.utils.data import DataLoader, TensorDataset

DEVICES = [name for name in torch.available_devices() if name in ("opencl:0", "cuda:0", "ref:0")]
pytestmark = pytest.mark.parametrize("device", DEVICES)


def test_modules_move_with_their_gradients(device):
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    model.register_buffer("count", torch.tensor(3))
    expected = model(torch.ones(1, 3))
    expected.sum().backward()
    weight, gradient = model[0].weight, model[0].weight.grad.tolist()
    assert model.to(device) is model
    assert model[0].weight is weight
    assert {str(t.device) for t in (*model.parameters(), *model.buffers(), weight.grad)} == {device}
    assert weight.grad.tolist() == gradient
    found = model(torch.ones(1, 3, device=device))
    np.testing.assert_allclose(found.detach().cpu().numpy(), expected.detach().numpy(), atol=1e-6)
    model.cpu()
    assert weight.device.type == "cpu"
    assert weight.is_leaf


def test_layers_can_be_made_there(device):
    layer = nn.Linear(2, 2, device=device)
    table = nn.Embedding(4, 2, device=device)
    assert str(layer.weight.device) == str(table.weight.device) == device
    layer(table(torch.tensor([1, 3], device=device))).sum().backward()
    assert table.weight.grad.cpu().numpy()[0].tolist() == [0, 0]
    assert abs(table.weight.grad.cpu().numpy()[3]).sum() > 0


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_optimizers_take_the_same_steps(device, kind):
    def run(where):
        torch.manual_seed(0)
        model = nn.Linear(3, 2).to(where)
        options = {"momentum": 0.9} if kind == "SGD" else {}
        optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.05, **options)
        for _ in range(5):
            optimizer.zero_grad()
            nn.functional.mse_loss(model(torch.ones(4, 3, device=where)), torch.zeros(4, 2, device=where)).backward()
            optimizer.step()
        return model, optimizer

    model, optimizer = run(device)
    reference, _ = run("cpu")
    np.testing.assert_allclose(model.weight.detach().cpu().numpy(), reference.weight.detach().numpy(), atol=1e-5)
    for state in optimizer.state.values():
        places = {name: str(value.device) for name, value in state.items()}
        # Step counts are read by the host in every step, so they stay there.
        assert places.pop("step", "cpu") == "cpu"
        assert set(places.values()) == {device}


def test_capturable_steps_are_counted_there(device):
    parameter = torch.ones(2, device=device, requires_grad=True)
    parameter.grad = torch.ones(2, device=device)
    optimizer = torch.optim.Adam([parameter], capturable=True)
    optimizer.step()
    assert str(optimizer.state[parameter]["step"].device) == device
    assert optimizer.state[parameter]["step"].item() == 1


def test_state_loads_across_devices(device):
    there, here = nn.Linear(3, 2, device=device), nn.Linear(3, 2)
    here.load_state_dict(there.state_dict())
    assert here.weight.device.type == "cpu"
    assert here.weight.tolist() == there.weight.tolist()


def test_files_remember_the_device(device, tmp_path):
    base = torch.arange(6.0, device=device)
    stream = io.BytesIO()
    torch.save({"base": base, "part": base[2:4], "turned": base.reshape(2, 3).t()}, stream)
    stream.seek(0)
    found = torch.load(stream)
    assert {str(t.device) for t in found.values()} == {device}
    found["base"].mul_(10)
    assert found["part"].tolist() == [20, 30]
    assert found["turned"].tolist() == [[0, 30], [10, 40], [20, 50]]
    assert torch.load(stream, map_location="cpu")["part"].device.type == "cpu"
    assert str(torch.load(stream, map_location={device: "cpu"})["part"].device) == "cpu"
    save_safetensors({"base": base}, tmp_path / "a")
    assert load_safetensors(tmp_path / "a", device)["base"].tolist() == [0, 1, 2, 3, 4, 5]


def test_separate_tensors_do_not_become_one(device):
    """Small blocks of one allocator lie close together, and come in any order."""
    tensors = [torch.full((3,), float(k), device=device) for k in range(20)]
    stream = io.BytesIO()
    torch.save(tensors, stream)
    stream.seek(0)
    for k, tensor in enumerate(torch.load(stream)):
        assert tensor.tolist() == [k, k, k]
        tensor.zero_()


def test_batches_are_gathered_on_the_device(device):
    data = TensorDataset(torch.arange(6, device=device), torch.arange(6))
    batches = list(DataLoader(data, batch_size=4, shuffle=True, generator=torch.Generator().manual_seed(1)))
    assert [(str(x.device), y.device.type) for x, y in batches] == [(device, "cpu")] * 2
    assert sorted(row for x, _ in batches for row in x.tolist()) == [0, 1, 2, 3, 4, 5]
    assert all(x.tolist() == y.tolist() for x, y in batches)


def test_streams_wait_for_streams(device):
    first, second = torch.Stream(device), torch.Stream(device)
    with first:
        product = torch.ones(300, 300, device=device) @ torch.ones(300, 300, device=device)
    second.wait_stream(first)
    second.wait_stream(second)
    with second:
        total = (product - 300).abs().sum()
    second.synchronize()
    assert first.query()
    assert total.item() == 0


def test_numbers_of_the_host_meet_numbers_of_a_device(device):
    there, here = torch.tensor(1.0, device=device), torch.tensor(2.0, device="cpu")
    assert (there + here).device == there.device
    assert (here * there).item() == 2.0
    assert (there < here).item()
