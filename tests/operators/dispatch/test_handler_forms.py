"""The form in which overriding classes and modes receive arguments, however a program passes them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_core.dispatch.overrides import TorchFunctionMode
from tensocket_operators import Tensor
from tensocket_operators import functions as F
from tensocket_plugins.contract.errors import ArgumentTypeError

A = np.arange(6.0).reshape(2, 3)
B = np.arange(12.0).reshape(3, 4)


class Seen(Tensor):
    """Writes down positional and keyword arguments."""

    calls: ClassVar[list[tuple[str, tuple[Any, ...], dict[str, Any]]]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append((func.__name__, args, dict(kwargs or {})))
        return super().__torch_function__(func, types, args, kwargs)


class Logged(TorchFunctionMode):
    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append((func.__name__, args, dict(kwargs or {})))
        return func(*args, **(kwargs or {}))


def seen(array: Any) -> Any:
    return torch.tensor(array).as_subclass(Seen)


@pytest.fixture(autouse=True)
def no_calls() -> None:
    Seen.calls.clear()


@pytest.mark.parametrize("spell", [
    lambda a, b: F.einsum("ij,jk->ik", a, b), lambda a, b: F.einsum("ij,jk->ik", [a, b]),
    lambda a, b: F.einsum("ij,jk->ik", (a, b))])
def test_classes_receive_the_operands_of_einsum_one_by_one(spell: Any) -> None:
    a, b = seen(A), seen(B)
    result = spell(a, b)
    (name, args, kwargs), = [call for call in Seen.calls if call[0] == "einsum"]
    assert (name, kwargs) == ("einsum", {})
    assert args[0] == "ij,jk->ik"
    assert list(map(id, args[1:])) == [id(a), id(b)]
    np.testing.assert_array_equal(result.tolist(), A @ B)


@pytest.mark.parametrize(("spell", "equation", "expected"), [
    (lambda a, b: F.einsum(a, [0, 1], b, [1, 2], [0, 2]), "AB,BC->AC", A @ B),
    (lambda a, b: F.einsum(a, [0, 1], b, [1, 2]), "AB,BC", A @ B),
    (lambda a, b: F.einsum(a, [..., 27], b, [27, 1], [..., 1]), "...b,bB->...B", A @ B)])
def test_sublists_of_einsum_become_an_equation(spell: Any, equation: str, expected: Any) -> None:
    a, b = seen(A), seen(B)
    result = spell(a, b)
    args = next(args for name, args, _ in Seen.calls if name == "einsum")
    assert args[0] == equation
    assert list(map(id, args[1:])) == [id(a), id(b)]
    np.testing.assert_array_equal(result.tolist(), expected)


def test_modes_receive_a_list_of_operands_as_it_was_passed() -> None:
    a, b = torch.tensor(A), torch.tensor(B)
    with Logged() as mode:
        F.einsum("ij,jk->ik", [a, b])
        F.einsum(a, [0, 1], b, [1, 2], [0, 2])
    einsums = [args for name, args, _ in mode.calls if name == "einsum"]
    assert [type(value) for value in einsums[0]] == [str, list]
    assert einsums[1][0] == "AB,BC->AC"
    assert einsums[1][1] is a


@pytest.mark.parametrize("dims", [1, ([1], [0])])
def test_arguments_with_a_default_come_by_name(dims: Any) -> None:
    a, b = seen(A), seen(B)
    for result in (F.tensordot(a, b, dims), F.tensordot(a, b, dims=dims)):
        np.testing.assert_array_equal(result.tolist(), A @ B)
    for name, args, kwargs in Seen.calls:
        if name == "tensordot":
            assert (args[0], args[1], len(args)) == (a, b, 2)
            assert kwargs == {"dims": dims}
    assert [name for name, _, _ in Seen.calls].count("tensordot") == 2


def test_defaults_come_by_name_where_the_call_leaves_them_out() -> None:
    x = torch.tensor(A)
    with Logged() as mode:
        result = F.cdist(x, x)
        F.meshgrid(x[0], x[1], indexing="ij")
        F.leaky_relu(x)
    calls = {name: (len(args), kwargs) for name, args, kwargs in mode.calls}
    assert calls["cdist"] == (2, {"p": 2.0, "compute_mode": None})
    assert calls["meshgrid"] == (2, {"indexing": "ij"})
    assert calls["leaky_relu"] == (1, {"negative_slope": 0.01})
    distance = 3 * 3 ** 0.5
    np.testing.assert_allclose(result.tolist(), [[0, distance], [distance, 0]])


def test_handing_tensors_on_reads_none_of_their_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    printed: list[Any] = []
    monkeypatch.setattr(torch.Tensor, "__repr__", lambda self: printed.append(self) or "tensor")
    x = torch.ones(2)
    with Logged() as log:
        torch.cat((x, x), 0)
    assert [(name, type(args[0])) for name, args, _ in log.calls] == [("cat", tuple)]
    assert printed == []


def test_subscripts_are_methods_of_tensors() -> None:
    functions: list[Any] = []

    class Noting(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            functions.append(func)
            return func(*args, **(kwargs or {}))

    x = torch.tensor(A)
    with Noting():
        row = x[1]
        x[0] = -1.0
        x[0, :2] = row[1:]
    assert functions == [Tensor.__getitem__, Tensor.__setitem__, Tensor.__getitem__, Tensor.__setitem__]
    assert [function.__name__ for function in functions[:2]] == ["__getitem__", "__setitem__"]
    np.testing.assert_array_equal(x.tolist(), [[4, 5, -1], [3, 4, 5]])


def test_a_subscript_of_something_else_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"\[getitem\] arguments of types int — operands are tensors"):
        Tensor.__getitem__(3, 0)
