"""Guards: comparisons of sizes that a run made, and the checks of the inputs of an exported program."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tensocket.errors import ExportError, TensocketError
from tensocket.nn import Module
from tensocket_operators import Tensor

from .sizes import Root, SizePlan, bounds_of
from .symbols import COMPARISONS, Comparison, evaluate, interval, sizes_in, text_of
from .values import TensorValue

#: Sizes that are tried one by one.
_TRIED: Final = 4096


class GuardError(TensocketError, AssertionError, RuntimeError):
    """An argument of an exported program that its graph is not right for."""


class ConstraintViolation(ExportError):
    """A program that is not the same for all sizes in the ranges of its dims.

    Attributes:
        roots: The sizes that it depends on.
    """

    def __init__(self, roots: list[Root], given: str, rule: str, advice: str) -> None:
        names = ", ".join([root.label for root in roots])
        super().__init__("export", given, f"Constraints violated ({names})! {rule}", advice)
        self.roots = roots


def holds(guard: Comparison, sizes: dict[Root, int]) -> bool:
    """Whether a comparison of sizes of inputs holds for some of them; one that cannot be computed does not."""
    try:
        left, right = (evaluate(x, lambda root: sizes[root]) for x in (guard.left, guard.right))
    except (ArithmeticError, ValueError):
        return False
    return bool(COMPARISONS[guard.name][0](left, right))


def is_needed(guard: Comparison) -> bool:
    """Whether a comparison of sizes of inputs must be checked at each call; it may narrow the range of an unnamed dim.

    Raises:
        ConstraintViolation: It does not hold for a part of the range of a dim.
    """
    roots = list(dict.fromkeys([*sizes_in_roots(guard.left), *sizes_in_roots(guard.right)]))
    if _is_certain(guard):
        return False
    if len(roots) != 1:
        return True
    root = roots[0]
    last = int(min(root.high, max(root.low + _TRIED, root.base + _TRIED)))
    wrong = {x for x in range(root.low, last + 1) if not holds(guard, {root: x})}
    if not {x for x in wrong if x > 1}:
        return bool(wrong) or root.high > last
    low = high = root.base
    while low - 1 >= root.low and low - 1 not in wrong:
        low -= 1
    while high + 1 <= last and high + 1 not in wrong:
        high += 1
    limit = root.high if high == last else high
    if root.kind != "named" and low < limit and low <= root.given <= limit:
        root.low, root.high = low, limit
        return limit > last
    raise _violation(guard, root, low, limit)


def _violation(guard: Comparison, root: Root, low: int, high: float) -> ConstraintViolation:
    given = f"a program that compares sizes{guard.place}"
    if low == high:
        return specialized([root], given)
    bounds = [f"{low} <= {root.source}" if low else "", "" if high == float("inf") else f"{root.source} <= {high}"]
    texts = [f"{name}={value}" for name, value in (("min", low), ("max", high)) if value not in (0, float("inf"))]
    return ConstraintViolation(
        [root], given, f"Not all values of {root.label} = {root.source} in the specified range {bounds_of(root)} "
        f"satisfy the generated guard {' and '.join([x for x in bounds if x])}",
        f"Suggested fixes: {root.label} = Dim('{root.label}', {', '.join(texts)})")


def specialized(roots: list[Root], given: str) -> ConstraintViolation:
    """Return the error for sizes that must be those of the arguments."""
    labels, sizes = ", ".join([root.label for root in roots]), ", ".join([str(root.base) for root in roots])
    fixes = ", ".join([f"{root.label} = {root.base}" for root in roots])
    return ConstraintViolation(
        roots, given, f"You marked {labels} as dynamic but your code specialized it to be a constant ({sizes}). If "
        "you're using Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO", f"Suggested fixes: {fixes}")


def sizes_in_roots(expression: Any) -> list[Root]:
    """Return the roots that an expression reads."""
    if isinstance(expression, Root):
        return [expression]
    return [x for part in expression[1:] for x in sizes_in_roots(part)] if isinstance(expression, tuple) else []


def _is_certain(guard: Comparison) -> bool:
    """Whether the bounds of both sides tell that a comparison holds."""
    left, right = (interval(x, lambda root: root.span) for x in (guard.left, guard.right))
    if left is None or right is None:
        return False
    return {"lt": left[1] < right[0], "le": left[1] <= right[0], "gt": left[0] > right[1], "ge": left[0] >= right[1],
            "eq": left[0] == left[1] == right[0] == right[1],
            "ne": left[1] < right[0] or left[0] > right[1]}[guard.name]


def reads_inputs_only(guard: Comparison, known: Any) -> bool:
    """Whether all sizes of a comparison are in a table."""
    return all(size in known for side in (guard.left, guard.right) for size in sizes_in(side))


class InputGuards(Module):
    """The checks of a program's inputs: forms, ranges of sizes, constants and comparisons.

    Args:
        sources: How messages call the inputs.
        expected: The value of each input that is not a tensor, and the form of each other one.
        sizes: Expressions of dynamic sizes, by the number of the input and the dimension; None in place of a dimension
            stands for an integer that is an input itself.
        roots: The sizes that others follow from.
        guards: Comparisons of sizes of inputs.

    Attributes:
        sources: How messages call the inputs.
        sizes: Expressions of dynamic sizes.
        roots: The sizes that others follow from.
        guards: Comparisons of sizes of inputs.

    Raises:
        ExportError: A root does not follow from an input.
    """

    def __init__(self, sources: list[str], expected: list[Any], sizes: dict[tuple[int, int | None], Any],
                 roots: list[Root], guards: list[Comparison]) -> None:
        super().__init__()
        self.sources, self.sizes, self.roots, self.guards = sources, sizes, roots, guards
        self._expected = expected
        #: The place of each root among the inputs, and its expression there.
        self._origins = {root: self._origin(root) for root in roots}

    def _origin(self, root: Root) -> tuple[int, int | None, Any]:
        found = [(at, k, e) for (at, k), e in self.sizes.items() if sizes_in_roots(e) == [root] and _is_affine(e)]
        if not found:
            raise ExportError("export", f"the size {root.symbol}", "sizes follow from those of inputs, as multiples "
                              "plus a constant", "export the program with a Dim for each size")
        return next((x for x in found if x[2] is root), found[0])

    @staticmethod
    def root_of(expression: Any) -> Root | None:
        """Return the only root of a size that is a multiple of it plus a constant; None for other sizes."""
        roots = sizes_in_roots(expression)
        return roots[0] if len(roots) == 1 and _is_affine(expression) else None

    def name_of(self, root: Root) -> str:
        """Return how messages call a root: the size of an input, even where it only follows from that."""
        at, k, _ = self._origins[root]
        return self._place(at, k)

    def local_of(self, root: Root) -> str:
        """Return how PyTorch's guards call a root: ``L['x'].size()[0]``, or its symbol if no input is it."""
        at, k, expression = self._origins[root]
        if expression is not root or k is None:
            return root.symbol
        return f"{local_name(self.sources[at])}.size()[{k}]"

    def _place(self, at: int, k: int | None) -> str:
        return self.sources[at] if k is None else f"{self.sources[at]}.size()[{k}]"

    def forward(self, *inputs: Any) -> None:
        """Check inputs.

        Raises:
            GuardError: One is not as the graph needs it.
        """
        for at, (value, expected) in enumerate(zip(inputs, self._expected, strict=True)):
            if isinstance(expected, TensorValue):
                self._check_tensor(at, value, expected)
            elif (at, None) in self.sizes:
                if type(value) is not int:
                    raise self._failed(at, repr(value), f"isinstance({self.sources[at]}, int)")
            elif type(value) is not type(expected) or (value != expected and repr(value) != repr(expected)):
                raise self._failed(at, repr(value), f"{self.sources[at]} == {expected!r}")
        found = {root: self._root_size(inputs, *self._origins[root]) for root in self.roots}
        for root in self.roots:
            at = self._origins[root][0]
            if found[root] < root.low:
                raise self._failed(at, _shown(inputs[at]), f"{self.name_of(root)} >= {root.low}")
            if found[root] > root.high:
                raise self._failed(at, _shown(inputs[at]), f"{self.name_of(root)} <= {root.high}")
        for (at, k), expression in self.sizes.items():
            if _size_at(inputs, at, k) != evaluate(expression, found.__getitem__):
                raise self._failed(at, _shown(inputs[at]),
                                   f"{self._place(at, k)} == {text_of(expression, self.name_of)}")
        for guard in self.guards:
            if not holds(guard, found):
                roots = sizes_in_roots(guard.left) + sizes_in_roots(guard.right)
                at = self._origins[roots[0]][0]
                raise self._failed(at, _shown(inputs[at]), comparison_text(guard, self.name_of))

    def _root_size(self, inputs: tuple[Any, ...], at: int, k: int | None, expression: Any) -> int:
        size = _size_at(inputs, at, k)
        offset = evaluate(expression, lambda root: 0)
        return int((size - offset) // (evaluate(expression, lambda root: 1) - offset))

    def _check_tensor(self, at: int, value: Any, expected: TensorValue) -> None:
        source = self.sources[at]
        if not isinstance(value, Tensor):
            raise self._failed(at, repr(value), f"isinstance({source}, torch.Tensor)")
        if value.dim() != expected.ndim:
            raise self._failed(at, _shown(value), f"len({source}.size()) == {expected.ndim}")
        if value.dtype is not expected.dtype:
            raise self._failed(at, f"{value.dtype}", f"{source}.dtype == {expected.dtype}")
        for k, size in enumerate(expected.shape):
            if (at, k) not in self.sizes and value.size(k) != size:
                raise self._failed(at, _shown(value), f"{source}.size()[{k}] == {int(size)}")

    def _failed(self, at: int, given: str, guard: str) -> GuardError:
        return GuardError("export", f"{self.sources[at]} = {given}", f"Guard failed: {guard}",
                          "pass what the program was exported for, or export it with dynamic_shapes")


def guards_of(plan: SizePlan, guards: list[Comparison]) -> InputGuards:
    """Return the checks of a captured program's inputs."""
    expected = [TensorValue.of(leaf.value, leaf.value.shape) if isinstance(leaf.value, Tensor) else leaf.value
                for leaf in plan.leaves]
    sizes: dict[tuple[int, int | None], Any] = {(at, k): e for (at, k), e in plan.sizes.items()}
    return InputGuards([leaf.source for leaf in plan.leaves], expected, sizes, list(plan.roots), list(guards))


def local_name(source: str) -> str:
    """Return how PyTorch's guards call an input: ``L['x'][0]`` for ``x[0]``."""
    name = re.match(r"\w+", source)
    assert name is not None
    return f"L[{name[0]!r}]{source[name.end():]}"


def comparison_text(guard: Comparison, name: Callable[[Any], str]) -> str:
    """Return a comparison as Python writes it, with names of sizes."""
    left, right = (text_of(x, name) for x in (guard.left, guard.right))
    return f"{left} {COMPARISONS[guard.name][1]} {right}"


def _size_at(inputs: tuple[Any, ...], at: int, k: int | None) -> int:
    return int(inputs[at] if k is None else inputs[at].size(k))


def _constant(value: int, root: Any) -> int:
    return value


def _is_affine(expression: Any) -> bool:
    """Whether an expression of one root is a positive multiple of it plus a constant."""
    try:
        zero, *others = [evaluate(expression, partial(_constant, n)) for n in range(6)]
    except (ArithmeticError, ValueError):
        return False
    step = others[0] - zero
    return type(step) is int and step > 0 and all(x - zero == step * n for n, x in enumerate(others, 1))


def _shown(value: Any) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
