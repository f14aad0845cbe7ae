"""The autograd graph: nodes and edges.

An edge is the target of a gradient: a node, an ``Output`` for outputs after the first one, or a leaf tensor itself.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn

from tensocket_plugins.contract.errors import ArgumentTypeError, AutogradError

from ..dispatch.derivative import RESULT, RESULTS
from ..dispatch.modes import STATE, set_grad_enabled
from ..keys import AUTOGRAD, WRAPPER
from .detached import AfterDetach, DetachedCounter
from .hooks import RemovableHandle, extras_of
from .inspection import PACKED as PACKED
from .inspection import Inspected, named

if TYPE_CHECKING:
    from .hooks import Extras

#: A consumer always has a higher number than its inputs, so the engine needs no dependency pass.
SEQUENCE: Final = itertools.count(1)

#: Saved tensors with these bits need treatment before use.
_PARTS: Final = AUTOGRAD | WRAPPER


class Node(Inspected):
    """One recorded operation.

    Attributes:
        derivative: The rule.
        edges: Target of the gradient of each tensor argument, or None.
        sequence: Creation number.
        shape: Shape of the result; gradients are summed to it.
        options: Key bits of the result's dtype and device; gradients are converted to them.
        saved: Saved arguments and result, None once freed.
        versions: Version of each saved tensor, -1 for other values, ``PACKED`` for values that a hook packed.
        extras: Rare attributes such as hooks; None if there are none.
    """

    __slots__ = ("__weakref__", "derivative", "edges", "extras", "options", "saved", "sequence", "shape", "versions")

    #: Whether the node runs even if no gradient arrives.
    runs_without: ClassVar[bool] = False
    derivative: Any
    edges: tuple[Any, ...]
    extras: Extras | None
    options: int
    saved: tuple[Any, ...] | None
    sequence: int
    shape: tuple[int, ...]
    versions: tuple[int, ...]

    def __repr__(self) -> str:
        return f"<{type(named(self)).__name__} object at {id(self):#x}>"

    def name(self) -> str:
        """Return the name of the operation, for example ``AddBackward0``."""
        return str(self.derivative.name)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The targets of this node's gradients as PyTorch's pairs of node and output index."""
        return tuple([gradient_place(edge) for edge in self.edges])

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for users."""
        extras = extras_of(*self._extras_place())
        if extras.metadata is None:
            extras.metadata = {}
        return extras.metadata

    @property
    def requires_grad(self) -> bool:
        """True: only operations with gradients are recorded."""
        return True

    def _extras_place(self) -> tuple[Any, str]:
        return self, "extras"

    def _sequence_nr(self) -> int:
        return self.sequence

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after this node runs; a returned tuple replaces ``grad_inputs``."""
        return extras_of(*self._extras_place()).add("after", hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before this node runs; a returned tuple replaces ``grad_outputs``."""
        return extras_of(*self._extras_place()).add("before", hook)

    # ------------------------------------------------------------------------------------------ saved values

    def unpack(self, differentiable: bool) -> tuple[Any, ...]:
        """Return the saved values, checked and unpacked.

        Args:
            differentiable: Whether to record, which makes saved results parts of the graph.

        Raises:
            AutogradError: An earlier backward freed them, or an in-place change modified one.
        """
        saved = self.saved
        if saved is None:
            raise_freed(self)
        packed = False
        for value, version in zip(saved, self.versions, strict=True):
            if version >= 0:
                counter = value._version_counter
                if (0 if counter is None else counter[0]) != version:
                    raise_modified(self, value, version)
            elif version == PACKED:
                packed = True
        if packed:
            saved = tuple([value.unpack(self) if version == PACKED else value
                           for value, version in zip(saved, self.versions, strict=True)])
        return self._with_results(saved) if differentiable else saved

    def _with_results(self, saved: tuple[Any, ...]) -> tuple[Any, ...]:
        positions = self.derivative.saved_positions
        if RESULT not in positions and (not positions or min(positions) > RESULTS):
            return saved
        return tuple([self.attached(value, max(0, RESULTS - position))
                      if value is not None and (position == RESULT or position <= RESULTS) else value
                      for position, value in zip(positions, saved, strict=True)])

    def attached(self, result: Any, index: int) -> Any:
        """Return a saved result as an output of this node, for gradients of gradients."""
        alias = result._cut()
        alias._grad_fn = Output(self, index) if index else self
        alias._key |= AUTOGRAD
        return alias

    # ------------------------------------------------------------------------------------------ running

    def apply(self, grad: Any, edges: tuple[Any, ...], differentiable: bool) -> list[Any]:
        """Return the gradients of the tensor arguments, one per edge (None where not needed).

        Args:
            grad: Gradient of the result; a tuple for several results.
            edges: ``self.edges``, with None for unwanted gradients.
            differentiable: Whether the computation is recorded.
        """
        derivative = self.derivative
        saved = self.saved
        if saved or saved is None:
            saved = self.unpack(differentiable)
        if derivative.joint is not None:
            return list(derivative.joint(grad, *[saved[k] for k in derivative.picks[0]]))
        return [None if edge is None or function is None else function(grad, *[saved[k] for k in pick])
                for edge, function, pick in zip(edges, derivative.functions, derivative.picks, strict=True)]

    def apply_plain(self, grad: Any, edges: tuple[Any, ...]) -> list[Any]:
        """Run ``apply`` without recording: saved tensors are detached from the graph."""
        derivative, saved = self.derivative, self.saved
        if saved:
            cut: Any = None
            for k, version in enumerate(self.versions):
                if version >= 0:
                    value = saved[k]
                    counter = value._version_counter
                    if (0 if counter is None else counter[0]) != version:
                        raise_modified(self, value, version)
                    if value._key & _PARTS:
                        if value._key & WRAPPER:
                            return self._apply_unrecorded(grad, edges)
                        if cut is None:
                            cut = list(saved)
                        cut[k] = value._cut()
                elif version == PACKED:
                    return self._apply_unrecorded(grad, edges)
            if cut is not None:
                saved = cut
        elif saved is None:
            raise_freed(self)
        rules = derivative.quick or derivative.make_quick()
        if derivative.joint is not None:
            return list(rules[0](grad, *[saved[k] for k in derivative.picks[0]]))
        if len(edges) == 1:
            return [rules[0](grad, *[saved[k] for k in derivative.picks[0]])]
        return [None if edge is None or rule is None else rule(grad, *[saved[k] for k in pick])
                for edge, rule, pick in zip(edges, rules, derivative.picks, strict=True)]

    def _apply_unrecorded(self, grad: Any, edges: tuple[Any, ...]) -> list[Any]:
        with set_grad_enabled(False):
            return self.apply(grad, edges, False)

    def release(self) -> None:
        """Free saved values."""
        if self.saved:
            self.saved = None

    def __call__(self, *grads: Any) -> Any:
        """Return the gradients of the inputs from those of the outputs, outside of an engine's pass.

        Raises:
            ArgumentTypeError: The number of gradients is not that of outputs.
        """
        several = isinstance(self, MultiNode)
        count = len(self.outputs) if several else 1
        if len(grads) != count:
            raise ArgumentTypeError(self.name(), f"expected {count} arguments, got {len(grads)} instead",
                                    "a node is given a gradient for each of its outputs", "pass as many, or None")
        given = grads if several else grads[0]
        results = tuple(self.apply(given, self.edges, STATE.grad_enabled))
        return results[0] if len(results) == 1 else results


class MultiNode(Node):
    """An operation with several results.

    Attributes:
        outputs: Shape and options of each result, as in ``Node``; None for results without gradients.
    """

    __slots__ = ("outputs",)

    outputs: tuple[tuple[tuple[int, ...], int] | None, ...]


class Output:
    """An edge to an output after the first one; also the ``_grad_fn`` of its tensor."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index


class AccumulateGrad(Node):
    """Node of a leaf in ``next_functions``; created on first access.

    Attributes:
        variable: The leaf.
    """

    __slots__ = ("variable",)

    variable: Any

    def name(self) -> str:
        """Return PyTorch's name."""
        return "torch::autograd::AccumulateGrad"

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """Empty: gradients end here."""
        return ()

    def _extras_place(self) -> tuple[Any, str]:
        # Stored with the leaf, so that hooks outlive this object.
        return self.variable, "_extras"

    def _sequence_nr(self) -> int:
        return (1 << 64) - 1

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"AccumulateGrad has no attribute {name!r}", name=name, obj=self)


