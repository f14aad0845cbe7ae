"""Connectionist temporal classification: scores of many states against a recursion in double precision, gradients
against differences, and both where there are no labels.
"""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch

F = torch.nn.functional


def rng():
    return np.random.default_rng(4)


def loss(scores, labels, blank):
    """Of one example [T, C], by the recursion over probabilities' logarithms."""
    states = [blank, *(k for label in labels for k in (label, blank))]
    now = np.full(len(states), -np.inf)
    now[0] = 0
    for row in scores:
        before, now = now, np.full(len(states), -np.inf)
        for s, state in enumerate(states):
            terms = [before[s], before[s - 1] if s else -np.inf]
            if s > 1 and state not in (blank, states[s - 2]):
                terms.append(before[s - 2])
            now[s] = np.logaddexp.reduce(terms) + row[state]
    return -np.logaddexp(now[-1], now[-2] if len(states) > 1 else -np.inf)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("steps", "count", "classes", "size"), [
    (1, 1, 2, 1), (30, 3, 5, 7), (60, 2, 30, 20), (9, 2, 4, 0)])
def test_losses_of_many_states(dtype, steps, count, classes, size):
    values = rng().standard_normal((steps, count, classes))
    values -= np.log(np.exp(values).sum(2, keepdims=True))
    labels, blank = rng().integers(0, classes - 1, (count, size)), classes - 1
    got = F.ctc_loss(torch.tensor(values, dtype=dtype), torch.tensor(labels), [steps] * count, [size] * count,
                     blank=blank, reduction="none")
    wanted = [loss(values[:, n], labels[n], blank) for n in range(count)]
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-5 if dtype is torch.float32 else 1e-12)


@pytest.mark.parametrize(("size", "lengths"), [(3, (3, 1)), (9, (9, 5)), (0, (0, 0))])
def test_gradients(size, lengths):
    values = torch.tensor(rng().standard_normal((20, 2, 4)), requires_grad=True)
    labels = torch.tensor(rng().integers(1, 4, (2, size)))

    def run(x):
        return F.ctc_loss(x.log_softmax(2), labels, (20, 19), lengths, reduction="none")

    assert torch.autograd.gradcheck(run, values)
    short = values.detach()[:8].requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: F.ctc_loss(
        x.log_softmax(2), labels[:, :2], (8, 7), [min(n, 2) for n in lengths], reduction="none"), short)


def test_impossible_classes():
    """A class that cannot be emitted bars all alignments through it; the others count."""
    values = torch.full((3, 1, 3), -1.0, dtype=torch.float64)
    values[1, 0, 1] = -float("inf")
    values.requires_grad_()
    got = F.ctc_loss(values, torch.tensor([[1]]), [3], [1], reduction="sum")
    np.testing.assert_allclose(got.item(), loss(values.detach().numpy()[:, 0], [1], 0), rtol=1e-12)
    got.backward()
    assert not values.grad.isnan().any()
