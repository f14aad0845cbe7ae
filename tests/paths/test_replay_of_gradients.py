"""Gradients of small tensors, computed often, by replays of rules and of whole passes.

They are compared with closed forms and with recorded passes, which run every rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket_core.autograd import conjugate, differentiate, graph_methods
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_core.launch import entries
from tensocket_core.recording import OVERRIDDEN_KERNELS
from tensocket_operators.differentiation import replayed_passes, replayed_rules

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("fresh_tables", "fresh_rules")
#: Passes until launches are recorded, and some more.
PASSES = 8


@pytest.fixture(params=["rules", "passes"])
def fresh_rules(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Rules, or whole passes, replay nothing that earlier tests recorded, and no kernel is replaced."""
    for operator in (*OPERATORS.values(), *COMPOSITES.values()):
        if operator.derivative is not None:
            monkeypatch.setattr(operator.derivative, "quick", None)
    for twin in conjugate._TWINS.values():
        monkeypatch.setattr(twin, "quick", None)
    monkeypatch.setattr(replayed_rules, "PATIENCE", 0)
    if request.param == "passes":
        monkeypatch.setattr(replayed_passes, "PASSES", 0)
        forget_passes()
    else:
        monkeypatch.setattr(differentiate, "SHORTCUTS", [])
        monkeypatch.setattr(graph_methods, "SHORTCUTS", [])
    before = OVERRIDDEN_KERNELS[:]
    OVERRIDDEN_KERNELS.clear()
    yield request.param
    forget_passes()
    OVERRIDDEN_KERNELS[:] = before


def forget_passes() -> None:
    replayed_passes._KNOWN.clear()
    replayed_passes._MATCHED.clear()
    replayed_passes._MISSES.clear()


def leaves(seed: int, *shapes: tuple[int, ...], dtype: Any = torch.float64) -> list[Any]:
    random = np.random.default_rng(seed)
    return [torch.tensor(random.standard_normal(shape), dtype=dtype, requires_grad=True) for shape in shapes]


def mask(x: Any) -> Any:
    return x.detach() > 0


