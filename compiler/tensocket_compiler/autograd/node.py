"""The autograd node of a compiled call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tensocket_core.autograd.node import SEQUENCE, MultiNode, raise_freed
from tensocket_core.autograd.record import edge_of, make_outputs, version_of
from tensocket_core.dispatch.derivative import Derivative

_new = object.__new__
Again = Callable[[Sequence[Any]], list[Any]]
#: Placeholder of a derivative: the graph computes the gradients.
_OWN: Final = Derivative()


class CompiledNode(MultiNode):
    """One compiled call.

    Attributes:
        run: ``run(gradients, held)`` returns the gradients of the leaves.
        held: Arrays that the forward pass saved; None once freed.
        again: ``again(gradients)`` returns gradients of the leaves that have gradients themselves; None once freed.
    """

    __slots__ = ("again", "held", "run")

    run: Callable[[Sequence[Any], Sequence[Any]], list[Any]]
    held: Sequence[Any] | None
    again: Again | None

    def name(self) -> str:
        """Return PyTorch's name."""
        return "CompiledFunctionBackward"

    def apply(self, grad: Any, edges: tuple[Any, ...], differentiable: bool) -> list[Any]:
        """Run the backward graph, or the function again if gradients of gradients are wanted.

        Raises:
            AutogradError: The graph was freed, or a tensor was modified.
        """
        if not differentiable:
            return self.apply_plain(grad, edges)
        if self.again is None:
            raise_freed(self)
        return self.again(grad)

    def apply_plain(self, grad: Any, edges: tuple[Any, ...]) -> list[Any]:
        """Run the backward graph without recording."""
        if self.held is None or self.saved is None:
            raise_freed(self)
        self.unpack(False)
        return self.run(grad, self.held)

    def release(self) -> None:
        """Free saved values."""
        self.saved = self.held = self.again = None


def attach_node(results: Sequence[Any], leaves: Sequence[Any], saved: Sequence[Any], held: Sequence[Any],
                run: Callable[[Sequence[Any], Sequence[Any]], list[Any]], again: Again | None = None) -> None:
    """Make results the outputs of a new node.

    Args:
        results: Tensors that gradients come from.
        leaves: Tensors that gradients flow to.
        saved: Tensors whose elements the backward graph reads.
        held: Arrays that it reads.
        run: See ``CompiledNode``.
        again: See ``CompiledNode``.
    """
    node = _new(CompiledNode)
    node.derivative = _OWN
    node.edges = tuple([edge_of(x) for x in leaves])
    node.sequence = next(SEQUENCE)
    node.extras = None
    node.saved = tuple([x._cut() for x in saved]) or (None,)
    node.versions = tuple([version_of(x) for x in saved]) or (-1,)
    node.held, node.run, node.again = held, run, again
    make_outputs(node, results)
