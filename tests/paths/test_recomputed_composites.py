"""Composites that are one node of the graph on small tensors: against the recorded operators of their functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.recording import OVERRIDDEN_KERNELS
from tensocket_operators.differentiation import replayed_rules
from tensocket_operators.unrolled import recomputed

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("fresh_tables", "fresh_rules")
#: Passes until launches are recorded, and some more.
PASSES = 12
INDEX = torch.tensor([[0, 2, 2, 0], [1, 1, 0, 2]])
SIGNS = torch.tensor([1.0, -1.0, 1.0])
LABELS = torch.tensor([2, 0, 3])


@pytest.fixture
def fresh_rules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rules replay nothing that earlier tests recorded, and no kernel is replaced."""
    for operator in COMPOSITES.values():
        if getattr(operator, "gradients", None) is not None:
            monkeypatch.setattr(operator.gradients, "quick", None)
    monkeypatch.setattr(replayed_rules, "PATIENCE", 0)
    before = OVERRIDDEN_KERNELS[:]
    OVERRIDDEN_KERNELS.clear()
    yield
    OVERRIDDEN_KERNELS[:] = before


def leaves(*shapes: tuple[int, ...]) -> list[Any]:
    random = np.random.default_rng(5)
    return [torch.tensor(random.uniform(0.1, 0.9, shape), dtype=torch.float64, requires_grad=True) for shape in shapes]


#: Functions of leaves.
CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "trapezoid": (lambda y, x: torch.trapezoid(y, x), ((3, 4), (3, 4))),
    "trapezoid by dx": (lambda y: torch.trapezoid(y, dx=0.5, dim=0), ((3, 4),)),
    "cumulative_trapezoid": (lambda y, x: torch.cumulative_trapezoid(y, x), ((3, 4), (4,))),
    "renorm": (lambda x: torch.renorm(x, 2, 0, 1.0), ((3, 4),)),
    "scatter sum": (lambda x, y: x.scatter_reduce(0, INDEX, y, "sum"), ((3, 4), (2, 4))),
    "scatter mean": (lambda x, y: x.scatter_reduce(0, INDEX, y, "mean", include_self=False), ((3, 4), (2, 4))),
    "scatter prod": (lambda x, y: x.scatter_reduce(0, INDEX, y, "prod"), ((3, 4), (2, 4))),
    "scatter amax of a corner": (lambda x, y: x.scatter_reduce(0, INDEX, y, "amax"), ((3, 4), (3, 5))),
    "index_reduce": (lambda x, y: x.index_reduce(1, LABELS, y, "mean"), ((3, 4), (3, 3))),
    "index_reduce amin": (lambda x, y: x.index_reduce(1, LABELS, y, "amin"), ((3, 4), (3, 3))),
    "hinge_embedding_loss": (lambda x: F.hinge_embedding_loss(x, SIGNS), ((3,),)),
    "cosine_embedding_loss": (lambda x, y: F.cosine_embedding_loss(x, y, SIGNS), ((3, 4), (3, 4))),
    "cosine_similarity": (lambda x, y: F.cosine_similarity(x, y), ((3, 4), (4,))),
    "pdist": (lambda x: F.pdist(x), ((4, 3),)),
    "multi_margin_loss": (lambda x, w: F.multi_margin_loss(x, LABELS, 2, 1.0, w), ((3, 4), (4,))),
    "multilabel_margin_loss": (lambda x: F.multilabel_margin_loss(x, torch.tensor([1, 3, -1, 0])), ((4,),)),
    "multilabel_soft_margin_loss": (lambda x, y: F.multilabel_soft_margin_loss(x, y), ((3, 4), (3, 4))),
    "gaussian_nll_loss": (lambda x, y, v: F.gaussian_nll_loss(x, y, v, full=True), ((3, 4), (3, 4), (3, 1))),
    "linear_cross_entropy": (lambda x, w: F.linear_cross_entropy(x, w, LABELS), ((3, 5), (4, 5))),
    "local_response_norm": (lambda x: F.local_response_norm(x, 2, 0.5), ((2, 3, 4),)),
    "quantile": (lambda x, q: torch.quantile(x, q, dim=1), ((3, 4), (2,))),
    "nanquantile": (lambda x: torch.nanquantile(x, 0.3), ((3, 4),)),
    "logsumexp": (lambda x: torch.logsumexp(x, 1), ((3, 4),)),
    "ldexp": (lambda x, y: torch.ldexp(x, y), ((3, 4), (4,))),
    "combinations": (lambda x: torch.combinations(x), ((4,),)),
    "softmin": (lambda x: F.softmin(x, 1), ((3, 4),)),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), ((1, 2, 3, 4), (1, 2, 2, 2))),
    "grid_sampler_3d": (lambda x, g: torch.grid_sampler_3d(x, g, 0, 1, True), ((1, 2, 3, 3, 2), (1, 1, 2, 2, 3))),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), ((1, 4, 2, 3),)),
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), ((1, 1, 4, 2),)),
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 3), ((1, 6, 2),)),
    "the same tensor twice": (lambda x: torch.trapezoid(x, x * x), ((3, 4),)),
}


