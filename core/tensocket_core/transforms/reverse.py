"""Reverse mode as a transform: every level records its own graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_plugins.contract.errors import ArgumentError, AutogradError, ShapeError

from ..autograd.differentiate import grad as engine_grad
from ..autograd.view_history import record_view
from ..dispatch.call import key_of
from ..dispatch.modes import STATE, as_leaf, is_grad_enabled, update_state
from ..keys import AUTOGRAD
from ..pytree import tree_flatten, tree_map, tree_unflatten
from .arguments import check_outputs, chosen, picked, split_aux
from .levels import LevelTensor, Transform, call_lower, map_tensors, results_of, transparent

#: Transforms that user programs call.
_PUBLIC: Final = frozenset(("grad", "vjp", "jacrev", "linearize"))
#: Calls as errors show them, for transforms that do not build on ``vjp``.
_CALLS: Final = {"grad": "grad_and_value(f)(*args)", "linearize": "linearize(f, *primals)"}


class GradTensor(LevelTensor):
    """A tensor of a reverse level; the nodes of its graph belong to this level only."""

    __slots__ = ()
    label = "GradTrackingTensor"



class Reverse(Transform):
    """Transform that records the operations of a function on its arguments.

    It always records gradients, whatever the mode outside; lower levels run in the outer mode, so ``no_grad`` in the
    function affects only this level.
    """

    kind = GradTensor

    def __enter__(self) -> Reverse:
        super().__enter__()
        self._outer = STATE.exclude & AUTOGRAD
        update_state(exclude=STATE.exclude & ~AUTOGRAD)
        return self

    def leaf(self, value: Any) -> Any:
        """Return a lower tensor as a leaf of this level that requires a gradient.

        Raises:
            ArgumentError: The value is not a tensor.
            AutogradError: Its dtype has no gradients.
        """
        if not hasattr(value, "_key"):
            raise ArgumentError(self.name, f"an argument of type {type(value).__name__}",
                                "what is differentiated is a tensor", "convert it, or leave it out of argnums")
        return as_leaf(self.wrap(value))

    def run(self, operator: Any, args: tuple[Any, ...]) -> Any:
        """Record a call at this level and run it below."""
        self.check_mutation(operator, args)
        args = map_tensors(self.lift, args)
        recorded = False

        def below(*given: Any) -> Any:
            result = call_lower(operator, self.unwrap(given), self._outer)
            return results_of(given, result, self.wrap)

        if operator.derivative is not None and not STATE.exclude & AUTOGRAD:
            given: list[Any] = []
            map_tensors(given.append, args)
            recorded = any(tensor._key & AUTOGRAD for tensor in given)
        if recorded:
            return operator.recording(below, key_of(operator, args))(*args)
        result = below(*args)
        if operator.kind == "view" and result._base is not None:
            # The base may become part of the graph later, and its views with it.
            record_view(result)
        return result


class Pullback:
    """The transposed derivative of a function at a point: the result of ``vjp``.

    Args:
        transform: The level that recorded the function.
        leaves: The differentiated tensors and their tree structure.
        outputs: Results of the function, tensors of the level or lower ones.
        spec: Structure of the results.
    """

    def __init__(self, transform: Reverse, leaves: tuple[list[Any], Any], outputs: list[Any], spec: Any) -> None:
        self._transform = transform
        self._leaves, self._structure = leaves
        self._outputs = outputs
        self._spec = spec

    def __call__(self, cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        """Return the gradients of the arguments, in their structure; zeros if the result does not depend on them.

        Args:
            cotangents: Gradients of the results, in their structure.
            retain_graph: Whether this object can be called again.
            create_graph: Whether enclosing graphs record the computation; default is the current mode.

        Raises:
            AutogradError: The cotangents and the results differ in structure.
        """
        given, spec = tree_flatten(cotangents)
        if spec != self._spec:
            raise AutogradError(self._transform.name, "cotangents", "Expected pytree structure of cotangents to be the "
                                f"same as pytree structure of outputs to the function. cotangents: "
                                f"{spec.brief()}, primal "
                                f"output: {self._spec.brief()}", "pass one per result")
        pairs = [(self._checked(y, g), g) for y, g in zip(self._outputs, given, strict=True)]
        return self._gradients(pairs, retain_graph, create_graph)

    def of(self, index: int, cotangent: Any) -> Any:
        """Return the gradients of one result, by its index."""
        return self._gradients([(self._outputs[index], cotangent)], True, None)

    def _gradients(self, pairs: list[tuple[Any, Any]], retain_graph: bool, create_graph: bool | None) -> Any:
        pairs = [(y, g) for y, g in pairs if self._transform.owns(y) and y._key & AUTOGRAD]
        if not pairs or not self._leaves:
            return tree_unflatten([_zeros(x._value) for x in self._leaves], self._structure)
        with transparent(self._transform):
            grads = engine_grad([y for y, _ in pairs], self._leaves, [g for _, g in pairs], retain_graph=retain_graph,
                                create_graph=is_grad_enabled() if create_graph is None else create_graph,
                                allow_unused=True)
        made = [_zeros(x._value) if g is None else self._transform.unwrap(g)
                for x, g in zip(self._leaves, grads, strict=True)]
        return tree_unflatten(made, self._structure)

    def _checked(self, output: Any, cotangent: Any) -> Any:
        if not hasattr(cotangent, "_key") or tuple(cotangent.shape) != tuple(output.shape):
            what = list(cotangent.shape) if hasattr(cotangent, "_key") else type(cotangent).__name__
            raise ShapeError(self._transform.name, f"a cotangent {what} for a result of shape {list(output.shape)}",
                             "a cotangent is a tensor of its result's shape", "pass one of that shape")
        return output


def _zeros(value: Any) -> Any:
    return value.new_zeros(tuple(value.shape))


def pull_back(name: str, func: Callable[..., Any], args: tuple[Any, ...], argnums: Any, has_aux: bool,
              kwargs: dict[str, Any] | None = None) -> tuple[Any, Pullback, Any]:
    """Run a function and record it.

    Args:
        name: Name of the transform in errors.
        func: The function.
        args: Its arguments, trees of tensors.
        argnums: Positions of the differentiated arguments, or None for all.
        has_aux: Whether the function returns a pair of the result and auxiliary data.
        kwargs: Keyword arguments, not differentiated.

    Returns:
        The result, without the level; its pullback; the auxiliary data, without the level.
    """
    call = _CALLS.get(name, "vjp(f, *primals)")
    transform = Reverse(name)
    with transform:
        positions = chosen(name, args, argnums)
        wrapped = [tree_map(transform.leaf if k in positions else lambda x: map_tensors(transform.wrap, x), arg)
                   for k, arg in enumerate(args)]
        result = func(*wrapped, **tree_map(lambda x: map_tensors(transform.wrap, x), kwargs or {}))
        result, aux = split_aux(call, result, has_aux)
    leaves = tree_flatten(picked(tuple(wrapped), argnums))
    outputs, spec = tree_flatten(result)
    if name == "grad":
        _check_number(result)
    check_outputs(call, outputs)
    for output in outputs:
        # Only functions for users check this; operators may have such results, which have no gradient.
        if name in _PUBLIC and output.dtype.kind not in ("float", "complex"):
            raise AutogradError(name, "a function of discrete values", "vjp(f, ...): All outputs of f must be "
                                f"floating-point or complex Tensors, got Tensor with dtype {output.dtype!r}",
                                "return it with has_aux=True")
    pull = Pullback(transform, leaves, outputs, spec)
    return tree_unflatten(transform.unwrap(outputs), spec), pull, tree_map(transform.unwrap, aux)


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return the value of a function and its transposed derivative.

    Args:
        func: A function of tensors, or trees of them, that returns a tree of tensors.
        primals: The point.
        has_aux: Whether ``func`` returns a pair of the result to differentiate and auxiliary data.

    Returns:
        The result of ``func`` and a function of cotangents (a tree like the result) that returns the gradients of the
        primals, a tuple with one for each. With ``has_aux``, the auxiliary data comes third.

    Raises:
        AutogradError: The function returns values other than tensors, or with ``has_aux`` not a pair.
    """
    result, pull, aux = pull_back("vjp", func, primals, None, has_aux)

    def pullback(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        return pull(given, retain_graph, create_graph)

    return (result, pullback, aux) if has_aux else (result, pullback)


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes gradients and the value of ``func``, which returns one number.

    Args:
        func: A function that returns a tensor of one element and no dimensions.
        argnums: Position of the argument to differentiate, or a tuple of positions.
        has_aux: Whether ``func`` returns a pair of that tensor and auxiliary data.

    Returns:
        A function of the same arguments: ``(gradients, value)``, or ``(gradients, (value, auxiliary data))``.
    """

    def compute(*args: Any, **kwargs: Any) -> Any:
        value, pull, aux = pull_back("grad", func, args, argnums, has_aux, kwargs)
        gradients = pull(value.new_ones(()), False)
        return gradients, (value, aux) if has_aux else value

    return _named(compute, func)


def _check_number(value: Any) -> None:
    if not hasattr(value, "_key"):
        raise AutogradError("grad", f"a function that returns {type(value).__name__}", "grad_and_value(f)(*args): "
                            f"Expected f(*args) to return a Tensor, got {type(value)}",
                            "return one tensor, or use has_aux=True for the rest")
    if value.ndim:
        raise AutogradError("grad", f"a function that returns shape {list(value.shape)}", "grad_and_value(f)(*args): "
                            "Expected f(*args) to return a scalar Tensor, got tensor with "
                            f"{value.ndim} dims",
                            "reduce it with .sum(), or use vjp or jacrev")


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Return a function that computes the gradients of ``func``, which returns one number; see ``grad_and_value``.

    >>> import tensocket_core as tc
    >>> grad(lambda x: x ** 3)(tc.tensor(2.0)).item()
    12.0
    """
    both = grad_and_value(func, argnums, has_aux)

    def compute(*args: Any, **kwargs: Any) -> Any:
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return _named(compute, func)


def _named(function: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    function.__name__ = getattr(original, "__name__", function.__name__)
    function.__doc__ = getattr(original, "__doc__", None)
    return function
