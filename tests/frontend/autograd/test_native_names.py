"""Names of PyTorch's native module through which programs look at autograd."""

from __future__ import annotations

import pytest

import tensocket as torch
from tensocket import _C
from tensocket.autograd import Function, forward_ad, graph


def test_weak_references_do_not_keep_tensors():
    x = torch.ones(2)
    reference = _C._WeakTensorRef(x)
    assert not reference.expired()
    del x
    assert reference.expired()


def test_backward_passes_are_numbered():
    seen = []
    x = torch.tensor(1.0, requires_grad=True).clone()
    x.register_hook(lambda grad: seen.append(_C._current_graph_task_id()))
    for _ in range(3):
        x.backward(retain_graph=True)
    assert [n - seen[0] for n in seen] == [0, 1, 2]
    assert _C._current_graph_task_id() == -1


def test_nodes_that_stop_gradients():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Boom!"):
        _C._functions.DelayedError("Boom!", 1)(x).sum().backward()

    class Seen(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            assert grad.tolist() == [0, 0]
            return grad

    _C._functions.UndefinedGrad()(Seen.apply(x)).sum().backward()
    assert isinstance((x * 1).grad_fn.next_functions[0][0], _C._functions.AccumulateGrad)


def test_what_is_enabled():
    with torch.no_grad():
        assert not _C.is_grad_enabled()
    assert _C.is_grad_enabled()
    assert _C._is_fwd_grad_enabled()
    try:
        _C._set_fwd_grad_enabled(False)
        assert not _C._is_fwd_grad_enabled()
        with forward_ad.dual_level():
            assert forward_ad.unpack_dual(forward_ad.make_dual(torch.ones(1), torch.ones(1)) * 2).tangent is None
    finally:
        _C._set_fwd_grad_enabled(True)
    assert _C._autograd._saved_tensors_hooks_is_enabled()
    with graph.disable_saved_tensors_hooks("not here"):
        assert not _C._autograd._saved_tensors_hooks_is_enabled()


def test_saved_tensors_have_a_class():
    x = torch.ones(2, requires_grad=True)
    assert isinstance((x * x).grad_fn._raw_saved_self, _C._autograd.SavedTensor)
