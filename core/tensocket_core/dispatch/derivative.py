"""Derivatives: the values that an operator saves for its gradients, and the arguments of each gradient function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from tensocket_plugins.contract.errors import UnsupportedOperator

from .schema import Schema

#: Position of the result among saved values.
RESULT: Final = -1
#: Position for the shape of argument 0; ``SHAPE - k`` is that of argument k.
SHAPE: Final = -2
#: Position for a value that no gradient needs, because its argument does not require one.
UNUSED: Final = -1000
#: Position for a tuple of bools, one per tensor argument: whether it has an edge.
WANTED: Final = -1001
#: Position of the first of several results; ``RESULTS - k`` is that of result k.
RESULTS: Final = -2000
#: Elements up to which the engine computes gradients on arrays, because that is cheaper than on tensors.
ARRAYS: Final = 4096
#: ``make(derivative) -> functions`` for passes that record nothing; a package above registers it.
QUICK_RULES: Final[list[Callable[[Derivative], tuple[Callable[..., Any] | None, ...]]]] = []
#: Names of nodes that do not derive from the operator's name.
_NODE_NAMES: Final = {
    "basic_index": "SliceBackward0",
    "basic_put_": "torch::autograd::CopySlices",
    "class_loss": "NllLossBackward0",
    "copy_": "torch::autograd::CopyBackwards",
    "copy_slices": "torch::autograd::CopySlices",
    "convert": "ToCopyBackward0",
    "floor_divide": "NotImplemented",
    "found_extremes": "CummaxBackward0",
    "found_in_order": "SortBackward0",
    "found_of_rank": "KthvalueBackward0",
    "gather_valid": "GatherBackward0",
    "index_by_position": "IndexBackward0",
    "log_softmax_rows": "LogSoftmaxBackward0",
    "middle": "MedianBackward0",
    "put_by_position": "IndexPutBackward0",
    "scatter_number": "ScatterBackward0",
    "scatter_tensor": "ScatterBackward0",
    "scatter_valid": "ScatterBackward0",
    "score_loss": "NllLossBackward0",
    "softmax_rows": "SoftmaxBackward0",
    "take_along_dim": "GatherBackward0",
}


class Derivative:
    """The gradients of an operator with respect to its arguments.

    There is one function per differentiable argument. Its parameter names state what it uses, and only that is saved:
    ``grad`` (the gradient of the result), ``result``, arguments of the operator by name, and ``NAME_shape`` for the
    shape of an argument whose values are not needed. A function returns the argument's gradient; if the argument was
    broadcast, the engine sums. ``joint`` is one function that returns the gradients of all tensor arguments as a tuple,
    for operators on lists and for gradients that share a computation. Its parameter ``wanted`` is a tuple of bools:
    which of these arguments receive a gradient.

    For an operator that returns several tensors as a tuple or list, the first parameter is called ``grads``: a tuple
    with the gradient of each result, None if no gradient arrived; the results are then called ``result0``,
    ``result1`` ...

    >>> Derivative(input=lambda grad, other: grad * other, other=lambda grad, input: grad * input).arguments
    ('input', 'other')
    """

    __slots__ = (
        "_named",
        "add_part",
        "arguments",
        "arrays",
        "frees",
        "functions",
        "joint",
        "lists",
        "multiple",
        "name",
        "names",
        "overwrites",
        "parameters",
        "picks",
        "plans",
        "quick",
        "saved_positions",
        "saves_shapes",
        "tensors",
    )

    def __init__(self, joint: Callable[..., Any] | None = None, **functions: Callable[..., Any]) -> None:
        self.joint = joint
        #: Functions that run on arrays instead of ``functions``; empty if there are none.
        self.arrays: tuple[Callable[..., Any] | str | None, ...] = ()
        self._named: dict[str, Callable[..., Any] | str] = {}
        self.arguments = tuple(functions)
        self.functions: tuple[Callable[..., Any] | None, ...] = tuple(functions.values())
        self.picks: tuple[tuple[int, ...], ...] = ()
        self.saved_positions: tuple[int, ...] = ()
        #: Whether each saved value is the shape of an argument.
        self.saves_shapes: tuple[bool, ...] = ()
        self.tensors: tuple[int, ...] = ()
        self.parameters = 0
        self.multiple = any(_parameters(f)[0] == "grads" for f in (joint, *functions.values()) if f is not None)
        self.names: tuple[str, ...] = ()
        #: Whether the operator takes a list of tensors.
        self.lists = False
        #: Cache of ``needed`` by the arguments that have an edge; it is bounded by their combinations and never
        #: cleared.
        self.plans: dict[tuple[bool, ...], tuple[int, ...]] = {}
        self.name = ""
        #: ``functions`` for passes that record nothing; None before the first one.
        self.quick: tuple[Callable[..., Any] | None, ...] | None = None
        #: Whether a backward pass that does not retain the graph frees saved tensors.
        self.frees = True
        #: Whether the operator overwrites its first argument, regardless of the old values.
        self.overwrites = False
        #: See ``of_part``.
        self.add_part: Callable[..., Any] | None = None

    def of_part(self, add_part: Callable[..., Any]) -> Derivative:
        """Declare that the result is a slice of the only tensor.

        Args:
            add_part: ``add_part(whole, grad, *saved)`` adds the gradient of the result in place to that of the tensor;
                no tensors are saved.
        """
        self.add_part = add_part
        return self

    def of_overwriting(self) -> Derivative:
        """Declare that the operator overwrites its first argument, regardless of the old values."""
        self.overwrites = True
        return self

    def on_arrays(self, **functions: Callable[..., Any] | str) -> Derivative:
        """Register functions that compute gradients of small arrays on NumPy arrays.

        Args:
            functions: For each argument with a gradient, a function of NumPy arrays with the same parameters and result
                as the function on tensors, or the name of an operator whose kernel computes it. A function returns
                NotImplemented for cases that it does not cover.
        """
        self._named = functions
        return self

    def bind(self, schema: Schema) -> None:
        """Resolve names against the operator's schema: which arguments to save, and what each function receives."""
        title = schema.name.strip("_").title().replace("_", "")
        self.name = _NODE_NAMES.get(schema.name, f"{title}Backward0")
        names = self.names = schema.names
        self.parameters = len(names)
        self.tensors = schema.tensors
        self.lists = any(p.is_tensor and p.type.endswith("[]") for p in schema.parameters)
        by_name = dict(zip(self.arguments, self.functions, strict=True))
        if self.joint is None:
            tensors = [names[k] for k in schema.tensors]
            unknown = set(by_name) - set(tensors)
            if unknown:
                raise ValueError(f"derivative of {schema.name} for unknown arguments {sorted(unknown)}")
            self.functions = tuple(by_name.get(name) for name in tensors)
            if self._named:
                self.arrays = tuple(self._named.get(name) for name in tensors)
        else:
            self.functions = (self.joint,)
        used = [_parameters(f)[1:] if f is not None else () for f in self.functions]
        positions = sorted({_position(name, names) for wanted in used for name in wanted})
        self.saved_positions = tuple(positions)
        self.saves_shapes = tuple([UNUSED < k <= SHAPE for k in positions])
        self.frees = any(k in (*schema.tensors, RESULT) or k <= RESULTS for k in positions)
        self.picks = tuple(tuple(positions.index(_position(name, names)) for name in wanted) for wanted in used)

    def make_quick(self) -> tuple[Callable[..., Any] | None, ...]:
        """Make ``quick`` with the last of ``QUICK_RULES``, if the derivative belongs to an operator."""
        plain = self.functions if self.joint is None else (self.joint,)
        self.quick = QUICK_RULES[-1](self) if QUICK_RULES and self.names else plain
        return self.quick

    def needed(self, edges: tuple[Any, ...]) -> tuple[int, ...]:
        """Return ``saved_positions`` with ``UNUSED`` for values that only arguments without an edge need."""
        if self.joint is not None:
            return self.saved_positions
        wanted = tuple([edge is not None for edge in edges])
        plan = self.plans.get(wanted)
        if plan is None:
            used = {k for present, pick in zip(wanted, self.picks, strict=True) if present for k in pick}
            plan = self.plans[wanted] = tuple(p if k in used else UNUSED for k, p in enumerate(self.saved_positions))
        return plan


def no_derivative(operator: str, argument: str) -> Callable[..., Any]:
    """Return the rule of an argument without a known closed-form derivative: it raises instead of returning zero."""

    def refuse(grad: Any) -> NoReturn:
        raise UnsupportedOperator(operator, f"a derivative with respect to {argument}",
                                  "the operator has no derivative for this argument", f"detach() {argument}")

    return refuse


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount]


def _position(name: str, names: tuple[str, ...]) -> int:
    """Return the position of a saved value.

    That is an argument's index, ``RESULT``, ``RESULTS - k``, or ``SHAPE - k`` for ``x_shape``.
    """
    if name in names:
        return names.index(name)
    if name == "result":
        return RESULT
    if name == "wanted":
        return WANTED
    if name[:6] == "result" and name[6:].isdecimal():
        return RESULTS - int(name[6:])
    return SHAPE - names.index(name.removesuffix("_shape"))
