"""Functions of the package as attributes of a module's class: those that PyTorch has in C take no ``self``."""

from __future__ import annotations

import numpy as np

import tensocket as torch
from tensocket.nn import functional


class Net(torch.nn.Module):
    activation = torch.tanh
    smooth = functional.gelu
    convolve = torch.conv2d
    contract = torch.einsum  # a function of Python in PyTorch, too

    def forward(self, x):
        return self.activation(x)


def test_built_in_functions_are_held_statically():
    x = torch.tensor([0.5, -1.0])
    net = Net()
    np.testing.assert_allclose(net(x).numpy(), np.tanh([0.5, -1.0]), rtol=1e-6)
    assert net.smooth(x).shape == (2,)
    assert net.convolve(torch.ones(1, 1, 3, 3), weight=torch.ones(1, 1, 3, 3)).item() == 9.0
    assert Net.activation is torch.tanh


def test_code_without_a_module_defines_classes():
    space = {"torch": torch}
    exec("class Twice(torch.nn.Module):\n    def forward(self, x):\n        return 2 * x", space)
    assert space["Twice"]()(torch.tensor(3.0)).item() == 6.0


def test_functions_of_python_still_become_methods():
    assert net_method_owner(Net().contract) is not None


def net_method_owner(method):
    return getattr(method, "__self__", None)


def test_a_built_in_function_as_forward():
    class Sine(torch.nn.Module):
        forward = torch.sin

    assert Sine()(torch.tensor(0.0)).item() == 0.0


def test_an_assigned_submodule_may_have_a_name_that_the_class_answers():
    class Lazy(torch.nn.Module):
        def __getattr__(self, name):
            return None if name == "head" else super().__getattr__(name)

    net, head = Lazy(), torch.nn.Linear(2, 1)
    net.head = head
    assert dict(net.named_children()) == {"head": head}