def gradient_place(edge: Any) -> tuple[Any, int]:
    """Return the node and output index of an edge; for leaves their ``AccumulateGrad``."""
    if edge is None:
        return None, 0
    if isinstance(edge, Node):
        return named(edge), 0
    if type(edge) is Output:
        return named(edge.node), edge.index
    known = edge._accumulator
    node = None if known is None else known()
    if node is None:
        node = AccumulateGrad()
        node.variable = edge
        edge._accumulator = weakref.ref(node)
    return node, 0


def raise_freed(node: Node) -> NoReturn:
    """Raise the error of a second backward.

    Raises:
        AutogradError: Always.
    """
    raise AutogradError("backward", f"{node.name()} a second time",
                        "the graph's saved tensors were freed by the first backward",
                        "Specify retain_graph=True in the first backward")


def raise_modified(node: Node, value: Any, version: int) -> NoReturn:
    """Raise the error of a saved tensor that was modified.

    Raises:
        AutogradError: Always.
    """
    if type(value._version_counter) is DetachedCounter and not isinstance(version, AfterDetach) and (
            value._version == version):
        raise AutogradError(
            "backward", f"Trying to use a saved tensor that has been detached in-place, by {node.name()}",
            "a tensor that is needed for the gradient keeps its history", "use .detach() instead of .detach_()")
    raise AutogradError(
        "backward",
        f"a tensor of shape {list(value.shape)} saved by {node.name()}, at version {value._version} "
        f"instead of {version}",
        "one of the variables needed for gradient computation has been modified by an inplace operation",
        "clone it before modifying it",
    )
