"""Containers that hold themselves, objects whose elements are themselves, and values that are not tensors."""

from __future__ import annotations

from typing import Any

import pytest

import tensocket as torch
from tensocket.errors import ArgumentError, ArgumentTypeError, TensocketError


class Itself:
    """A sequence of which every element is the sequence."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        return self


def _endless() -> list[Any]:
    first: list[Any] = []
    first.append(first)
    return first


def _assign(value: Any) -> None:
    torch.ones(3, 3)[0] = value


def _assign_at(index: Any) -> None:
    torch.ones(3, 3)[index] = 1


FUNCTIONS = {
    "index": lambda v: torch.ones(3, 3)[v], "assign": _assign, "assign_at": _assign_at,
    "block_diag": torch.block_diag, "cat": torch.cat, "stack": torch.stack, "hstack": torch.hstack,
    "as_tensor": torch.as_tensor, "tensor": torch.tensor, "asarray": torch.asarray, "Tensor": torch.Tensor,
    "meshgrid": torch.meshgrid, "cartesian_prod": torch.cartesian_prod, "chain_matmul": torch.chain_matmul,
    "einsum": lambda v: torch.einsum("i", v), "grad": lambda v: torch.autograd.grad(v, v),
    "ones_like": torch.ones_like, "empty_like": torch.empty_like, "atleast_1d": torch.atleast_1d,
    "atleast_2d": torch.atleast_2d, "broadcast_tensors": torch.broadcast_tensors,
    "vmap": lambda v: torch.vmap(lambda q: q)(v), "default_collate": torch.utils.data.default_collate,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("make", [_endless, lambda: [1, _endless()], lambda: (_endless(),), Itself])
def test_endless_arguments_are_typed_errors(name, make):
    with pytest.raises(TensocketError):
        FUNCTIONS[name](make())


def test_endless_lists_have_one_message():
    with pytest.raises(ArgumentTypeError, match="self-referential lists are incompatible with tensors"):
        torch.ones(3)[_endless()]
    with torch.overrides.BaseTorchFunctionMode(), pytest.raises(ArgumentTypeError, match="self-referential lists"):
        torch.ones(3)[_endless()]


def test_objects_without_end_have_too_many_dimensions():
    for data in (Itself(), [Itself()], [1.0, Itself()]):
        with pytest.raises(ValueError, match=r"\[tensor\] a Itself — too many dimensions 'Itself' — "):
            torch.tensor(data)


def test_finite_sequences_are_values():
    class Row:
        def __init__(self, values):
            self.values = values

        def __len__(self):
            return len(self.values)

        def __getitem__(self, index):
            return self.values[index]

    assert torch.tensor(Row([1, 2, 3])).tolist() == [1, 2, 3]
    assert torch.tensor([Row([1, 2]), Row([3, 4])]).tolist() == [[1, 2], [3, 4]]
    assert torch.tensor(Row([Row([1.5]), Row([2.5])])).tolist() == [[1.5], [2.5]]


@pytest.mark.parametrize("make", [_endless, lambda: {"a": _endless()}])
def test_trees_without_end(make):
    for function in (torch.utils._pytree.tree_flatten, lambda t: torch.utils._pytree.tree_map(lambda x: x, t)):
        with pytest.raises(ArgumentError, match=r"\[tree_flatten\] a .* that never ends — "
                           r"maximum recursion depth exceeded: containers do not hold themselves"):
            function(make())
    with pytest.raises(ArgumentError, match=r"\[assert_close\] containers that hold themselves — "
                       r"maximum recursion depth exceeded: nested containers end in values"):
        torch.testing.assert_close(make(), make())
    with pytest.raises(ArgumentError, match=r"\[default_collate\] a list that never ends — "
                       r"maximum recursion depth exceeded: samples do not hold themselves"):
        torch.utils.data.default_collate([make()])


def test_a_container_twice_in_a_tree_is_not_endless():
    shared = [1, 2]
    assert torch.utils._pytree.tree_leaves([shared, shared]) == [1, 2, 1, 2]
    assert torch.tensor([shared, shared]).tolist() == [[1, 2], [1, 2]]


@pytest.mark.parametrize(("call", "said"), [
    (lambda: torch.meshgrid(1.5, torch.ones(2), indexing="ij"), r"\[meshgrid\] an element of type float"),
    (lambda: torch.einsum("i,i", [1.0], torch.ones(1)), r"\[einsum\] an element of type list"),
    (lambda: torch.chain_matmul(torch.ones(2, 2), 3), r"\[chain_matmul\] an element of type int"),
    (lambda: torch.atleast_3d(3), r"\[atleast_3d\] an element of type int"),
    (lambda: torch.ones_like([1]), r"\[like\] a list — a tensor is made like another tensor"),
    (lambda: torch._foreach_add([[1]], 1), r"\[_foreach_add\] an element of type list — the list holds tensors"),
    (lambda: torch.nn.utils.rnn.pad_sequence([[1]]),
     r"\[pad_sequence\] a sequence of type list — sequences are tensors"),
])  # fmt: skip
def test_values_in_the_place_of_tensors(call, said):
    with pytest.raises(ArgumentTypeError, match=said):
        call()


def test_factories_after_an_object_ask_it():
    class Like:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, kwargs

    assert torch.zeros_like(Like())[0] == "zeros_like"
