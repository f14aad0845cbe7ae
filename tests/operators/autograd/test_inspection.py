"""The attributes of nodes that users read: names of classes, saved values, hooks on one saved tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators.autograd import graph
from tensocket_operators.differentiation.multithreading import is_multithreading_enabled, set_multithreading_enabled
from tensocket_operators.differentiation.mutation import allow_mutation_on_saved_tensors
from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError

A = np.array([0.5, -1.0, 2.0])


def leaf(values: Any) -> Any:
    return torch.tensor(values, requires_grad=True, dtype=torch.float64)


@pytest.mark.parametrize(("make", "kind", "name"), [
    (lambda x: x + 1, "AddBackward0", "AddBackward0"),
    (lambda x: x.exp(), "ExpBackward0", "ExpBackward0"),
    (lambda x: x[1:], "SliceBackward0", "SliceBackward0"),
    (lambda x: x.float(), "ToCopyBackward0", "ToCopyBackward0"),
    (lambda x: x.softmax(0), "SoftmaxBackward0", "SoftmaxBackward0"),
    (lambda x: torch.zeros(3, dtype=torch.float64).copy_(x), "CopyBackwards", "torch::autograd::CopyBackwards"),
])
def test_classes_of_nodes_have_the_names_of_operations(make: Callable[[Any], Any], kind: str, name: str) -> None:
    node = make(leaf(A)).grad_fn
    assert (type(node).__name__, node.name()) == (kind, name)
    assert isinstance(node, graph.Node)
    assert repr(node).startswith(f"<{kind} object at 0x")


def test_printed_names_have_no_namespace() -> None:
    x = leaf(A) * 1
    x[0] = 1.0
    assert "grad_fn=<CopySlices>" in repr(x)


def test_nodes_that_were_looked_at_pass_gradients_on() -> None:
    """Every node gets its own class while the graph is walked; sums, joins and further outputs still arrive."""
    x = leaf(A)
    y = x * x
    first, second = y.sort()[0], (y + x)
    z = (first * 2 + second).sum()
    stack, seen = [z.grad_fn], 0
    while stack:
        node = stack.pop()
        seen += 1
        stack += [below for below, _ in node.next_functions if below is not None]
    assert seen > 6
    z.backward()
    # sum(2 x^2 + x^2 + x)
    np.testing.assert_allclose(x.grad.tolist(), 6 * A + 1)
    again = leaf(A)
    w = (again.exp() * again).sum()
    assert w.grad_fn.next_functions[0][0].next_functions[0][0].name() == "ExpBackward0"
    np.testing.assert_allclose(torch.autograd.grad(w, again)[0].tolist(), np.exp(A) * (1 + A))


def test_saved_values_are_attributes() -> None:
    x, y = leaf(A), leaf(A + 1)
    node = (x * y).grad_fn
    assert node._saved_self is x
    assert node._saved_other is y
    assert {"_saved_self", "_saved_other", "_raw_saved_self", "_raw_saved_other"} <= set(dir(node))
    power = (x**2).grad_fn
    assert power._saved_exponent == 2
    assert "_raw_saved_exponent" not in dir(power)
    assert "_saved_result" in dir(x.exp().grad_fn)
    assert tuple(x.view(3, 1).grad_fn._saved_self_sym_sizes) == (3,)
    for name in ("_saved_nothing", "_raw_saved_nothing", "_raw_saved_exponent", "other"):
        with pytest.raises(AttributeError, match=f"PowBackward0 has no attribute '{name}'"):
            getattr(power, name)


def test_one_saved_tensor_gets_hooks() -> None:
    x, y = leaf(A), leaf(A + 1)
    z = x * y
    z.grad_fn._raw_saved_self.register_hooks(lambda t: t.tolist(), lambda v: torch.tensor(v, dtype=torch.float64) * 10)
    z.sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), A + 1)
    np.testing.assert_allclose(y.grad.tolist(), 10 * A)


def test_refused_hooks() -> None:
    node = (leaf(A) * leaf(A)).grad_fn
    with pytest.raises(ArgumentTypeError, match="hooks are functions"):
        node._raw_saved_self.register_hooks(None, lambda v: v)
    node._raw_saved_self.register_hooks(lambda t: t, lambda v: v)
    with pytest.raises(AutogradError, match="has hooks — hooks are set once, before the tensor is freed"):
        node._raw_saved_self.register_hooks(lambda t: t, lambda v: v)
    freed = node._raw_saved_other
    node.release()
    with pytest.raises(AutogradError, match="was freed — hooks are set once, before the tensor is freed"):
        freed.register_hooks(lambda t: t, lambda v: v)


def test_multithreading_is_a_setting() -> None:
    assert is_multithreading_enabled()
    with set_multithreading_enabled(False):
        assert not is_multithreading_enabled()
        set_multithreading_enabled(True)
        assert is_multithreading_enabled()
    assert is_multithreading_enabled()

    @set_multithreading_enabled(False)
    def setting() -> bool:
        return is_multithreading_enabled()

    assert is_multithreading_enabled()
    assert not setting()


# ------------------------------------------------------------------------------------- changes of what the graph saved

WRITES: dict[str, Callable[[Any], Any]] = {
    "item": lambda b: b.__setitem__(0, 5.0),
    "mask": lambda b: b.__setitem__(b > 0, 5.0),
    "index tensor": lambda b: b.__setitem__(torch.tensor([0, 1]), 5.0),
    "out": lambda b: torch.sin(torch.ones(3, dtype=torch.float64), out=b),
    "augmented": lambda b: b.__iadd__(1),
    "copy": lambda b: b.copy_(torch.ones(3)),
    "random": lambda b: b.normal_(),
    "scatter": lambda b: b.scatter_(0, torch.tensor([0]), 7.0),
    "view": lambda b: b.view(3, 1).mul_(4),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_saved_tensors_may_be_changed(write: Callable[[Any], Any]) -> None:
    a, b = leaf([1.0, 1.0, 1.0]), torch.tensor(A)
    with allow_mutation_on_saved_tensors() as context:
        y = (a * b).sum()
        assert (len(context.cloned), len(context.original)) == (0, 1)
        write(b)
        assert (len(context.cloned), len(context.original)) == (1, 0)
        y.backward()
    assert a.grad.tolist() == A.tolist()
    assert b.tolist() != A.tolist()


def test_what_nobody_saved_is_not_copied() -> None:
    a, b = leaf(A), torch.tensor(A)
    with allow_mutation_on_saved_tensors() as context:
        y = (a * a).sum()
        b.add_(1)
        assert len(context.cloned) == 0
        y.backward()
        assert len(context.original) == 0
    assert a.grad.tolist() == (2 * A).tolist()


def test_changes_are_allowed_in_one_context_only() -> None:
    with allow_mutation_on_saved_tensors():
        y = leaf(A).exp().sum()
        with pytest.raises(AutogradError, match="the context does not nest"), allow_mutation_on_saved_tensors():
            pass
    with pytest.raises(AutogradError, match="the graph is used in the context that recorded it"):
        y.backward()


def test_inputs_come_in_any_collection() -> None:
    x, y = (torch.tensor([v], requires_grad=True) for v in (2.0, 3.0))
    named = {"x": x, "y": y}
    for inputs in (named.values(), iter([x, y]), (t for t in (x, y))):
        assert [g.item() for g in torch.autograd.grad((x * y).sum(), inputs)] == [3, 2]
    torch.autograd.backward(iter([x * y, x]), inputs=iter([x]))
    assert x.grad.tolist() == [4]
    assert y.grad is None


def test_one_handle_stands_for_a_tensor_that_is_saved_several_times() -> None:
    a = leaf(A).clone()
    with allow_mutation_on_saved_tensors() as context:
        b, c = a * a, a * a
        assert len(context.tid_to_weakhandle) == len(context.original) == 1
        a.sin_()
        assert len(context.cloned) == 1
        before = len(context.tid_to_weakhandle)
        d = (a * a).sum()  # the new value has a handle of its own
        assert len(context.tid_to_weakhandle) == before + 1
        (b + c).sum().backward()
        del a, b, c, d
        assert len(context.cloned) == len(context.tid_to_weakhandle) == 0


def test_backward_outside_of_the_context_is_an_assertion() -> None:
    with allow_mutation_on_saved_tensors():
        y = leaf(A).exp().sum()
    with pytest.raises(AssertionError, match="Trying to backward outside of the 'allow_mutation_on_saved_tensors'"):
        y.backward()
