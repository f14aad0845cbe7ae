"""Merging of runs with different sizes: arguments that differ must follow from sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tensocket.errors import ExportError
from tensocket_operators import Tensor

from .recorder import Call, Run, Slot
from .symbols import SizeOf, SymNumber, evaluate, plain_number, substitute


@dataclass(frozen=True, slots=True)
class Follows:
    """An argument that follows from sizes.

    Attributes:
        expression: How.
    """

    expression: Any


class Merger:
    """Compares runs, and merges them into the calls of the first one.

    Args:
        runs: The runs; all but the first have other sizes.
        sizes: The dynamic sizes of inputs.

    Attributes:
        calls: The calls with merged arguments.
    """

    def __init__(self, runs: list[Run], sizes: list[SizeOf]) -> None:
        self.runs = runs
        self._sizes = sizes
        self.calls: list[Call] = []

    def merge(self) -> None:
        """Merge all calls.

        Raises:
            ExportError: The runs differ in more than sizes.
        """
        first = self.runs[0]
        for calls in zip(*[run.calls for run in self.runs], strict=False):
            self.calls.append(self._call(calls))
        for run in self.runs[1:]:
            if len(run.calls) != len(first.calls):
                longer = max(run, first, key=lambda x: len(x.calls))
                raise _differs(f"{longer.calls[len(self.calls)].function.name} is called for some sizes only",
                               longer.calls[len(self.calls)].place)
            self._check_constants(run)

    def _check_constants(self, run: Run) -> None:
        """Check that the tensors which no call made are the same ones, or have the same elements."""
        first = self.runs[0]
        made = {slot.number for call in first.calls for slot in _slots(call.result)}
        for number in range(first.inputs, len(first.tensors)):
            one, other = first.tensors[number], run.tensors[number]
            same = one is other or number in made or (number in first.literals and one.dtype is other.dtype
                                                      and repr(one.tolist()) == repr(other.tolist()))
            if not same:
                raise _differs("a tensor of numbers has other elements, or is made without an operator", "")

    def _call(self, calls: tuple[Call, ...]) -> Call:
        one = calls[0]
        for other in calls[1:]:
            if other.function is not one.function or len(other.args) != len(one.args) or (
                    other.kwargs.keys() != one.kwargs.keys()):
                raise _differs(f"{name_of(one)} is called for some sizes, {name_of(other)} for others", one.place)

        def fail() -> ExportError:
            return _differs(f"{name_of(one)} gets arguments that do not follow from sizes", one.place)

        candidates = self._candidates(calls)
        args = tuple([self.value(x, candidates, fail) for x in zip(*[c.args for c in calls], strict=True)])
        kwargs = {k: self.value([c.kwargs[k] for c in calls], candidates, fail) for k in one.kwargs}
        result = self.value([c.result for c in calls], candidates, fail)
        return Call(one.function, args, kwargs, result, [], one.place, one.trace, one.writes, one.stack)

    def _candidates(self, calls: tuple[Call, ...]) -> list[tuple[Any, tuple[Any, ...]]]:
        """Return the expressions that the program gave to a call, with their values in all runs."""
        found = []
        for symbol in calls[0].symbols:
            values = self.values_of(symbol.expression)
            if values is not None:
                found.append((symbol.expression, values))
        seen = [SizeOf(x.number, k) for x in _slots([calls[0].args, calls[0].kwargs])
                for k in range(len(self.runs[0].shape(x.number)))]
        for size in dict.fromkeys([*self._sizes, *seen]):
            values = self.size_values(size)
            if values is not None and len(set(values)) > 1:
                found.append((size, values))
        return found

    # ---- values

    def size_values(self, size: SizeOf) -> tuple[int, ...] | None:
        """Return a size in all runs; None if it is not in each."""
        shapes = [run.shape(size.tensor) if size.tensor < len(run.tensors) else () for run in self.runs]
        return tuple([shape[size.dim] for shape in shapes]) if all(len(x) > size.dim for x in shapes) else None

    def values_of(self, expression: Any) -> tuple[Any, ...] | None:
        """Return the values of an expression in all runs; None if it has none."""
        try:
            return tuple([evaluate(expression, partial(_size_in, run)) for run in self.runs])
        except (ArithmeticError, ValueError, IndexError):
            return None

    def simplified(self, expression: Any) -> Any:
        """Return an expression with numbers in place of sizes that are the same in all runs.

        Sizes that are equal in all runs stay apart: that of ``x[:10]`` is the size of ``x`` only up to 10.
        """
        def replace(size: Any) -> Any:
            values = self.size_values(size)
            return values[0] if values is not None and len(set(values)) == 1 else size

        return substitute(expression, replace)

    def result(self, values: list[Any], place: str) -> Any:
        """Return a leaf of the result, merged."""
        symbols = [(x.expression, self.values_of(x.expression)) for x in values[:1] if isinstance(x, SymNumber)]
        sizes = [(size, self.size_values(size)) for size in self._sizes]
        return self.value([plain_number(x) for x in values], [(e, v) for e, v in [*symbols, *sizes] if v is not None],
                          lambda: _differs("its result has a number that does not follow from sizes", place))

    def value(self, values: Any, candidates: list[Any], fail: Callable[[], ExportError]) -> Any:
        """Return an argument, merged.

        Raises:
            ExportError: It differs, and does not follow from sizes.
        """
        one, *rest = values
        if isinstance(one, Slot):
            if any(x != one for x in rest):
                raise fail()
            return one
        if isinstance(one, (tuple, list)):
            if any(type(x) is not type(one) or len(x) != len(one) for x in rest):
                raise fail()
            items = [self.value(x, candidates, fail) for x in zip(*values, strict=True)]
            return items if isinstance(one, list) else tuple(items)
        if isinstance(one, dict):
            if any(type(x) is not dict or x.keys() != one.keys() for x in rest):
                raise fail()
            return {k: self.value([x[k] for x in values], candidates, fail) for k in one}
        if isinstance(one, slice):
            if any(type(x) is not slice for x in rest):
                raise fail()
            return slice(*[self.value([getattr(x, k) for x in values], candidates, fail)
                           for k in ("start", "stop", "step")])
        return self._constant(one, rest, candidates, fail)

    def _constant(self, one: Any, rest: list[Any], candidates: list[Any], fail: Callable[[], ExportError]) -> Any:
        if isinstance(one, Tensor) or any(isinstance(x, Tensor) for x in rest):
            raise fail()
        if all(type(x) is type(one) and (x is one or x == one or repr(x) == repr(one)) for x in rest):
            return one
        numbers = (one, *rest)
        if not all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in numbers):
            raise fail()
        for expression, values in candidates:
            if values == numbers and all(isinstance(v, int) == isinstance(n, int)
                                         for v, n in zip(values, numbers, strict=True)):
                return Follows(self.simplified(expression))
        found = next(_fitted(numbers, candidates), None) if len(self.runs) > 2 else None
        if found is None:
            raise fail()
        return Follows(self.simplified(found))


def _fitted(numbers: tuple[Any, ...], candidates: list[Any]) -> Iterator[Any]:
    """Yield simple expressions of known sizes that give an integer in all runs: affine forms, quotients, products."""
    known = [(e, v) for e, v in candidates if len(set(v)) == len(v) and all(isinstance(x, int) for x in v)]
    if len(set(numbers)) < len(numbers) or not all(isinstance(x, int) for x in numbers):
        return
    for expression, values in known:
        factor, left = divmod(numbers[1] - numbers[0], values[1] - values[0])
        offset = numbers[0] - factor * values[0]
        if not left and all(factor * v + offset == n for v, n in zip(values, numbers, strict=True)):
            yield ("add", ("mul", expression, factor), offset)
    for at, (one, values) in enumerate(known):
        for other, others in known[at:]:
            products = [a * b for a, b in zip(values, others, strict=True)]
            if products[0] and numbers[0] % products[0] == 0:
                factor = numbers[0] // products[0]
                if all(factor * p == n for p, n in zip(products, numbers, strict=True)):
                    yield ("mul", ("mul", one, other), factor)


def _size_in(run: Run, size: SizeOf) -> int:
    return run.shape(size.tensor)[size.dim]


def _slots(value: Any) -> Iterator[Slot]:
    if isinstance(value, Slot):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _slots(item)
    elif isinstance(value, dict):
        yield from _slots(list(value.values()))


def name_of(call: Call) -> str:
    """Return the name of a call's function."""
    return str(getattr(call.function, "name", getattr(call.function, "__name__", call.function)))


def _differs(what: str, place: str) -> ExportError:
    return ExportError("export", f"a program that depends on sizes{place}", f"with other dynamic sizes, {what}, but "
                       "the graph must be the same for all sizes in their ranges",
                       "compute with x.shape, or leave the size out of dynamic_shapes")
