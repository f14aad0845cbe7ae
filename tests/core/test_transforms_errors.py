"""Every error of the transforms is made by a case, in the form that all messages have."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tensocket_core as torch
from tensocket_core import pytree
from tensocket_core import transforms as t
from tensocket_core.autograd import Function
from tensocket_core.transforms import dual_levels as fwd
from tensocket_core.transforms import forward_rules
from tensocket_plugins.contract import errors
from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.dtypes import int32
from tensocket_plugins.contract.errors import TensocketError

ONE, THREE = torch.tensor(1.0, device="ref"), torch.tensor([1.0, 2.0, 3.0], device="ref")
KEPT: list[Any] = []


def total(x: Any) -> Any:
    return x.sum()


class Joined(Function):
    """Without setup_context."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2


class Both(Function):
    """With two rules for batches."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return x, 0


def escaped() -> Any:
    t.vmap(lambda x: KEPT.append(x) or x)(THREE)
    return KEPT.pop() + 1


def quiet(function: Callable[[], Any]) -> Callable[[], Any]:
    """Without the warning of operators that are called once per example."""

    def run() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function()

    return run


def searched(edges: Any) -> Any:
    return torch.functions.searchsorted(edges, 0.5)


def second_level() -> Any:
    with fwd.dual_level():
        fwd.enter_dual_level()


def unaware_view() -> Any:
    with fwd.dual_level():
        torch.zeros(3)[:2].add_(fwd.make_dual(ONE, ONE))


def typed_view(x: Any) -> Any:
    torch.functions.view_as_real(x).mul_(2)
    return x


def differing_rows() -> Any:
    operator = SimpleNamespace(name="rows", kind="custom")
    info = SimpleNamespace(operator=operator, batch_size=2)
    return t.batching_rules._stacked(info.operator.name, [THREE, THREE[:2]])


def retyped_view() -> Any:
    operator = SimpleNamespace(name="bits", view=lambda array: DeviceArray(None, int32, array.shape, array.strides, 0))
    return t.batching_rules.view(SimpleNamespace(operator=operator), (0,), THREE)


COMPLEX = torch.tensor([1 + 2j], device="ref")
CASES: list[Callable[[], Any]] = [
    escaped,
    lambda: t.vmap(lambda x: x.data_ptr())(THREE),
    lambda: t.grad(lambda x: THREE.add_(x).sum())(ONE),
    lambda: t.vmap(lambda x: torch.zeros(()).add_(x))(THREE),
    lambda: t.vmap(lambda x: x.clone().requires_grad_())(THREE),
    lambda: t.vmap(lambda x: torch.rand(2))(THREE),
    lambda: t.vmap(lambda x: x.item())(THREE),
    lambda: number_of(THREE),
    lambda: t.vmap(lambda x: x.unique())(THREE.reshape(1, 3)),
    quiet(lambda: t.vmap(searched)(torch.zeros(0, 3))),
    differing_rows,
    retyped_view,
    lambda: t.batching_rules._stacked("count", [1, 1]),
    lambda: t.functionalize(typed_view)(COMPLEX.clone()),
    lambda: t.vmap(total, randomness="often"),
    lambda: t.vmap(total, chunk_size=0),
    lambda: t.vmap(total)(),
    lambda: t.vmap(total, in_dims="a")(THREE),
    lambda: t.vmap(total, in_dims=(0, 0))(THREE),
    lambda: t.vmap(total, in_dims=(None,))(THREE),
    lambda: t.vmap(total)(1.0),
    lambda: t.vmap(total, in_dims=2)(THREE),
    lambda: t.vmap(total, in_dims=(0.5,))(THREE),
    lambda: t.vmap(lambda x, y: x)(THREE, THREE[:2]),
    lambda: t.vmap(total, out_dims=(0, 0))(THREE),
    lambda: t.vmap(lambda x: 1.0)(THREE),
    lambda: t.vmap(total, out_dims=None)(THREE),
    lambda: t.vmap(total, out_dims=3)(THREE),
    lambda: t.grad(total)(1.0),
    lambda: t.grad(lambda x: x)(THREE),
    lambda: t.grad(lambda x: [x.sum()])(THREE),
    lambda: t.grad(lambda x: 1.0)(THREE),
    lambda: t.grad(total, argnums=2)(THREE),
    lambda: t.grad(total, argnums=(0, 0))(THREE),
    lambda: t.grad(total, argnums="x")(THREE),
    lambda: t.grad(total, has_aux=True)(THREE),
    lambda: t.vjp(total, THREE)[1]((ONE, ONE)),
    lambda: t.vjp(total, THREE)[1](THREE),
    lambda: t.jvp(total, THREE, THREE),
    lambda: t.jvp(total, (THREE,), (THREE, THREE)),
    lambda: t.jvp(lambda x: 1.0, (THREE,), (THREE,)),
    lambda: t.jvp(lambda x: ONE, (THREE,), (THREE,), strict=True),
    lambda: t.jvp(total, (THREE,), (1.0,)),
    lambda: t.jvp(total, (THREE.long(),), (THREE,)),
    lambda: t.jvp(total, (THREE,), (ONE,)),
    lambda: t.jacfwd(total)(()),
    lambda: t.linearize(torch.sin, THREE)[1](THREE, THREE),
    lambda: t.functionalize(total, remove="views"),
    lambda: t.trace(total)(THREE).replay(THREE, 1),
    lambda: fwd.make_dual(ONE, ONE),
    fwd.exit_dual_level,
    second_level,
    unaware_view,
    lambda: t.grad(lambda x: Joined.apply(x).sum())(THREE),
    lambda: t.vmap(Both.apply)(THREE),
    lambda: forward_rules.inplace_tangent(SimpleNamespace(name="unknown_"), (THREE,), (THREE,)),
    lambda: pytree.register_pytree_node(tuple, list, list),
    lambda: pytree.tree_unflatten([1], pytree.tree_structure((1, 2))),
    lambda: pytree.tree_map(max, (1,), [1]),
]


def number_of(x: Any) -> Any:
    """What asks an operator, not the tensor, for the number."""
    operator = torch.transforms.batching.RULES["_local_scalar_dense"]
    return operator(SimpleNamespace(args=(x[0],)), (0,), x)


@pytest.mark.parametrize("case", CASES)
def test_form_and_what_follows(case: Callable[[], Any]) -> None:
    with pytest.raises(TensocketError) as caught:
        case()
    error = caught.value
    assert isinstance(error, (RuntimeError, ValueError))
    assert str(error) == f"[{error.operator}] {error.given} — {error.rule} — {error.advice}"
    assert all(part and part == part.strip() for part in (error.given, error.rule, error.advice))
    assert (torch.tensor([1.0, 2.0]) * 2).tolist() == [2.0, 4.0]
    assert torch.is_grad_enabled()


CLASSES = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, TensocketError)}


def rules() -> Iterator[tuple[str, str]]:
    """Where transforms make an error, and a pattern of its rule."""
    folder = Path(t.__file__).parent
    for path in [*sorted(folder.glob("*.py")), Path(pytree.__file__)]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and len(node.args) == 4 and getattr(node.func, "id", None) in CLASSES:
                rule = node.args[2]
                place = f"{path.name}:{node.lineno}"
                if isinstance(rule, ast.Constant):
                    yield place, re.escape(rule.value)
                elif isinstance(rule, ast.JoinedStr):
                    parts = [re.escape(x.value) if isinstance(x, ast.Constant) else ".*" for x in rule.values]
                    yield place, "".join(parts)


def test_every_rule_is_broken_by_a_case() -> None:
    broken = set()
    for case in CASES:
        with pytest.raises(TensocketError) as caught:
            case()
        broken.add(caught.value.rule)
    found = list(rules())
    assert len(found) > 40
    assert [(place, rule) for place, rule in found if not any(re.fullmatch(rule, text) for text in broken)] == []
