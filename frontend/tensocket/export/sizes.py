"""The sizes of a capture: which of the inputs' sizes change together, and what they are in each run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tensocket.errors import ExportError

from .dynamic_shapes import Dim, Leaf, _DerivedDim
from .symbols import evaluate, text_of

#: Sizes beyond the given one among which those of further runs are.
_REACH = 40


@dataclass(eq=False)
class Root:
    """A size that others follow from.

    Attributes:
        symbol: Its name in listings.
        label: Its name in messages.
        source: The input that has it.
        kind: ``named``, ``AUTO`` or ``DYNAMIC``.
        given: The size in the arguments of ``export``.
        low: The smallest size.
        high: The largest size.
        unified: Whether other sizes of the arguments are this one, too.
    """

    symbol: str
    label: str
    source: str
    kind: str
    given: int
    low: int
    high: float
    unified: bool = False

    def __repr__(self) -> str:
        return self.symbol

    @property
    def span(self) -> tuple[float, float]:
        """The smallest and the largest size."""
        return self.low, self.high

    def in_range(self, size: int) -> bool:
        """Whether a size is in the range."""
        return self.low <= size <= self.high

    @property
    def base(self) -> int:
        """The size of the first run: the given one, or another one in place of 0 and 1, which behave apart."""
        if self.given > 1 or self.high < 2:
            return self.given
        return max(2, self.low)

    def others(self) -> list[int]:
        """Return sizes of further runs, nearest first; 0 and 1 are among them only if no others are in the range."""
        near = [*range(self.base + 1, self.base + _REACH), *range(self.base - 1, 1, -1)]
        found = [x for x in near if self.in_range(x)]
        return found or [x for x in (1, 0) if self.in_range(x) and x != self.base]


class SizePlan:
    """The dynamic sizes of a graph's inputs.

    Args:
        leaves: The inputs.

    Attributes:
        roots: The sizes that others follow from.
        sizes: The expression of each dynamic size in those of roots, by the number of the input and the dimension.

    Raises:
        ExportError: The given sizes contradict each other, or the ranges.
    """

    def __init__(self, leaves: list[Leaf]) -> None:
        self.leaves = leaves
        self.roots: list[Root] = []
        self.sizes: dict[tuple[int, int], Any] = {}
        self._used: set[int] = set()
        self._named: dict[str, tuple[Dim, Root]] = {}
        for number, leaf in enumerate(leaves):
            for k, dim in enumerate(leaf.dims):
                if dim is not None:
                    self.sizes[number, k] = self._expression(leaf, k, dim)

    def _expression(self, leaf: Leaf, k: int, dim: Any) -> Any:
        size = int(leaf.value.size(k))
        if not isinstance(dim, Dim):
            low, high = dim.min or 0, float("inf") if dim.max is None else dim.max
            return self._add(leaf, k, dim.kind, f"{leaf.local()}.size()[{k}]", size, low, high)
        given = dim.root_size(size) if isinstance(dim, _DerivedDim) else size
        root = dim.root
        found = self._named.get(root.__name__)
        if given is None:
            raise _refused(f"a size of {size} for {leaf.source}.size()[{k}] = {dim.__name__}",
                           f"no integer {root.__name__} gives it", "pass a tensor of another size")
        if found is None:
            made = self._add(leaf, k, "named", root.__name__, given, root.min, root.max)
            found = self._named[root.__name__] = root, made
        if found[0] is not root and (found[0].min, found[0].max) != (root.min, root.max):
            raise _refused(f"two dims {root.__name__!r}", f"Found different definitions {found[0]!r} and {root!r} for "
                           "the same symbolic dimension", "use one of them in both places")
        if found[1].given != given:
            raise _refused(f"sizes with {root.__name__}={found[1].given} and {root.__name__}={given}",
                           f"Constraints violated ({root.__name__})! The values of {root.__name__} = "
                           f"{found[1].source} and of {leaf.local()}.size()[{k}] must fit together",
                           "pass arguments whose sizes fit, or use two dims")
        return dim.expression(found[1])

    def _add(self, leaf: Leaf, k: int, kind: str, label: str, given: int, low: int, high: float) -> Root:
        source = f"{leaf.local()}.size()[{k}]"
        number = int(hashlib.sha256(source.encode()).hexdigest(), 16) % 100
        while number in self._used:
            number += 1
        self._used.add(number)
        root = Root(f"s{number}", label, source, kind, given, low, high)
        if not root.in_range(given):
            raise _refused(f"a size of {given} for {label}", f"Constraints violated ({label})! the range is "
                           f"{bounds_of(root)}", "pass a tensor of another size, or widen the range")
        self.roots.append(root)
        return root

    # ---- AUTO

    def settle(self, roots: list[Root]) -> None:
        """Let sizes without names depend on each other if they are equal in the arguments, else be those."""
        left = list(roots)
        while left:
            root = left.pop(0)
            same = [x for x in left if x.given == root.given and not root.unified]
            left = [x for x in left if x not in same]
            if same:
                self.unify([root, *same])
            else:
                self.fix([root])

    def fix(self, roots: Iterable[Root]) -> None:
        """Let sizes be those of the arguments."""
        gone = list(roots)
        for place, expression in list(self.sizes.items()):
            if any(x is expression for x in gone):
                del self.sizes[place]
        self.roots = [x for x in self.roots if not any(x is y for y in gone)]

    def unify(self, roots: list[Root]) -> None:
        """Let sizes be the first one of some."""
        first, *rest = roots
        first.unified = True
        first.low, first.high = max(x.low for x in roots), min(x.high for x in roots)
        for place, expression in list(self.sizes.items()):
            if any(x is expression for x in rest):
                self.sizes[place] = first
        self.roots = [x for x in self.roots if not any(x is y for y in rest)]

    # ---- runs

    def base(self) -> dict[Root, int]:
        """Return the sizes of the first run."""
        return {root: root.base for root in self.roots}

    def others(self) -> list[dict[Root, int]]:
        """Return the sizes of two further runs, where those of roots with equal sizes differ; none without roots."""
        if not self.roots:
            return []
        found: list[dict[Root, int]] = [{}, {}]
        for number, root in enumerate(self.roots):
            sizes = root.others() or [root.base]
            for run, at in zip(found, (number, 2 * number + 2), strict=True):
                run[root] = sizes[min(at, len(sizes) - 1)]
        return found

    def shape(self, number: int, sizes: dict[Root, int]) -> list[int]:
        """Return the shape of an input in a run."""
        shape = list(getattr(self.leaves[number].value, "shape", ()))
        for (at, k), expression in self.sizes.items():
            if at == number:
                shape[k] = evaluate(expression, lambda root: sizes[root])
        return shape

    def text(self, expression: Any) -> str:
        """Return an expression as listings write it."""
        return text_of(expression, lambda root: root.symbol)


def bounds_of(root: Root) -> str:
    """Return the range of a size as messages write it."""
    low = f"{root.low} <= " if root.low else ""
    return f"{low}{root.label}" + ("" if root.high == float("inf") else f" <= {root.high}")


def _refused(given: str, rule: str, advice: str) -> ExportError:
    return ExportError("export", given, rule, advice)
