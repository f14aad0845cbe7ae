"""Pickles that version 0.1 wrote name modules that have moved since; they load as what they were."""

from __future__ import annotations

import functools
import io
import pickle
import re
import warnings
from pathlib import Path

import pytest

import tensocket as torch

FILES = Path(__file__).parent / "fixtures" / "former_paths"
TENSORS = {
    "tensor": torch.ones(3), "grad": torch.ones(2), "f8": torch.ones(2).to(torch.float8_e4m3fn),
    "conj": torch.ones(2, dtype=torch.complex64), "sparse": torch.eye(3), "csr": torch.eye(3),
}


def read(name: str) -> object:
    return pickle.loads((FILES / f"{name}.pkl").read_bytes())


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_have_their_values(name):
    found, expected = read(name), TENSORS[name]
    assert type(found).__mro__[-2] is torch.Tensor
    assert found.requires_grad is (name == "grad")
    assert found.dtype is expected.dtype
    assert found.to_dense().tolist() == expected.tolist() if name in ("sparse", "csr") else (
        found.resolve_conj().tolist() == expected.tolist())


def test_classes_and_functions_are_those_of_today():
    assert read("tensorcls") is torch.Tensor
    assert read("Function") is torch.autograd.Function
    assert read("func") is torch.relu
    assert read("method") is torch.ones
    assert read("size") == torch.Size([1, 2])
    assert type(read("size")) is torch.Size


def test_other_values():
    assert read("finfo") == torch.finfo(torch.float32)
    assert read("gen").initial_seed() == 67280421310721
    assert bytes(read("storage")) == bytes(torch.ones(3).untyped_storage())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # typed storages are deprecated, which is said once
        assert list(read("typed")) == [1.0, 1.0, 1.0]
    assert read("meta").is_meta
    assert read("svd").S.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("name", "kind"), [
    ("module", torch.nn.Linear), ("opt", torch.optim.Adam), ("sched", torch.optim.lr_scheduler.StepLR)])
def test_objects_of_programs(name, kind):
    assert type(read(name)) is kind


@pytest.mark.parametrize(("name", "expected"), [("mf", torch.channels_last), ("Function", torch.autograd.Function)])
def test_whole_objects_in_files_of_ours(name, expected):
    assert torch.load(FILES / f"{name}.pt", weights_only=False) is expected


@pytest.mark.parametrize(("former", "place"), [
    ("nn.modules.attention.MultiheadAttention", "nn.MultiheadAttention"), ("nn.modules.cells.GRUCell", "nn.GRUCell"),
    ("nn.modules.rectifiers.LeakyReLU", "nn.LeakyReLU"), ("nn.modules.margins.SoftMarginLoss", "nn.SoftMarginLoss"),
    ("nn.modules.loss_base._Loss", "nn.modules.loss._Loss"),
    ("nn.modules.parameters.ParameterList", "nn.ParameterList"),
    ("nn.modules.state._IncompatibleKeys", "nn.modules.module._IncompatibleKeys"),
    ("nn.modules.conversion.Convertible", "nn.modules.module.Convertible"),
    ("nn.modules.hooks.register_module_forward_hook", "nn.modules.module.register_module_forward_hook"),
    ("nn.modules.tree.ModuleTree", "nn.modules.base.tree.ModuleTree"), ("losses.LOSSES", "namespace.losses.LOSSES"),
    ("legacy.range", "range"), ("devices.available_devices", "available_devices"), ("foreach.norm", "_foreach_norm"),
])
def test_names_of_the_front_end_that_have_moved(former, place):
    module, _, name = former.rpartition(".")
    found = pickle.loads(f"ctensocket.{module}\n{name}\n.".encode())
    assert found is functools.reduce(getattr, place.split("."), torch)


@pytest.mark.parametrize("make", [
    lambda: torch.nn.GRUCell(2, 3), lambda: torch.nn.MultiheadAttention(4, 2), lambda: torch.nn.LeakyReLU(0.5),
    lambda: torch.nn.TripletMarginLoss(), lambda: torch.nn.ParameterList([torch.ones(2)]),
    lambda: torch.nn.modules.module._IncompatibleKeys([], ["a"]),
])
def test_files_have_pytorchs_paths_of_classes_that_lie_elsewhere(make):
    value, file = make(), io.BytesIO()
    torch.save(value, file)
    names = set(re.findall(rb"torch\.nn\.modules\.([\w.]+)", file.getvalue()))
    assert names <= {b"rnn", b"activation", b"loss", b"container", b"module", b"linear"}
    assert type(torch.load(io.BytesIO(file.getvalue()), weights_only=False)) is type(value)
    assert type(pickle.loads(pickle.dumps(value))) is type(value)
