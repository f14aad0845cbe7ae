"""Inner names and behaviour that libraries of distributions, graphs, dictionaries and trainers rely on."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tensocket as torch
from tensocket import _guards, fx
from tensocket._subclasses import FakeTensorMode
from tensocket.distributions import Normal, kl, kl_divergence, register_kl
from tensocket.distributions.utils import _sum_rightmost
from tensocket.nn.parameter import Parameter, _ParameterMeta
from tensocket.profiler import ProfilerAction
from tensocket.profiler.profiler import _default_schedule_fn
from tensocket.serialization import MAP_LOCATION
from tensocket.utils.data import DataLoader, IterableDataset
from tensocket.utils.data._utils.collate import np_str_obj_array_pattern
from tensocket.utils.data.dataloader import _DatasetKind


def test_the_package_is_called_torch_where_it_is_installed_as_torch():
    program = ("from tensocket import as_torch; as_torch.install(); import torch; "
               "print(torch.__name__, torch.__version__.split('+')[0], torch.Size([1])); "
               "as_torch.uninstall(); import tensocket; print(tensocket.__name__)")
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["torch", "2.13.0", "torch.Size([1])", "tensocket"]


def test_kinds_of_data_sets():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(2))

    assert DataLoader([1, 2])._dataset_kind == _DatasetKind.Map
    assert DataLoader(Stream())._dataset_kind == _DatasetKind.Iterable


def test_small_names():
    assert str in MAP_LOCATION.__args__
    assert type(Parameter) is _ParameterMeta
    assert torch.StorageBase is torch.UntypedStorage
    assert isinstance(torch.ones(2).untyped_storage(), torch.StorageBase)
    assert _sum_rightmost(torch.ones(2, 3, 4), 2).tolist() == [12.0, 12.0]
    assert _default_schedule_fn(3) is ProfilerAction.RECORD
    assert fx._symbolic_trace.compatibility is fx._compatibility.compatibility
    assert np_str_obj_array_pattern.search(np.array(["a"]).dtype.str)
    assert not np_str_obj_array_pattern.search(np.array([1.0]).dtype.str)


def test_the_active_fake_mode():
    assert _guards.active_fake_mode() is None
    with FakeTensorMode() as mode:
        assert _guards.active_fake_mode() is mode
        fake = torch.empty(3)
        assert _guards.detect_fake_mode() is mode
    assert _guards.detect_fake_mode([1, {"x": fake}]) is mode
    assert _guards.detect_fake_mode([torch.ones(1)]) is None


def test_divergences_of_classes_that_are_no_distributions():
    class Mixin:
        pass

    class Mine(Mixin, Normal):
        pass

    try:
        register_kl(Mixin, Mixin)(lambda p, q: torch.tensor(3.0))
        one = torch.tensor(1.0)
        assert kl._KL_REGISTRY[Mixin, Mixin](None, None).item() == 3.0
        assert kl_divergence(Mine(one, one), Normal(one, one)).item() == 0.0
    finally:
        del kl._KL_REGISTRY[Mixin, Mixin]
    with pytest.raises(TypeError, match="divergences are those of classes of distributions"):
        register_kl("Normal", Normal)


def test_shared_storages_of_a_worker():
    example = torch.ones(2, 3)
    storage = example.untyped_storage()._new_shared(24, device=example.device)
    out = example.new(storage).resize_(2, 3)
    torch.stack([torch.ones(3), torch.zeros(3)], out=out)
    assert out.is_shared()
    assert out.tolist() == [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]
    typed = example._typed_storage()._new_shared(6)
    assert typed._size() == 6
    assert typed.dtype is torch.float32
    assert typed._untyped_storage.is_shared()