#: Functions of leaves whose rules are replayed.
CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "clamp": (lambda x: x.clamp(-0.5, 0.25), ((3, 5),)),
    "clamp by tensors": (lambda x, y, z: torch.clamp(x, y, z), ((3, 5), (5,), (3, 1))),
    "maximum": (lambda x, y: torch.maximum(x, y), ((3, 5), (3, 5))),
    "fmin": (lambda x, y: torch.fmin(x, y), ((3, 5), (5,))),
    "std": (lambda x: x.std(1), ((3, 5),)),
    "var of all": (lambda x: x.var(), ((3, 5),)),
    "both moments": (lambda x: torch.std_mean(x, 0)[0] * torch.var_mean(x, 0)[0], ((3, 5),)),
    "norm": (lambda x: x.norm(3, dim=0), ((3, 5),)),
    "amax": (lambda x: x.amax(1), ((3, 5),)),
    "max of rows": (lambda x: x.max(1).values, ((3, 5),)),
    "aminmax": (lambda x: torch.aminmax(x, dim=1).max * 2, ((3, 5),)),
    "sorted": (lambda x: x.sort(1).values * torch.arange(5, dtype=x.dtype), ((3, 5),)),
    "topk": (lambda x: x.topk(2).values, ((3, 5),)),
    "kthvalue": (lambda x: x.kthvalue(2).values, ((3, 5),)),
    "logsumexp": (lambda x: x.logsumexp(1), ((3, 5),)),
    "cumprod": (lambda x: x.cumprod(1), ((3, 5),)),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), ((3, 5),)),
    "gather": (lambda x: x.gather(1, torch.tensor([[0, 2], [1, 1], [4, 0]])), ((3, 5),)),
    "scatter_add": (lambda x, y: x.scatter_add(1, torch.tensor([[0, 2], [1, 1], [4, 0]]), y), ((3, 5), (3, 2))),
    "scatter_reduce": (lambda x, y: x.scatter_reduce(1, torch.tensor([[0, 2], [1, 1], [4, 0]]), y, "amax"),
                       ((3, 5), (3, 2))),
    "take_along_dim": (lambda x: torch.take_along_dim(x, torch.tensor([[0, -2], [1, 1], [-5, 0]]), 1), ((3, 5),)),
    "take_along_dim, broadcast": (lambda x: torch.take_along_dim(x, torch.tensor([[0, 2, -1, 1]]), 1), ((3, 5),)),
    "take_along_dim of broadcast": (lambda x: torch.take_along_dim(x, torch.tensor([[0, 2], [1, 1], [4, 0]]), 1),
                                    ((1, 5),)),
    "take_along_dim of all": (lambda x: torch.take_along_dim(x, torch.tensor([[0, 14], [1, 1]])), ((3, 5),)),
    "scatter_reduce by products": (
        lambda x, y: x.scatter_reduce(1, torch.tensor([[0, 2], [1, 1], [4, 0]]), y, "prod"), ((3, 5), (3, 2))),
    "index_reduce": (lambda x, y: x.index_reduce(1, torch.tensor([3, 3]), y, "mean"), ((3, 5), (3, 2))),
    "prod": (lambda x: x.prod(1), ((3, 5),)),
    "masked_select": (lambda x: x.masked_select(torch.arange(15).reshape(3, 5) % 4 == 1), ((3, 5),)),
    "masked_select, broadcast": (lambda x: x.masked_select(torch.arange(3).reshape(3, 1) != 1), ((5,),)),
    "masked_scatter": (lambda x, y: x.masked_scatter(torch.arange(15).reshape(3, 5) % 4 == 1, y), ((3, 5), (2, 3))),
    "masked_scatter, broadcast": (lambda x, y: x.masked_scatter(torch.arange(3).reshape(3, 1) == 1, y), ((5,), (6,))),
    "masked_fill": (lambda x: x.masked_fill(mask(x), 2.0), ((3, 5),)),
    "where": (lambda x, y: torch.where(mask(x), x, y), ((3, 5), (3, 5))),
    "cross": (lambda x, y: torch.linalg.cross(x, y), ((4, 3), (4, 3))),
    "layer_norm": (lambda x, w: F.layer_norm(x, (5,), w), ((3, 5), (5,))),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), ((2, 3, 4), (2, 3, 4), (2, 3, 4))),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_recorded_passes(case: str, dtype: str) -> None:
    function, shapes = CASES[case]
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    for seed in range(PASSES):
        given = leaves(seed, *shapes, dtype=getattr(torch, dtype))
        made = function(*given)
        weights = torch.tensor(np.random.default_rng(seed).standard_normal(made.shape), dtype=made.dtype)
        found = torch.autograd.grad((made * weights).sum(), given)
        wanted = torch.autograd.grad((function(*given) * weights).sum(), given, create_graph=True)
        for x, y, leaf in zip(found, wanted, given, strict=True):
            assert x.shape == leaf.shape
            assert x.dtype is leaf.dtype
            assert x.grad_fn is None
            np.testing.assert_allclose(x.numpy(), y.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.skipif(not entries.ENABLED, reason="machine code is turned off")
def test_rules_are_replayed(asked: list[bool]) -> None:
    for seed in range(PASSES):
        (x,) = leaves(seed, (3, 5))
        x.clamp(-0.5, 0.5).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), (np.abs(x.detach().numpy()) <= 0.5).astype(float))
    assert any(asked)


def test_products_with_zeros_after_others() -> None:
    """A recording of products without zeros does not serve those with zeros."""
    for k in range(3 * PASSES):
        values = np.random.default_rng(k).standard_normal((2, 4)) + 3
        values[0, k % 4] = (1.0, 0.0, -2.0)[k % 3]
        values[0, (k + 1) % 4] = (1.0, 0.0, 2.0)[k // 3 % 3]
        x = torch.tensor(values, requires_grad=True)
        x.prod(1).sum().backward()
        wanted = [[np.prod(np.delete(row, j)) for j in range(4)] for row in values]
        np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-12)