def first_and_second(function: Callable[..., Any], inputs: list[Any]) -> list[Any]:
    """Return a function's result, and first and second derivatives of a sum of its squares."""
    made = function(*inputs)
    first = torch.autograd.grad(made.square().sum(), inputs, create_graph=True)
    second = torch.autograd.grad(sum(x.square().sum() for x in first), inputs, allow_unused=True)
    return [made, *first, *[torch.zeros_like(x) if y is None else y for x, y in zip(inputs, second, strict=True)]]


def assert_close(found: list[Any], wanted: list[Any]) -> None:
    for x, y in zip(found, wanted, strict=True):
        assert x.shape == y.shape
        assert x.dtype is y.dtype
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_one_node_has_the_gradients_of_the_operators(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, shapes = CASES[name]
    inputs = leaves(*shapes)
    with monkeypatch.context() as patch:
        patch.setattr(recomputed, "ELEMENTS", 0)  # which records the operators
        wanted = first_and_second(function, inputs)
    assert_close(first_and_second(function, inputs), wanted)
    for _ in range(PASSES):  # the last rules are replayed
        made = function(*inputs)
        assert_close([made, *torch.autograd.grad(made.square().sum(), inputs)], wanted[:len(inputs) + 1])


@pytest.mark.parametrize("name", CASES)
def test_results_may_be_changed(name: str) -> None:
    function, shapes = CASES[name]
    inputs = leaves(*shapes)
    wanted = torch.autograd.grad(function(*inputs).sum(), inputs)
    made = function(*inputs)
    assert made._base is None
    made.mul_(2)
    assert_close([x / 2 for x in torch.autograd.grad(made.sum(), inputs)], list(wanted))


def test_one_node() -> None:
    x, y = leaves((3, 4), (3, 4))
    assert torch.trapezoid(y, x).grad_fn.name() == "TrapezoidBackward0"
    large = torch.ones(recomputed.ELEMENTS + 1, requires_grad=True)
    assert torch.trapezoid(large).grad_fn.name() != "TrapezoidBackward0"


def test_copied_tensors_may_change_before_the_backward_pass() -> None:
    (y,) = leaves((2, 3))
    x = torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64)
    made = torch.trapezoid(y, x)
    x.zero_()
    with torch.no_grad():
        y.zero_()
    made.sum().backward()
    assert y.grad.tolist() == [[0.5, 1.5, 1.0]] * 2


def test_saved_tensors_may_not_change() -> None:
    x, y = leaves((3, 4), (3, 4))
    made = F.cosine_similarity(x, y)
    with torch.no_grad():
        x.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.sum().backward()


def test_constants_have_no_gradient() -> None:
    x, target = leaves((3,), (3,))
    assert torch.autograd.grad(F.hinge_embedding_loss(x, target), [x, target], allow_unused=True)[1] is None
    assert not F.hinge_embedding_loss(x.detach(), target).requires_grad


@pytest.mark.parametrize("hooks", [False, True])
def test_hooks_on_saved_tensors_see_the_operators(hooks: bool) -> None:
    packed = []

    def pack(value: Any) -> Any:
        packed.append(value)
        return value

    (x,) = leaves((3, 4))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value) if hooks else nullcontext():
        made = torch.logsumexp(x, 1)
    (found,) = torch.autograd.grad(made.sum(), [x])
    assert_close([found], [torch.softmax(x.detach(), 1)])
    assert bool(packed) is hooks
