"""Names that optimizers, trainers and tools of libraries use."""

from __future__ import annotations

import pytest

import tensocket as torch
from tensocket import _C, backends, fx, mtia, nn
from tensocket.errors import ArgumentError, LibraryError
from tensocket.optim import optimizer
from tensocket.utils import _foreach_utils


def test_tensors_are_grouped_by_dtype():
    first = [torch.ones(1), torch.ones(2, dtype=torch.float64), torch.ones(3)]
    second = ["a", None, "c"]
    groups = _foreach_utils._group_tensors_by_device_and_dtype([first, second, []], with_indices=True)
    key = (torch.device("cpu"), torch.float32)
    assert [tuple(each.shape) for each in groups[key][0][0]] == [(1,), (3,)]
    assert groups[key][0][1:] == [["a", "c"], []]
    assert groups[key][1] == [0, 2]
    assert groups[torch.device("cpu"), torch.float64][0][1] == [None]
    assert _foreach_utils._group_tensors_by_device_and_dtype([first])[key][1] == []


def test_lists_are_supported_for_plain_tensors():
    class Own(torch.Tensor):
        pass

    cpu = torch.device("cpu")
    assert _foreach_utils._has_foreach_support([torch.ones(1), None], cpu)
    assert not _foreach_utils._has_foreach_support([torch.ones(1).as_subclass(Own)], cpu)
    assert not _foreach_utils._device_has_foreach_support(torch.device("meta"))
    assert "cpu" in _foreach_utils._get_fused_kernels_supported_devices()
    assert optimizer._get_capturable_supported_devices() == _foreach_utils._get_foreach_kernels_supported_devices()


def test_steps_on_the_host_go_tensor_by_tensor_unless_a_program_says_so():
    assert optimizer._default_to_fused_or_foreach([nn.Parameter(torch.ones(1))], differentiable=False) == (False, False)
    assert optimizer._default_to_fused_or_foreach([None], differentiable=True) == (False, False)


def test_types_of_scripts_are_in_the_main_namespace():
    assert torch.TensorType is _C.TensorType
    assert torch.OptionalType(torch.IntType()) == _C.OptionalType(_C.IntType())
    assert fx._symbolic_trace.ScriptObject is torch.ScriptObject is _C.ScriptObject
    with pytest.raises(AttributeError, match="nothing"):
        fx._symbolic_trace.nothing  # noqa: B018


def test_switches_of_fusers_keep_their_value():
    before = _C._jit_can_fuse_on_cpu()
    assert _C._jit_override_can_fuse_on_cpu(not before) is before
    assert _C._jit_can_fuse_on_cpu() is not before
    _C._jit_override_can_fuse_on_cpu(before)
    assert _C._jit_set_profiling_mode(True) is True
    assert _C._jit_set_texpr_fuser_enabled(False) is False
    assert _C._get_privateuse1_backend_name() == "privateuseone"


def test_libraries_that_no_backend_uses():
    assert not backends.nnpack.is_available()
    assert not backends.kleidiai.is_available()
    assert not mtia.is_available()
    assert mtia.device_count() == 0
    assert backends.quantized.engine in backends.quantized.supported_engines
    assert backends.nnpack.set_flags(True) == (False,)
    with backends.nnpack.flags(False):
        assert backends.nnpack.set_flags(False) == (False,)
    assert backends.nnpack.set_flags(False) == (True,)


def test_classes_of_libraries_are_not_registered(tmp_path):
    with pytest.raises(RuntimeError, match=r"\[classes\] pyg::Graph — Class pyg.Graph not registered: classes of "
                       "libraries in C\\+\\+ are compiled for PyTorch's own library — use the library's Python parts"):
        torch.classes.pyg.Graph  # noqa: B018
    assert not hasattr(torch.classes, "__path__")
    with pytest.raises(LibraryError, match="compiled for PyTorch's own library"):
        torch.classes.load_library(str(tmp_path / "x.so"))
    assert torch.classes.loaded_libraries is torch.ops.loaded_libraries


def test_draws_from_dirichlet_distributions():
    torch.manual_seed(0)
    drawn = torch._sample_dirichlet(torch.tensor([[1.0, 2.0, 5.0]]).expand(20000, 3))
    assert drawn.shape == (20000, 3)
    assert torch.allclose(drawn.sum(-1), torch.ones(20000))
    assert torch.allclose(drawn.mean(0), torch.tensor([1.0, 2.0, 5.0]) / 8, atol=0.01)
    with pytest.raises(ArgumentError, match=r"\[_sample_dirichlet\] a generator — the device's generator draws gamma "
                       "numbers — seed it with manual_seed, and leave generator out"):
        torch._sample_dirichlet(torch.ones(2), torch.Generator())


def test_flags_change_in_blocks():
    assert not backends.flags_frozen()
    backends.disable_global_flags()
    try:
        assert backends.flags_frozen()
        with getattr(backends, "__allow_nonbracketed_mutation")():
            assert not backends.flags_frozen()
        assert backends.flags_frozen()
    finally:
        backends._FROZEN["frozen"] = False


def test_optimizers_of_libraries_patch_their_step():
    class Own(torch.optim.SGD):
        def __setstate__(self, state):
            super().__setstate__(state)
            self._patch_step_function()

    parameter = nn.Parameter(torch.ones(1))
    own = Own([parameter], lr=0.5)
    own.__setstate__(own.__getstate__())
    parameter.grad = torch.ones(1)
    own.step()
    assert parameter.tolist() == [0.5]
