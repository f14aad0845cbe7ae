"""The autograd graph: nodes, edges and derivative rules."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

from tensocket_plugins.contract.errors import AutogradError

from ..dispatch.keys import AUTOGRAD
from ..dispatch.modes import STATE
from ..dispatch.schema import Schema

#: Consumers always get a higher number than what they consume, so that the engine needs no dependency pass.
SEQUENCE: Final = itertools.count(1)

#: Position of the result among saved values.
RESULT: Final = -1
#: Position that stands for the shape of argument 0; that of argument k is ``SHAPE - k``.
SHAPE: Final = -2
#: Stands for a value that no gradient needs, because its argument requires none.
UNUSED: Final = -1000


class Derivative:
    """How gradients flow back through an operator.

    One function per differentiable argument. Its parameter names say what it uses, and only that is saved: ``grad``
    (the gradient of the result), ``result``, arguments of the operator by name, and ``NAME_shape`` for the shape of an
    argument that is not needed itself. A function returns the argument's gradient;
    where the argument was broadcast, the engine sums. ``joint`` is one function that returns the gradients of all
    tensor arguments as a tuple, for operators on lists.

    >>> Derivative(input=lambda grad, other: grad * other, other=lambda grad, input: grad * input).arguments
    ('input', 'other')
    """

    __slots__ = (
        "_plans",
        "arguments",
        "functions",
        "joint",
        "name",
        "parameters",
        "picks",
        "saved_positions",
        "tensors",
    )

    def __init__(self, joint: Callable[..., Any] | None = None, **functions: Callable[..., Any]) -> None:
        self.joint = joint
        self.arguments = tuple(functions)
        self.functions: tuple[Callable[..., Any] | None, ...] = tuple(functions.values())
        self.picks: tuple[tuple[int, ...], ...] = ()
        self.saved_positions: tuple[int, ...] = ()
        self.tensors: tuple[int, ...] = ()
        self.parameters = 0
        self._plans: dict[tuple[bool, ...], tuple[int, ...]] = {}
        self.name = ""

    def bind(self, schema: Schema) -> None:
        """Resolve names against the operator's schema: which arguments to save and what each function is given."""
        self.name = schema.name.strip("_").title().replace("_", "") + "Backward0"
        names = schema.names
        self.parameters = len(names)
        self.tensors = schema.tensors
        by_name = dict(zip(self.arguments, self.functions, strict=True))
        if self.joint is None:
            tensors = [names[k] for k in schema.tensors]
            unknown = set(by_name) - set(tensors)
            if unknown:
                raise ValueError(f"derivative of {schema.name} for unknown arguments {sorted(unknown)}")
            self.functions = tuple(by_name.get(name) for name in tensors)
        else:
            self.functions = (self.joint,)
        used = [_parameters(f)[1:] if f is not None else () for f in self.functions]
        positions = sorted({_position(name, names) for wanted in used for name in wanted})
        self.saved_positions = tuple(positions)
        self.picks = tuple(tuple(positions.index(_position(name, names)) for name in wanted) for wanted in used)


    def needed(self, edges: tuple[Any, ...]) -> tuple[int, ...]:
        """``saved_positions`` with ``UNUSED`` for what only arguments without an edge need."""
        wanted = tuple([edge is not None for edge in edges])
        plan = self._plans.get(wanted)
        if plan is None:
            used = {k for present, pick in zip(wanted, self.picks, strict=True) if present for k in pick}
            plan = self._plans[wanted] = tuple(p if k in used else UNUSED for k, p in enumerate(self.saved_positions))
        return plan


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount]


def _position(name: str, names: tuple[str, ...]) -> int:
    """Position of a saved value: an argument's index, ``RESULT``, or for ``x_shape`` ``SHAPE - index``."""
    if name == "result":
        return RESULT
    if name in names:
        return names.index(name)
    return SHAPE - names.index(name.removesuffix("_shape"))


class Node:
    """One recorded operation.

    Attributes:
        derivative: The rule.
        edges: For each tensor argument the node that made it, the leaf tensor itself, or None.
        sequence: Creation number.
        shape: Shape of the result; gradients are summed to it.
        options: Key bits of the result's dtype and device; gradients are converted to them.
        saved: Saved arguments and result, None once freed.
        versions: Version of each saved tensor, -1 for other values.
        hooks: Functions on the gradient of the result, None while there are none.
    """

    __slots__ = ("__weakref__", "derivative", "edges", "hooks", "options", "saved", "sequence", "shape", "versions")

    derivative: Any
    edges: tuple[Any, ...]
    sequence: int
    shape: tuple[int, ...]
    options: int
    saved: tuple[Any, ...] | None
    versions: tuple[int, ...]
    hooks: list[Callable[[Any], Any]] | None

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    def name(self) -> str:
        """``AddBackward0``."""
        return str(self.derivative.name)

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes that this one passes gradients to, as PyTorch's pairs; leaves show as themselves."""
        return tuple((edge, 0) for edge in self.edges)

    def unpack(self) -> tuple[Any, ...]:
        """Saved values, checked.

        Raises:
            AutogradError: They were freed by an earlier backward, or modified in place since.
        """
        saved = self.saved
        if saved is None:
            raise AutogradError(
                "backward",
                f"{self.name()} a second time",
                "the graph's saved tensors were freed by the first backward",
                "pass retain_graph=True to the first backward",
            )
        for value, version in zip(saved, self.versions, strict=True):
            if version >= 0:
                current = 0 if value._version_counter is None else value._version_counter[0]
                if current != version:
                    raise AutogradError(
                        "backward",
                        f"a tensor of shape {list(value.shape)} saved by {self.name()}, at version {current} "
                        f"instead of {version}",
                        "a tensor needed for the gradient was modified by an in-place operation",
                        "clone it before modifying it",
                    )
        if STATE.grad_enabled and RESULT in self.derivative.saved_positions:
            return tuple(
                [
                    self._attached(value) if position == RESULT and value is not None else value
                    for position, value in zip(self.derivative.saved_positions, saved, strict=True)
                ]
            )
        return saved

    def _attached(self, result: Any) -> Any:
        """The saved result as an output of this node, for gradients of gradients."""
        alias = result.detach()
        alias._grad_fn = self
        alias._key |= AUTOGRAD
        return alias

    def apply(self, grad: Any) -> Any:
        """Gradients of the tensor arguments, one per edge (None where not needed)."""
        derivative = self.derivative
        saved = self.unpack()
        if derivative.joint is not None:
            return derivative.joint(grad, *[saved[k] for k in derivative.picks[0]])
        return [None if edge is None or function is None else function(grad, *[saved[k] for k in pick])
                for edge, function, pick in zip(self.edges, derivative.functions, derivative.picks, strict=True)]