def test_positions_out_of_one_recording_after_those_of_another() -> None:
    for k in range(2 * PASSES):
        places = np.random.default_rng(k).integers(-5, 5, (3, 2))
        (x,) = leaves(k, (3, 5))
        torch.take_along_dim(x, torch.tensor(places), 1).sum().backward()
        wanted = np.zeros((3, 5))
        np.add.at(wanted, (np.arange(3)[:, None], places), 1.0)
        np.testing.assert_array_equal(x.grad.numpy(), wanted)


def test_numbers_of_other_bits_are_other_calls() -> None:
    for low in (0.0, -0.0, 0, 0.5, float("nan")) * PASSES:
        x = torch.tensor([-1.0, -0.0, 0.25, 1.0], requires_grad=True)
        x.clamp(min=low).sum().backward()
        general = torch.autograd.grad(x.clamp(min=low).sum(), x, create_graph=True)[0]
        np.testing.assert_array_equal(x.grad.numpy(), general.detach().numpy())


def test_results_have_the_gradients_that_are_wanted() -> None:
    for pattern in ((True, False), (False, True), (True, True)) * PASSES:
        x, y = leaves(sum(pattern), (3, 5), (3, 5))
        x.requires_grad_(pattern[0])
        y.requires_grad_(pattern[1])
        torch.maximum(x, y).sum().backward()
        larger = x.detach().numpy() > y.detach().numpy()
        for leaf, share in ((x, larger), (y, ~larger)):
            if leaf.requires_grad:
                np.testing.assert_array_equal(leaf.grad.numpy(), share.astype(float))
            else:
                assert leaf.grad is None


def test_complex_arguments_after_real_ones() -> None:
    random = np.random.default_rng(3)
    for values in (random.standard_normal(4), random.standard_normal(4) + 1j * random.standard_normal(4)):
        for _ in range(PASSES):
            z = torch.tensor(values, requires_grad=True)
            out = z.asinh()
            (out.real if np.iscomplexobj(values) else out).sum().backward()
            np.testing.assert_allclose(z.grad.numpy(), np.conj(1 / np.sqrt(1 + values * values)), rtol=1e-12)


def test_conjugated_gradients_and_saved_tensors() -> None:
    random = np.random.default_rng(4)
    a, b = [random.standard_normal(4) + 1j * random.standard_normal(4) for _ in range(2)]
    for k in range(2 * PASSES):
        z = torch.tensor(a, requires_grad=True)
        other = torch.tensor(np.conj(b)).conj() if k % 2 else torch.tensor(b)
        (z / other).abs().sum().backward()
        np.testing.assert_allclose(z.grad.numpy(), a / np.abs(a) / np.abs(b), rtol=1e-12)


def test_reproducible_passes_run_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    index = torch.tensor([0, 1, 1, 0])
    seen: list[bool] = []

    def noted(original: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            seen.append(True)
            return original(*args)

        return run

    monkeypatch.setattr(replayed_rules._ReplayedRule, "run", noted(replayed_rules._ReplayedRule.run))
    for name in ("gradients", "matched"):
        monkeypatch.setattr(replayed_passes._Replays, name, noted(getattr(replayed_passes._Replays, name)))
    for reproducible in (False, True, False):
        torch.use_deterministic_algorithms(reproducible)
        try:
            del seen[:]
            x = torch.tensor([1.0, 2.0], requires_grad=True)
            x.index_select(0, index).clamp(0.0, 1.5).sum().backward()
            assert x.grad.tolist() == [2.0, 0.0]
            assert bool(seen) is not reproducible
        finally:
            torch.use_deterministic_algorithms(False)


def test_a_gradient_of_one_pass_is_not_that_of_another() -> None:
    """Results are new memory, which leaves may keep."""
    kept = []
    for seed in range(PASSES):
        (x,) = leaves(seed, (4,))
        x.clamp(-0.5, 0.5).sum().backward()
        kept.append((x.grad, (np.abs(x.detach().numpy()) <= 0.5).astype(float)))
        x.grad.add_(1.0)
    for grad, wanted in kept:
        np.testing.assert_array_equal(grad.numpy(), wanted + 1)
