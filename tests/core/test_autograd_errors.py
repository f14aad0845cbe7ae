"""Errors of autograd: class, PyTorch's class behind it, form, and an engine that works afterwards.

The last test reads the sources: it fails for a rule that no case here and no text of the other tests names.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tensocket_core as torch
from tensocket_core.autograd import graph
from tensocket_plugins.contract import errors
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    AutogradError,
    DtypeError,
    ShapeError,
    TensocketError,
)


def f(*shape: int) -> Any:
    return torch.ones(*shape)


def leaf(*shape: int, **options: Any) -> Any:
    return torch.ones(*shape, requires_grad=True, **options)


def freed() -> None:
    y = leaf(2).exp().sum()
    y.backward()
    y.backward()


def modified() -> None:
    y = leaf(2) * 1
    z = y * y
    y.add_(1)
    z.sum().backward()


def hooked(hook: Callable[[Any], Any]) -> None:
    y = leaf(2) * 1
    y.register_hook(hook)
    y.sum().backward()


def node_hooked(hook: Callable[..., Any]) -> None:
    y = leaf(2) * 1
    y.grad_fn.register_hook(hook)
    y.sum().backward()


def own_gradient() -> None:
    x = leaf(2)
    x.grad = x


def assigned(value: Any) -> Callable[[], None]:
    return lambda: setattr(leaf(2), "grad", value())


Run = Callable[[], Any]
CASES: list[tuple[Run, type[TensocketError], type[Exception], str]] = [
    # what backward starts from
    (lambda: f(1).backward(), AutogradError, RuntimeError, "backward"),
    (lambda: leaf(2).backward(), AutogradError, RuntimeError, "backward"),
    (lambda: leaf(2).backward(f(3)), ShapeError, RuntimeError, "backward"),
    (lambda: leaf(1).backward(f(1).to(torch.complex64)), DtypeError, RuntimeError, "backward"),
    (lambda: leaf(1, dtype=torch.complex64).backward(), AutogradError, RuntimeError, "backward"),
    (lambda: torch.autograd.backward([leaf(1), leaf(1)], [None]), AutogradError, RuntimeError, "backward"),
    (lambda: torch.autograd.backward(leaf(1), 1.0), ArgumentTypeError, TypeError, "backward"),
    (lambda: torch.autograd.backward(3), ArgumentTypeError, TypeError, "backward"),
    (lambda: torch.autograd.backward(graph.get_gradient_edge(leaf(1))), AutogradError, RuntimeError, "backward"),
    (lambda: leaf(1).backward(inputs=[]), AutogradError, RuntimeError, "backward"),
    # what gradients are taken of
    (lambda: torch.autograd.grad(leaf(1), []), AutogradError, RuntimeError, "grad"),
    (lambda: torch.autograd.grad(leaf(1), f(1)), AutogradError, RuntimeError, "grad"),
    (lambda: torch.autograd.grad(leaf(1), leaf(1)), AutogradError, RuntimeError, "grad"),
    (lambda: torch.autograd.grad(leaf(1), "x"), ArgumentTypeError, TypeError, "grad"),
    (lambda: torch.autograd.grad(leaf(1), leaf(1), allow_unused=False, materialize_grads=True), ArgumentError,
     ValueError, "grad"),
    (lambda: torch.autograd.grad(leaf(2), leaf(1), torch.tensor(1.0), is_grads_batched=True), ShapeError, RuntimeError,
     "grad"),
    # the graph
    (freed, AutogradError, RuntimeError, "backward"),
    (modified, AutogradError, RuntimeError, "backward"),
    (lambda: leaf(1).add_(1), AutogradError, RuntimeError, "add_"),
    (lambda: graph.get_gradient_edge(f(1)), AutogradError, RuntimeError, "get_gradient_edge"),
    # hooks
    (lambda: f(1).register_hook(print), AutogradError, RuntimeError, "register_hook"),
    (lambda: f(1).retain_grad(), AutogradError, RuntimeError, "retain_grad"),
    (lambda: (leaf(1) * 1).register_post_accumulate_grad_hook(print), AutogradError, RuntimeError,
     "register_post_accumulate_grad_hook"),
    (lambda: f(1).register_post_accumulate_grad_hook(print), AutogradError, RuntimeError,
     "register_post_accumulate_grad_hook"),
    (lambda: hooked(lambda grad: 3), ArgumentTypeError, TypeError, "hook"),
    (lambda: hooked(lambda grad: f(3)), ShapeError, RuntimeError, "hook"),
    (lambda: hooked(lambda grad: grad.double()), DtypeError, RuntimeError, "hook"),
    (lambda: node_hooked(lambda inputs, outputs: (inputs[0],) * 3), ArgumentTypeError, TypeError, "hook"),
    (lambda: graph.register_multi_grad_hook([leaf(1)], print, mode="some"), ArgumentError, ValueError,
     "register_multi_grad_hook"),
    (lambda: graph.register_multi_grad_hook([leaf(1)], 3), ArgumentTypeError, TypeError, "register_multi_grad_hook"),
    # what can be assigned
    (assigned(lambda: 1), ArgumentTypeError, TypeError, "grad"),
    (assigned(lambda: f(3)), ShapeError, RuntimeError, "grad"),
    (assigned(lambda: f(2).double()), DtypeError, RuntimeError, "grad"),
    (assigned(lambda: torch.ones(2, device="ref:1")), DtypeError, RuntimeError, "grad"),
    (own_gradient, AutogradError, RuntimeError, "grad"),
]


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{case[3]}" for k, case in enumerate(CASES)])
def test_class_form_and_what_follows(case: tuple[Run, type[TensocketError], type[Exception], str]) -> None:
    run, kind, base, operator = case
    with pytest.raises(kind) as caught:
        run()
    error = caught.value
    assert isinstance(error, base)
    assert error.operator == operator
    assert str(error) == f"[{operator}] {error.given} — {error.rule} — {error.advice}"
    assert all(part and part == part.strip() for part in (error.given, error.rule, error.advice))
    x = leaf(2)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


CLASSES = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, TensocketError)}


def rules() -> Iterator[tuple[str, str]]:
    """Where autograd makes an error, and its rule."""
    folder = Path(torch.__file__).parent / "autograd"
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and len(node.args) == 4 and getattr(node.func, "id", None) in CLASSES:
                rule = node.args[2]
                text = rule.value if isinstance(rule, ast.Constant) else ""
                if isinstance(rule, ast.JoinedStr) and isinstance(rule.values[0], ast.Constant):
                    text = rule.values[0].value
                yield f"{path.name}:{node.lineno}", str(text)


def texts() -> str:
    """What the tests of autograd expect, with pieces of strings joined."""
    found = []
    for path in Path(__file__).parent.glob("test_*.py"):
        if re.search(r"autograd|function|gradcheck|inference", path.name):
            found += [node.value.replace("\\", "") for node in ast.walk(ast.parse(path.read_text()))
                      if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return "\n".join(found)


def test_every_rule_is_broken_by_a_test() -> None:
    broken = set()
    for run, kind, *_ in CASES:
        with pytest.raises(kind) as caught:
            run()
        broken.add(caught.value.rule)
    expected = texts()
    found = list(rules())
    assert len(found) > 50
    untested = [(place, rule) for place, rule in found if rule not in broken and rule[:20] not in expected]
    assert untested == []
