"""Checked calls: a graph and the function run one after the other on the same memory, and are compared.

The graph runs first; then everything that it may have written is as before, and the function runs. So the program sees
the effects of one run, that of the function, which is right in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensocket_core.autograd.differentiate import partial_gradients
from tensocket_core.dispatch.modes import thread_state
from tensocket_core.keys import AUTOGRAD
from tensocket_core.pytree import tree_flatten
from tensocket_core.tensor import Tensor
from tensocket_operators.random.positions import from_positions, positions, restore_positions
from tensocket_plugins.contract.dtypes import float64
from tensocket_plugins.contract.errors import TensocketError

from ..autograd.joint import borders_of, is_live
from ..execute.tensors import tensor
from .compare import Difference, Values, find_difference, tolerance_of
from .intercept import alone
from .variant import Variant


@dataclass(frozen=True, slots=True)
class Checked:
    """A checked call.

    Attributes:
        result: The function's result; None if it raised.
        error: The exception that it raised.
        difference: The first value that the graph computed otherwise; None if there is none.
    """

    result: Any
    error: Exception | None
    difference: Difference | None


@dataclass(frozen=True, slots=True)
class State:
    """Everything that a call may write: copies of memory, versions, generators, and attributes."""

    copies: list[Any]
    versions: list[tuple[Any, int]]
    uncounted: list[Any]
    positions: Any
    assign: list[Callable[[], None]]


class World:
    """The memory and the attributes that a graph and its function may write.

    Args:
        variant: The graph.
        tensors: The tensor arguments of the call.
    """

    def __init__(self, variant: Variant, tensors: Sequence[Any]) -> None:
        self.variant, self.tensors = variant, tensors
        named = [*zip(variant.arguments.tensor_paths, tensors, strict=True), *variant.guards.tensors]
        #: By identity, the name and the tensor.
        self.named = {id(x): (name, x) for name, x in reversed(named)}
        self.borders = borders_of([x for _, x in named])
        held = [place.read() for place in variant.places]
        hidden = {id(x): x for x in held if isinstance(x, Tensor)}
        self.memory = [x._array for x in {**{key: x for key, (_, x) in self.named.items()}, **hidden}.values()]
        self.views = [tensor(x._array, x._key & ~AUTOGRAD)
                      for x in {**{key: x for key, (_, x) in self.named.items()}, **hidden}.values()]

    def save(self) -> State:
        """Return the present state."""
        counters = [(x, x._version_counter) for _, x in self.named.values()]
        return State([x.clone() for x in self.views], [(x, x[0]) for _, x in counters if type(x) is list],
                     [x for x, counter in counters if counter is None], positions(),
                     [place.save() for place in self.variant.places])

    def restore(self, state: State) -> None:
        """Make everything as it was; memory that has not changed is not written."""
        for x, saved in zip(self.views, state.copies, strict=True):
            if not _same_bits(x, saved):
                x.copy_(saved)
        for x in state.uncounted:
            x._version_counter = None
        for counter, version in state.versions:
            if counter[0] != version:
                counter[0] = version
        restore_positions(state.positions)
        for assign in state.assign:
            assign()

    def change(self, before: State, size: float) -> None:
        """Change all floating-point numbers, relatively, to both sides."""
        for x, saved in zip(self.views, before.copies, strict=True):
            host = not isinstance(x._array, np.ndarray) or x._array.flags.writeable
            if x.dtype.category >= 2 and host and 0 not in x._array.strides:
                x.copy_(saved * (1 + size * _waves(saved).to(saved.dtype)))

    def values(self, result: Any, before: State) -> Values:
        """Return everything that a run computed, from its result and from what it wrote."""
        drawn = {generator: position for generator, position in positions().items() if generator in before.positions}
        found: Values = {"the random number generators": drawn}
        leaves, structure = tree_flatten(result)
        found["the structure of the result"] = structure
        live = []
        for k, x in enumerate(leaves):
            name = "the result" if structure.is_leaf() else f"result {k}"
            if not isinstance(x, Tensor):
                found[name] = x
            elif id(x) in self.named:
                found[name] = f"the tensor {self.named[id(x)][0]}"
            else:
                self._add(found, name, x)
                live += [x] if is_live(x, self.borders) else []
        for place in self.variant.places:
            if place.is_memory:
                continue  # of a named tensor
            x = place.read()
            self._add(found, place.path, x) if isinstance(x, Tensor) else found.update({place.path: x})
            live += [x] if isinstance(x, Tensor) and id(x) not in self.named and is_live(x, self.borders) else []
        versions = {id(counter): version for counter, version in before.versions}
        written = {id(array): saved for array, saved in zip(self.memory, before.copies, strict=True)}
        for name, x in self.named.values():
            counter = x._version_counter
            found[f"whether {name} was modified"] = type(counter) is list and (
                counter[0] != versions.get(id(counter), 0))
            view, saved = tensor(x._array, x._key & ~AUTOGRAD), written.get(id(x._array))
            found[name] = saved if saved is not None and _same_bits(view, saved) else view.clone()
            found[f"{name}.stride()"] = tuple(view.stride())
        return found | self._gradients(live)

    def compare(self, graph: Values, result: Any, before: State, run: Callable[[], Any]) -> Difference | None:
        """Return the first difference between the values of a graph and those of the function, which has run.

        Args:
            graph: The values of the graph.
            result: The function's result.
            before: The state before both.
            run: Runs the function again; everything is as now afterwards.
        """
        tolerance = tolerance_of(self.variant.recording)

        def repeat() -> Values:
            after = self.save()
            self.restore(before)
            self.change(before, tolerance)
            try:
                with suppress(TensocketError):
                    return self.values(run(), before)
                return {}
            finally:
                self.restore(after)

        return find_difference(graph, self.values(result, before), tolerance, repeat)

    @staticmethod
    def _add(found: Values, name: str, x: Any) -> None:
        found[name] = tensor(x._array, x._key & ~AUTOGRAD).clone()
        found[f"{name}.requires_grad"] = bool(x._key & AUTOGRAD)
        found[f"{name}.stride()"] = tuple(x.stride())

    def _gradients(self, live: Sequence[Any]) -> Values:
        """Return the gradients that flow through results to arguments and captured tensors; the graph stays."""
        backward = self.variant.backward
        if backward is None or not live:
            return {}
        leaves = backward.leaves(self.tensors)
        with from_positions(positions()):
            found = partial_gradients(live, leaves, [_waves(x).to(x.dtype) for x in live])
        names = [f"the gradient of {self.named[id(x)][0]}" for x in leaves]
        return {name: None if x is None else x.detach() for name, x in zip(names, found, strict=True)}


def check_call(variant: Variant, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
               tensors: Sequence[Any]) -> Checked:
    """Run a graph, undo it, run the function, and compare.

    Args:
        variant: The graph, which fits.
        function: The function.
        args: Its arguments.
        kwargs: Its arguments by name.
        tensors: The tensors among them.
    """
    with alone():
        try:
            world = World(variant, tensors)
            before = world.save()
        except Exception as error:  # the program goes on with what the function computes
            return Checked(function(*args, **kwargs), None, _failure("the comparison", error))
        graph: Values | Difference
        try:
            graph = world.values(variant(tensors, completely=False), before)
        except Exception as error:
            graph = _failure("the graph", error)
        finally:
            world.restore(before)
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            found = _failure("the function", error)
            same = isinstance(graph, Difference) and graph.text == found.text
            return Checked(None, error, None if variant.raises and same else found)
        if isinstance(graph, Difference):
            return Checked(result, None, graph)
        try:
            return Checked(result, None, world.compare(graph, result, before, lambda: function(*args, **kwargs)))
        except Exception as error:
            return Checked(result, None, _failure("the comparison", error))


def _failure(name: str, error: Exception) -> Difference:
    return Difference(name, f"raises {type(error).__name__}: {error}")


def checked_bytes(variant: Variant, tensors: Sequence[Any]) -> int:
    """Return the size of the memory that a checked call copies."""
    return sum(x._array.nbytes for x in (*tensors, *[x for _, x in variant.guards.tensors]))


def _same_bits(x: Any, y: Any) -> bool:
    """Whether two tensors of the same form have the same bits."""
    return bool(np.array_equal(_bits(x), _bits(y)))


def _bits(x: Any) -> Any:
    return np.ascontiguousarray(x.cpu()._array).reshape(-1).view(np.uint8)


def _waves(x: Any) -> Any:
    """Return numbers between -1 and 1 in the form of a tensor, which do not repeat."""
    with thread_state(exclude=AUTOGRAD):
        return x.detach().new_ones(tuple(x.shape), dtype=float64).reshape(-1).cumsum(0).cos().reshape(tuple(x.shape))
