"""Gradients of gradients behind a compiled call: the function runs again, with a graph of all its operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensocket_core.autograd.differentiate import partial_gradients
from tensocket_core.autograd.engine import outside_of_passes
from tensocket_operators.random.positions import from_positions, positions
from tensocket_plugins.contract.errors import AutogradError

from ..autograd.joint import is_live, tensors_in
from .check import World
from .intercept import alone
from .unrecorded import count_of
from .variant import Variant


class Again:
    """All that it takes to repeat a call with its graph; it keeps the arguments alive until the graph is freed.

    Args:
        variant: The graph that serves the call.
        function: The function.
        args: The arguments of the call.
        kwargs: Its arguments by name.
        tensors: The tensors among them.
    """

    __slots__ = ("_arrays", "_call", "_positions", "_tensors", "_variant", "_versions")

    def __init__(self, variant: Variant, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
                 tensors: Sequence[Any]) -> None:
        self._variant, self._call, self._tensors = variant, (function, args, kwargs), tensors
        self._versions, self._arrays = [count_of(x) for x in tensors], [x._array for x in tensors]
        self._positions = positions() if variant.draws else {}

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        """Return the gradients of the leaves as functions of those of the outputs and of the leaves.

        Raises:
            AutogradError: The call cannot be repeated, because something that it read has changed.
        """
        variant, tensors, (function, args, kwargs) = self._variant, self._tensors, self._call
        assert variant.backward is not None
        with alone(), outside_of_passes(), from_positions(self._positions):
            if not self._is_unchanged():
                raise AutogradError("backward", "create_graph=True behind a compiled function, and a change of what it "
                                    "read", "gradients of gradients call the function again, as it was",
                                    "change it after the backward pass, or call the function without compile")
            world = World(variant, tensors)
            before = world.save()
            try:
                leaves = tensors_in(function(*args, **kwargs))
            finally:
                world.restore(before)
        outputs = [x for x in leaves if id(x) not in world.named and is_live(x, world.borders)]
        pairs = [(x, gradient) for x, gradient in zip(outputs, given, strict=True) if gradient is not None]
        return partial_gradients([x for x, _ in pairs], variant.backward.leaves(tensors), [x for _, x in pairs],
                                 create_graph=True)

    def _is_unchanged(self) -> bool:
        """Whether the function would do the same again."""
        variant, (_, args, kwargs) = self._variant, self._call
        if [count_of(x) for x in self._tensors] != self._versions or any(
                x._array is not array for x, array in zip(self._tensors, self._arrays, strict=True)):
            return False
        if variant.guards.moving:
            present = variant.arguments.matches(args, kwargs) or ()
            if [id(x) for x in present] != [id(x) for x in self._tensors]:
                return False
        return variant.guards.check() or variant.guards.changed() is None
