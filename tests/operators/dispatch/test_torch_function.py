"""``__torch_function__``: classes, duck-typed arguments and modes that override functions."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.dispatch.overrides import (
    BaseTorchFunctionMode,
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    TorchFunctionMode,
    disabled_torch_function,
)
from tensocket_core.keys import WRAPPER
from tensocket_operators import Tensor
from tensocket_operators import functions as F
from tensocket_operators.catalogue import names_of_functions
from tensocket_plugins.contract.errors import ArgumentTypeError


class Plain(Tensor):
    """Overrides nothing itself: the default converts results."""


class Disabled(Tensor):
    __torch_function__ = disabled_torch_function


class Seen(Tensor):
    """Writes down what it sees."""

    calls: ClassVar[list[tuple[Any, Any, Any, Any]]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append((func, types, args, kwargs))
        return super().__torch_function__(func, types, args, kwargs)


class Logged(TorchFunctionMode):
    def __init__(self) -> None:
        self.calls: list[tuple[Any, Any, Any]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append((func, args, kwargs))
        return func(*args, **kwargs)


def plain(*values: float) -> Any:
    return torch.tensor([float(v) for v in values]).as_subclass(Plain)


# ------------------------------------------------------------------------------------------------------- subclasses


@pytest.mark.parametrize("made", [
    lambda x: x + 1, lambda x: 1 - x, lambda x: x.exp(), lambda x: x.sum(), lambda x: x[0], lambda x: x.view(1, 2),
    lambda x: x.clone(), lambda x: x.detach(), lambda x: x.contiguous(), lambda x: x.double(), lambda x: x.data,
    lambda x: torch.zeros_like(x), lambda x: torch.ones_like(x), lambda x: torch.full_like(x, 2),
    lambda x: torch.rand_like(x), lambda x: x.new_zeros(3), lambda x: x.new_empty_strided((2,), (1,)),
    lambda x: x.new_tensor([1]), lambda x: F.cat([x, x]),
    lambda x: x.max(0)[0], lambda x: x.split(1)[1], lambda x: F.where(x > 0, x, 0), lambda x: x.requires_grad_(),
    lambda x: copy.deepcopy(x), lambda x: x.T, lambda x: x.reshape(2), lambda x: torch.ones(2) + x,
])  # fmt: skip
def test_results_have_the_class_of_the_argument(made: Callable[[Any], Any]) -> None:
    result = made(plain(1, 2))
    assert type(result) is Plain
    assert result._key & WRAPPER


def test_values_are_those_of_plain_tensors() -> None:
    x = plain(1, 2)
    assert (2 * x + x.exp()).tolist() == pytest.approx((2 * np.array([1, 2]) + np.exp([1, 2])).tolist())
    assert (x.numel(), x.size(0), len(x), x[1].item(), bool(x[0])) == (2, 2, 2, 2.0, True)
    assert repr(x).startswith("Plain([1., 2.]")
    assert x.max(0)._fields == ("values", "indices")
    assert not isinstance(x.shape, Plain)


def test_in_place_operators_return_the_tensor_itself() -> None:
    x = plain(1, 2)
    assert x.add_(1) is x
    x[0] = 5
    assert x.tolist() == [5, 3]
    assert x._version == 2


def test_classes_made_by_the_old_constructor_and_by_make_subclass() -> None:
    assert Plain([1, 2]).tolist() == [1.0, 2.0]
    assert Plain(2, 3).shape == (2, 3)
    base = torch.tensor([1.0])
    for made in (Plain(base), Plain._make_subclass(base), Tensor._make_subclass(Plain, base, False)):
        assert type(made + 1) is Plain
        made.add_(1)
    assert base.tolist() == [4.0]
    assert Plain._make_subclass(base, True).requires_grad
    assert type(Tensor([1])) is Tensor
    assert type(Tensor(plain(1))) is Tensor  # an alias of it
    assert Tensor().shape == (0,)


def test_as_subclass_keeps_history_and_memory() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x.as_subclass(Plain)
    assert y.requires_grad
    assert not y.is_leaf
    (y * y).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    z = torch.tensor([1.0])
    z.as_subclass(Plain).add_(1)
    assert z.tolist() == [2.0]
    assert type(z.as_subclass(Plain).as_subclass(Disabled)) is Disabled
    with pytest.raises(ArgumentTypeError, match=re.escape("[as_subclass] cls <class 'int'> — cls is a subclass")):
        z.as_subclass(int)


def test_classes_with_slots_of_their_own() -> None:
    class Slotted(Tensor):
        __slots__ = ("extra",)

    x = torch.tensor([1.0], requires_grad=True).as_subclass(Slotted)
    x.extra = 3
    y = x + 1
    assert type(y) is Slotted
    y.sum().backward()


def test_disabled_classes_are_plain() -> None:
    x = Disabled([1.0, 2.0])
    assert not x._key & WRAPPER
    assert type(x + 1) is Tensor
    assert type(x.detach()) is Tensor
    assert type(torch.zeros_like(x)) is Tensor

    class Back(Disabled):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return "seen"

    assert Back([1.0]) + 1 == "seen"

    class Forth(Back):
        __torch_function__ = disabled_torch_function

    assert type(Forth([1.0]).detach()) is Tensor
    assert disabled_torch_function(F.add, (), (Back([1.0]), 1)).tolist() == [2.0]


def test_functions_are_given_as_the_user_wrote_the_call() -> None:
    x = torch.tensor([[1.0, 2.0]]).as_subclass(Seen)
    Seen.calls.clear()
    F.add(x, 2, alpha=3)
    F.add(x, 2, out=torch.zeros(1, 2))
    x.sum(0, keepdim=True)
    x.view(2, 1)
    x + 1
    x.detach()
    x.numel()
    torch.zeros_like(x, dtype=torch.int64)
    calls = [(func, args[1:], {k: v for k, v in kwargs.items() if k != "out"}) for func, _, args, kwargs in Seen.calls]
    assert calls == [
        (F.add, (2,), {"alpha": 3}), (F.add, (2,), {}), (F.sum, (0, True), {}), (Tensor.view, (2, 1), {}),
        (F.add, (1,), {}), (Tensor.detach, (), {}), (Tensor.numel, (), {}),
        (torch.zeros_like, (), {"dtype": torch.int64}),
    ]  # fmt: skip
    assert all(types == (Seen,) for _, types, _, _ in Seen.calls)


def test_functions_are_keys_of_a_table() -> None:
    handled: dict[Any, Any] = {}

    def implements(function: Any) -> Any:
        def register(run: Any) -> Any:
            handled[function] = run
            return run

        return register

    class Diagonal:
        """N times a value: no tensor at all."""

        def __init__(self, n: int, value: float) -> None:
            self.n, self.value = n, value

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func not in handled or not all(issubclass(t, (Tensor, Diagonal)) for t in types):
                return NotImplemented
            return handled[func](*args, **(kwargs or {}))

    @implements(F.mean)
    def mean(input: Diagonal) -> float:
        return input.value / input.n

    @implements(F.add)
    def add(input: Any, other: Any) -> Any:
        return ("add", type(input).__name__, type(other).__name__)

    @implements(F.cat)
    def cat(tensors: Any, dim: int = 0) -> Any:
        return len(tensors), dim

    d = Diagonal(5, 2.0)
    assert F.mean(d) == 0.4
    assert F.add(d, 1) == ("add", "Diagonal", "int")
    assert F.add(torch.ones(1), d) == torch.ones(1) + d == ("add", "Tensor", "Diagonal")
    assert Tensor.__radd__(torch.ones(1), d) == ("add", "Diagonal", "Tensor")
    assert F.cat([torch.ones(1), d], 1) == (2, 1)
    with pytest.raises(TypeError, match=r"\[sum\] arguments of types Diagonal — one class's or mode's"):
        F.sum(d)
    with pytest.raises(TypeError, match=re.escape("[matmul] arguments of types Diagonal")):
        F.matmul(torch.ones(1), d)
    assert Tensor.add is F.add is F.add


def test_subclasses_come_before_bases_and_left_before_right() -> None:
    order: list[str] = []

    def make(name: str, base: type) -> Any:
        def see(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            order.append(name)
            return NotImplemented

        return type(name, (base,), {"__torch_function__": classmethod(see)})

    A, B = make("A", Tensor), make("B", Tensor)
    C = make("C", A)
    a, b, c = A([1.0]), B([1.0]), C([1.0])
    with pytest.raises(TypeError, match=r"\[cat\] arguments of types C, A, B"):
        F.cat([a, b, c, a])
    assert order == ["C", "A", "B"]
    order.clear()
    with pytest.raises(TypeError):
        F.add(b, a)
    assert order == ["B", "A"]
    order.clear()
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'B' and 'A'"):
        b + a
    assert order == ["B", "A", "A", "B"]  # of the left operand's method, and of the right one's


def test_operators_that_nobody_answers_are_left_to_the_right_operand() -> None:
    class Silent(Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    class Right(Silent):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func.__name__ if func is Tensor.__rpow__ else NotImplemented

    class Unit:
        __torch_function__ = Silent.__torch_function__

        def __rmul__(self, other: Any) -> str:
            return "unit"

        __rmatmul__ = __gt__ = __rmul__

    x = Silent([1.0])
    assert x ** Right([1.0]) == "__rpow__"
    assert torch.ones(1) * Unit() == x * Unit() == torch.ones(1) @ Unit() == (x < Unit()) == "unit"
    assert (x == Silent([1.0])) is False  # Python compares by identity where nobody answers
    with pytest.raises(TypeError, match=r"'<' not supported between instances of 'Silent' and 'Silent'"):
        x < x  # noqa: B015  the comparison fails
    with pytest.raises(TypeError, match=r"\[pow\] arguments of types Silent"):
        F.pow(x, 2)
    with pytest.raises(ArgumentTypeError, match="a real error"):
        torch.ones(1) + Failing([1.0])


class Failing(Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise ArgumentTypeError("add", "a real error", "the rule", "the advice")


def test_the_default_refuses_types_that_are_no_bases() -> None:
    class Other(Tensor):
        pass

    with pytest.raises(TypeError, match=r"\[add\] arguments of types Plain, Other"):
        F.add(plain(1), Other([1.0]))
    with pytest.raises(TypeError, match="unsupported operand"):
        plain(1) + Other([1.0])

    class Finer(Plain):
        pass

    assert type(plain(1) + Finer([1.0])) is Finer


def test_gradients_flow_through_overriding_classes() -> None:
    x = Plain([1.0, 2.0]).requires_grad_()
    y = (x * x).sum()
    assert type(y) is Plain
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_methods_can_be_switched_off_for_a_block() -> None:
    x = plain(1)
    with DisableTorchFunctionSubclass():
        assert type(x + 1) is Tensor
        assert type(torch.zeros_like(x)) is Tensor
        assert type(x.detach()) is Tensor
    assert type(x + 1) is Plain
    with Logged() as mode, DisableTorchFunctionSubclass():
        x + 1
    with mode, DisableTorchFunction():
        x + 1
    assert len(mode.calls) == 1
    assert ACTIVE == []


# ------------------------------------------------------------------------------------------------------------ modes


def test_modes_see_functions_and_factories() -> None:
    x = torch.tensor([1.0])
    with Logged() as mode:
        torch.zeros(2, dtype=torch.int64)
        torch.arange(3)
        torch.rand(2)
        torch.as_tensor([1.0])
        torch.ones_like(x)
        x.new_zeros(1)
        x.detach()
        x + 1
        F.add(x, 1, alpha=2)
    assert mode.calls == [
        (torch.zeros, (2,), {"dtype": torch.int64}), (torch.arange, (3,), {}), (torch.rand, (2,), {}),
        (torch.as_tensor, ([1.0],), {}), (torch.ones_like, (x,), {}),
        (Tensor.new_zeros, (x, 1), {}), (Tensor.detach, (x,), {}), (F.add, (x, 1), {}), (F.add, (x, 1), {"alpha": 2}),
    ]  # fmt: skip
    assert ACTIVE == []


def test_modes_nest_and_do_not_see_their_own_calls() -> None:
    class Doubling(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **kwargs) * 2

    x = torch.tensor([3.0])
    with Logged() as outer, Doubling():
        y = x + 1
    assert y.tolist() == [8.0]
    assert [func for func, _, _ in outer.calls] == [F.add, F.mul]
    with outer, outer:
        x + 1
    assert len(outer.calls) == 4
    with BaseTorchFunctionMode():
        y = x + 1
    assert y.tolist() == [4.0]


def test_modes_come_before_classes() -> None:
    x = plain(1)
    with Logged() as mode:
        assert type(x + 1) is Plain
    assert [func for func, _, _ in mode.calls] == [F.add]


def test_modes_answer() -> None:
    class Silent(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    x = torch.tensor([1.0])
    with pytest.raises(TypeError, match=r"\[add\] plain arguments under Silent — one class's or mode's"), Silent():
        F.add(x, 1)
    with pytest.raises(TypeError, match="unsupported operand"), Silent():
        x + 1
    with pytest.raises(NotImplementedError, match="TorchFunctionMode defines no __torch_function__"), (
            TorchFunctionMode()):
        x + 1
    assert ACTIVE == []


# ------------------------------------------------------------------------------------------------------------ names


def test_names_of_functions() -> None:
    names = names_of_functions()
    assert names[F.add] == "torch.add"
    assert names[Tensor.add_] == "torch.Tensor.add_"
    assert names[Tensor.detach] == "torch.Tensor.detach"
    assert names[torch.zeros] == "torch.zeros"
    assert names[torch.as_tensor] == "torch.as_tensor"
    assert names[F.linear] == "torch.nn.functional.linear"


def test_size_and_stride_are_seen_and_belong_to_the_base_class() -> None:
    seen = []

    class Sees(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append((func, args[1:]))
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.ones(2, 3).as_subclass(Sees)
    assert (x.size(), x.size(1), x.stride(), x.stride(0)) == ((2, 3), 3, (3, 1), 3)
    assert seen == [(torch.Tensor.size, ()), (torch.Tensor.size, (1,)), (torch.Tensor.stride, ()),
                    (torch.Tensor.stride, (0,))]
    assert Sees.size is torch.Tensor.size
    assert Sees.stride is torch.Tensor.stride


class Answers:
    """An argument that overrides every function it takes part in, and is not a tensor."""

    seen: ClassVar[list[Any]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(func)
        return "answer"


class AnsweringTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return "answer"


@pytest.mark.parametrize(
    "make", [Answers, lambda: torch.ones(1).as_subclass(AnsweringTensor)], ids=["object", "tensor"])
def test_indices_and_values_are_asked(make: Any) -> None:
    index = make()
    x = torch.tensor([5.0])
    assert x[index] == "answer"
    assert x[0, index] == "answer"
    x[index] = 1
    x[3, index] = 1
    x[0] = index
    assert x.tolist() == [5.0]


def test_a_written_value_is_asked_with_the_method() -> None:
    Answers.seen.clear()
    torch.tensor([5.0])[0] = Answers()
    assert Answers.seen == [torch.Tensor.__setitem__]


def test_functions_of_any_arguments_are_overridden() -> None:
    assert F.einsum("i,j->ij", Answers(), torch.ones(2)) == "answer"
    assert F.einsum("i,j->ij", [Answers(), torch.ones(2)]) == "answer"
    assert F.block_diag(torch.ones(2), Answers()) == "answer"


def test_gradients_are_overridden_with_tuples() -> None:
    given: list[Any] = []

    class Takes:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given.append((func, args))
            return -1

    x = Takes()
    assert torch.autograd.grad(x, x) == -1
    assert given == [(torch.autograd.grad, ((x,), (x,)))]


def test_matrix_products_leave_other_operands_to_their_own_method() -> None:
    pytest.importorskip("tensocket_cpu")
    class Right:
        def __rmatmul__(self, other: Any) -> Any:
            return "right"

    assert torch.ones(2, 2) @ Right() == "right"
    with pytest.raises(TypeError, match="unsupported operand"):
        torch.ones(2) @ 2
    host = torch.ones(2, 2, device="cpu")
    np.testing.assert_array_equal((host @ np.ones((2, 2))).numpy(), np.full((2, 2), 2.0))


def test_a_mode_may_leave_a_call_to_classes() -> None:
    calls: list[Any] = []

    class Leaves(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            calls.append(types)
            return NotImplemented if types else func(*args, **(kwargs or {}))

    class Sub(torch.Tensor):
        pass

    x = torch.ones(2).as_subclass(Sub)
    with Leaves():
        assert torch.add(torch.ones(2), Answers()) == "answer"
        y = -x
    assert type(y) is Sub
    assert y.tolist() == [-1.0, -1.0]
    # The class runs the function as for plain tensors, which the mode sees again; then the result is converted.
    assert calls == [(), (Answers,), (Sub,), ()]


def test_modes_see_calls_without_tensors() -> None:
    class Zero(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return 0

    with Zero():
        assert F.split(None, [2]) == 0
        assert F.neg("text") == 0
        assert torch.sparse_coo_tensor(1, 1, 1) == 0
        assert torch.sparse_csr_tensor(1, 1, 1) == 0


def test_methods_of_modes_are_no_class_methods() -> None:
    class Mode(TorchFunctionMode):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args)

    with pytest.raises(RuntimeError, match=re.escape(
            "Defining your mode's `__torch_function__` as a classmethod is not supported, please make it a plain "
            "method")), Mode():
        pass


def test_a_subclass_of_a_tensor_is_a_view_of_it() -> None:
    class Special(Tensor):
        pass

    leaf = torch.ones(2, requires_grad=True)
    made = Special(leaf)
    assert (type(made), made._base is leaf, made.requires_grad, made.is_leaf) == (Special, True, True, False)
    (made * 3).sum().backward()
    assert leaf.grad.tolist() == [3.0, 3.0]
    row = torch.zeros(2, 3)[0]
    made = Special(row)
    row.add_(1)
    assert made.tolist() == [1.0, 1.0, 1.0]
    assert made._version == row._version == 1
    assert Special(2, 3)._base is None
    assert Special([1, 2]).tolist() == [1.0, 2.0]
