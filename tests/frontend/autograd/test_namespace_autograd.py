"""PyTorch's module paths of autograd."""

from __future__ import annotations

import importlib

import pytest

import tensocket as torch

PATHS = {
    "autograd": "Function Variable backward detect_anomaly enable_grad grad gradcheck gradgradcheck inference_mode "
                "no_grad set_detect_anomaly set_grad_enabled",
    "autograd.anomaly_mode": "detect_anomaly set_detect_anomaly",
    "autograd.function": "Function FunctionCtx once_differentiable",
    "autograd.functional": "hessian hvp jacobian jvp vhp vjp",
    "autograd.grad_mode": "enable_grad inference_mode is_multithreading_enabled no_grad set_grad_enabled "
                          "set_multithreading_enabled",
    "autograd.graph": "GradientEdge Node disable_saved_tensors_hooks get_gradient_edge increment_version "
                      "register_multi_grad_hook save_on_cpu saved_tensors_hooks",
    "autograd.gradcheck": "GradcheckError gradcheck gradgradcheck",
    "autograd.variable": "Variable",
    "utils.checkpoint": "CheckpointError CheckpointFunction checkpoint checkpoint_sequential noop_context_fn "
                        "set_checkpoint_early_stop",
}


@pytest.mark.parametrize("path", PATHS)
def test_modules_have_their_names(path):
    module = importlib.import_module(f"tensocket.{path}")
    assert set(PATHS[path].split()) <= set(module.__all__)
    assert all(hasattr(module, name) for name in module.__all__)


def test_functions_hide_the_module_of_their_name():
    importlib.import_module("tensocket.autograd.gradcheck")
    assert torch.autograd.gradcheck(lambda x: x * x, torch.ones(2, dtype=torch.float64, requires_grad=True))
    assert torch.autograd.no_grad is torch.no_grad
    assert torch.autograd.inference_mode is torch.inference_mode


def test_variables_are_tensors():
    x = torch.ones(2)
    v = torch.autograd.Variable(x, requires_grad=True)
    assert isinstance(v, torch.Tensor)
    assert isinstance(x, torch.autograd.Variable)
    assert not isinstance(1, torch.autograd.Variable)
    assert (v.requires_grad, x.requires_grad) == (True, False)
    assert v.data_ptr() == x.data_ptr()
    order = []
    y = v * 2
    y.register_hook(lambda grad: torch.autograd.Variable._execution_engine.queue_callback(lambda: order.append(v.grad)))
    y.sum().backward()
    assert order[0].tolist() == [2.0, 2.0]


def test_layers_under_inference_mode():
    layer = torch.nn.Linear(3, 2)
    with torch.inference_mode():
        y = layer(torch.ones(1, 3))
    assert torch.is_inference(y)
    assert not y.requires_grad
    layer(torch.ones(1, 3)).sum().backward()
    assert layer.weight.grad.tolist() == [[1.0, 1.0, 1.0]] * 2
