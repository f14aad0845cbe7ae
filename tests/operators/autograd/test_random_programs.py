"""Gradients of random programs against finite differences of the same programs in NumPy; see ``programs``.

``TENSOCKET_TEST_EXAMPLES`` sets the number of programs per test; above the default they are drawn anew in every run.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import tensocket_operators as torch
from tensocket_operators.transforms import grad, jvp, vmap
from tensocket_plugins.contract.errors import AutogradError

_spec = importlib.util.spec_from_file_location("programs", Path(__file__).parents[1] / "programs.py")
programs = importlib.util.module_from_spec(_spec)
sys.modules["programs"] = programs
_spec.loader.exec_module(programs)
Array, Program, Step = np.ndarray, programs.Program, programs.Step
draw_program, gradients, curvatures, directions = (
    programs.draw_program, programs.gradients, programs.curvatures, programs.directions)

FEW = 60
EXAMPLES = int(os.environ.get("TENSOCKET_TEST_EXAMPLES", FEW))
QUICK = settings(max_examples=EXAMPLES, deadline=None, derandomize=EXAMPLES <= FEW, database=None,
                 suppress_health_check=list(HealthCheck))


def near(tensor: Any, expected: Any, bound: float) -> None:
    """Equal; None is a gradient of zeros."""
    expected = np.asarray(expected)
    if tensor is None:
        tensor = torch.zeros(expected.shape, dtype=torch.float64)
    assert tuple(tensor.shape) == expected.shape
    np.testing.assert_allclose(np.array(tensor.detach().tolist()).reshape(expected.shape), expected, 0, bound)


def all_near(tensors: Sequence[Any], expected: Sequence[Array], bound: float) -> None:
    for tensor, values in zip(tensors, expected, strict=True):
        near(tensor, values, bound)


def recorded(program: Any) -> tuple[list[Any], list[tuple[Any, Any]], Any]:
    """Leaves, differentiable results with their weights, and the loss."""
    leaves = [torch.tensor(leaf, requires_grad=True) for leaf in program.leaves]
    results = program.tensors(*leaves)
    all_near(results, program.arrays(program.leaves)[0], 1e-10)
    pairs = [(y, torch.tensor(w)) for y, w in zip(results, program.weights(), strict=True) if y.requires_grad]
    assume(pairs)
    return leaves, pairs, sum((y * w).sum() for y, w in pairs)


def refused(program: Any, error: AutogradError) -> None:
    """A pass is refused only where a value that it needs was written to."""
    assert "saved" in str(error), error
    assert program.risky, error


@QUICK
@given(st.data())
def test_backward(device: str, data: Any) -> None:
    """The gradient, again and added up from a kept graph."""
    program = draw_program(data)
    expected, bound = gradients(program)
    leaves, _, loss = recorded(program)
    try:
        loss.backward(retain_graph=True)
        all_near([x.grad for x in leaves], expected, bound)
        loss.backward()
    except AutogradError as error:
        refused(program, error)
        return
    all_near([x.grad for x in leaves], [2 * values for values in expected], 2 * bound)


@QUICK
@given(st.data())
def test_second_order(data: Any) -> None:
    program = draw_program(data)
    expected, bound = curvatures(program)
    leaves, _, loss = recorded(program)
    try:
        first = torch.autograd.grad(loss, leaves, create_graph=True, materialize_grads=True)
        slope = sum((g * torch.tensor(d)).sum() for g, d in zip(first, directions(program), strict=True))
        second = [None] * len(leaves)
        if slope.requires_grad:
            second = torch.autograd.grad(slope, leaves, allow_unused=True)
    except AutogradError as error:
        refused(program, error)
        return
    all_near(second, expected, bound)


@QUICK
@given(st.data())
def test_gradients_of_some_inputs(data: Any) -> None:
    """Any inputs, also twice, of several results at once; the graph serves again and again."""
    program = draw_program(data, writes=False)
    expected, bound = gradients(program)
    leaves, pairs, loss = recorded(program)
    wanted = data.draw(st.lists(st.integers(0, len(leaves) - 1), min_size=1, max_size=4))
    stranger = torch.tensor([1.0], requires_grad=True)
    inputs = [*[leaves[k] for k in wanted], stranger]
    roots, weights = zip(*pairs, strict=True)
    for _ in range(2):
        found = torch.autograd.grad(roots, inputs, weights, retain_graph=True, allow_unused=True)
        assert found[-1] is None
        all_near(found[:-1], [expected[k] for k in wanted], bound)
    with pytest.raises(AutogradError, match="allow_unused"):
        torch.autograd.grad(loss, stranger, retain_graph=True)
    found = torch.autograd.grad(loss, inputs, retain_graph=True, materialize_grads=True)
    assert found[-1].tolist() == [0.0]
    all_near(found[:-1], [expected[k] for k in wanted], bound)
    torch.autograd.backward([loss], inputs=[leaves[wanted[0]]])
    near(leaves[wanted[0]].grad, expected[wanted[0]], bound)
    assert all(x.grad is None for x in leaves if x is not leaves[wanted[0]])


@QUICK
@given(st.data())
def test_transforms(data: Any) -> None:
    """``grad`` is the gradient, ``jvp`` the slope along a direction, ``jvp`` of ``grad`` the curvature."""
    program = draw_program(data, quiet=False)
    expected, bound = gradients(program)
    leaves, tangents = [tuple([torch.tensor(v) for v in values]) for values in (program.leaves, directions(program))]
    value, slope = jvp(program.loss, leaves, tangents)
    near(value, program.value()(program.leaves), 1e-9)
    along = [(g * d).sum() for g, d in zip(expected, directions(program), strict=True)]
    near(slope, sum(along), bound * sum(leaf.size for leaf in program.leaves))
    by_all = grad(program.loss, argnums=tuple(range(len(leaves))))
    try:
        found = by_all(*leaves)
        curved = jvp(by_all, leaves, tangents)[1]
    except AutogradError as error:
        refused(program, error)
        return
    all_near(found, expected, bound)
    second, off = curvatures(program)
    all_near(curved, second, off)


@QUICK
@given(st.data())
def test_batches_are_stacks_of_runs(data: Any) -> None:
    program = draw_program(data)
    rows = [[leaf * scale + 0.01 * k for leaf in program.leaves] for k, scale in enumerate((1.0, 0.8, -0.6))]
    batches = [torch.tensor(np.stack(values)) for values in zip(*rows, strict=True)]
    runs = [program.arrays(leaves)[0] for leaves in rows]
    found = vmap(lambda *leaves: tuple(program.tensors(*leaves)))(*batches)
    all_near(found, [np.stack(values) for values in zip(*runs, strict=True)], 1e-9)


def test_wrong_gradients_would_be_noticed() -> None:
    """The reference itself: the slope of a square, and of what was written over."""
    values = np.array([0.5, -1.2])
    square, written = [Step("mul", (0, 0))], Step("part_", (1, 2), ((0,),))
    found, bound = gradients(Program([values], square, [1]))
    np.testing.assert_allclose(found[0], 2 * values * np.cos([1.0, 2.0]), 0, bound)
    found, bound = gradients(Program([values], [*square, Step("sum", (0,), ((0,), False)), written], [1]))
    np.testing.assert_allclose(found[0], [np.cos(1), np.cos(1) + 2 * values[1] * np.cos(2)], 0, bound)
    assert bound < 1e-6
    found, bound = curvatures(Program([values], square, [1]))
    np.testing.assert_allclose(found[0], 2 * np.sin([1.0, 2.0]) * np.cos([1.0, 2.0]), 0, bound)
    with pytest.raises(AssertionError):
        near(torch.tensor(found[0] * 0.99), found[0], bound)
