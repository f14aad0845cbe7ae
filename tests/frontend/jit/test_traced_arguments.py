"""The arguments that ``jit.trace`` hands to the function."""

from __future__ import annotations

import tensocket as torch


def test_functions_receive_the_very_arguments_that_are_traced():
    """Programs look up parameters that they hold, such as those of a parameter store, by identity."""
    held = torch.zeros(2, requires_grad=True)

    def loss(unconstrained, data):
        assert unconstrained is held
        return ((held.exp() + data) ** 2).sum()

    traced = torch.jit.trace(loss, (held, torch.ones(2)), check_trace=False)
    other = torch.zeros(2, requires_grad=True)
    result = traced(other, torch.full((2,), 3.0))
    result.backward()
    assert result.item() == 32
    assert other.grad.tolist() == [8, 8]
    assert held.grad is None


def test_one_tensor_in_two_places_is_two_inputs():
    x = torch.ones(2)
    traced = torch.jit.trace(lambda a, b: a - b, (x, x), check_trace=False)
    assert traced(x * 5, x).tolist() == [4, 4]
