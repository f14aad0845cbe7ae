"""Forward mode as a transform: tensors carry a tangent, and operators compute both."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar, Final

from tensocket_plugins.contract.errors import ArgumentError, AutogradError, ShapeError

from ..dispatch.call import call
from ..dispatch.modes import INHERITED
from ..pytree import tree_flatten, tree_map, tree_unflatten
from .aliasing import AliasTensor, content, make_view, replace, root_of
from .arguments import check_outputs, split_aux
from .levels import Transform, level_tensor, lowered, map_tensors
from .tangents import inplace_tangent, tangent_of

#: The call, as errors show it.
_CALL: Final = "jvp(f, primals, tangents)"


class _Enabled(threading.local):
    value = True


_ENABLED: Final = _Enabled()
INHERITED.append(_ENABLED)


class DualTensor(AliasTensor):
    """A tensor with a tangent, which is its content; None stands for zeros."""

    __slots__ = ()
    label = "GradTrackingTensor"

    def _cut(self) -> Any:
        alias = self._transform.wrap(self._value)
        alias._content = content(self)
        return alias

    @property
    def requires_grad(self) -> bool:
        """Whether gradients are recorded below."""
        return bool(self._value.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._value.requires_grad = value


class Forward(Transform):
    """Transform that computes directional derivatives of a function.

    Attributes:
        lenient: Whether tensors without a tangent stay as they are, and duals stand for their values after the end.
    """

    kind: ClassVar[type[DualTensor]] = DualTensor
    lenient: ClassVar[bool] = False
    #: Whether tangents are computed outside, which applies to the levels below.
    _outer: bool = True

    def __enter__(self) -> Forward:
        super().__enter__()
        if not self.lenient:
            self._outer, _ENABLED.value = _ENABLED.value, True
        return self

    def __exit__(self, *error: object) -> None:
        if not self.lenient:
            _ENABLED.value = self._outer
        super().__exit__(*error)

    def dual(self, primal: Any, tangent: Any) -> Any:
        """Return a lower tensor with a tangent as a dual tensor."""
        tensor = level_tensor(self.kind, primal, self)
        tensor._content = tangent
        return tensor

    def created(self, tensor: Any, drawn: bool = False) -> Any:
        """Return a factory's tensor, without a tangent."""
        return tensor if self.lenient else self.lift(tensor)

    def tangent(self, tensor: Any) -> Any:
        """Return the tangent of a tensor; None for zeros."""
        return content(tensor) if self.owns(tensor) else None

    def _tangents(self, value: Any) -> Any:
        """Return the tangents of tensors in nested lists; None for any other value."""
        if hasattr(value, "_key"):
            return self.tangent(value)
        if isinstance(value, (tuple, list)) and any(hasattr(item, "_key") for item in value):
            return [self._tangents(item) for item in value]
        return None

    def run(self, operator: Any, args: tuple[Any, ...]) -> Any:
        """Compute the result and its tangent below."""
        mutates = any(parameter.mutated for parameter in operator.schema.parameters)
        if self.lenient:
            involved: list[bool] = []
            map_tensors(lambda t: involved.append(self.owns(t)), args)
            if not any(involved):
                with lowered():
                    return call(operator, *args)
            if mutates and not self.owns(args[0]):
                self.adopt(args[0])
        elif mutates:
            self.check_mutation(operator, args)
        primals = self.unwrap(args)
        tangents = tuple([self._tangents(value) for value in args])
        known: list[Any] = []
        enabled = _ENABLED.value
        map_tensors(known.append, tangents if enabled else ())
        if not self.lenient:
            _ENABLED.value = self._outer
        try:
            if mutates:
                return self._run_inplace(operator, args, primals, tangents if known else None)
            with lowered():
                result = call(operator, *primals)
                tangent = tangent_of(operator, primals, tangents, result) if known else None
                if known and operator.kind != "view":
                    tangent = self.own(tangent, known)
            return self._joined(operator, args, result, tangent)
        finally:
            _ENABLED.value = enabled

    def _joined(self, operator: Any, args: tuple[Any, ...], result: Any, tangent: Any) -> Any:
        if isinstance(result, (tuple, list)):
            parts = tangent if isinstance(tangent, (tuple, list)) else (tangent,) * len(result)
            made = [self._joined(operator, args, r, t) for r, t in zip(result, parts, strict=True)]
            return type(result)(*made) if hasattr(result, "_fields") else type(result)(made)
        if not hasattr(result, "_key"):
            return result
        dual = self.dual(result, tangent)
        if operator.kind == "view":
            parent = self.lift(args[0])

            def replay(whole: Any) -> Any:
                with lowered(depth=self.level - 1):
                    return tangent_of(operator, (parent._value, *args[1:]), (whole, *(None,) * len(args[1:])), result)

            make_view(dual, parent, replay)
        return dual

    def _run_inplace(self, operator: Any, args: tuple[Any, ...], primals: Any, tangents: Any) -> Any:
        target = args[0]
        with lowered():
            new = None if tangents is None else inplace_tangent(operator, primals, tangents)
            if tangents is not None:
                known: list[Any] = []
                map_tensors(known.append, tangents)
                new = self.own(new, known)
            call(operator, *primals)
            if new is not None or content(target) is not None:
                if new is None and (self.lenient or target._parent is not None):
                    new = target._value.new_zeros(tuple(target.shape))
                self.move(target, new)
        return target

    def own(self, tangent: Any, given: list[Any]) -> Any:
        """Return a result's tangent, which may share memory with ``given``: no operator writes to tangents."""
        return tangent

    def move(self, target: Any, tangent: Any) -> None:
        """Replace the tangent of a tensor of this level."""
        replace(target, tangent, lambda root: root._value.new_zeros(tuple(root.shape)))

    def changed(self, target: Any) -> None:
        """Note an in-place change of a tensor's tangent."""
        root = root_of(target)
        root._generation += 1
        target._seen = root._generation

    def adopt(self, tensor: Any) -> None:
        """Make a tensor without a tangent, which is about to get one, a dual; lenient levels implement this."""
        raise NotImplementedError


def check_tangent(name: str, primal: Any, tangent: Any) -> None:
    """Raise unless a primal and a tangent are a valid pair.

    Raises:
        ArgumentError: One of them is not a tensor, or its dtype has no derivatives.
        ShapeError: The shapes differ.
    """
    for what, value in (("primal", primal), ("tangent", tangent)):
        if not hasattr(value, "_key"):
            raise ArgumentError(name, f"a {what} of type {type(value).__name__}", "primals and tangents are tensors",
                                "convert it")
        if value.dtype.kind not in ("float", "complex"):
            raise ArgumentError(name, f"a {what} of dtype {value.dtype.name}",
                                "floating-point and complex tensors have tangents", "convert it with .to(dtype)")
    if tuple(primal.shape) != tuple(tangent.shape):
        raise ShapeError(name, f"a tangent of shape {list(tangent.shape)} for a primal of shape {list(primal.shape)}",
                         "a tangent has its primal's shape", "pass one of that shape")


def push_forward(name: str, func: Callable[..., Any], args: tuple[Any, ...], tangents: list[Any], has_aux: bool,
                 strict: bool = False) -> tuple[Any, Any, Any]:
    """Run a function on dual tensors.

    Args:
        name: Name of the transform in errors.
        func: The function.
        args: Its arguments, trees of tensors.
        tangents: The tangent of every leaf, or None for zeros.
        has_aux: Whether the function returns a pair of the result and auxiliary data.
        strict: Whether a result without a tangent is an error.

    Returns:
        The result, its tangents and the auxiliary data, without the level.
    """
    leaves, spec = tree_flatten(args)
    for primal, tangent in zip(leaves, tangents, strict=True):
        if tangent is not None:
            check_tangent(name, primal, tangent)
    transform = Forward(name)
    with transform:
        duals = [transform.dual(x, t) if t is not None else map_tensors(transform.wrap, x)
                 for x, t in zip(leaves, tangents, strict=True)]
        result, aux = split_aux(_CALL, func(*tree_unflatten(duals, spec)), has_aux)
        outputs, out_spec = tree_flatten(result)
        check_outputs(_CALL, outputs)
        made = [transform.tangent(output) for output in outputs]
    if strict and any(tangent is None for tangent in made):
        raise AutogradError(name, "a result that does not depend on the primals", "with strict=True, all results do",
                            "pass strict=False to get zeros for it")
    values = [transform.unwrap(output) for output in outputs]
    made = [x.new_zeros(tuple(x.shape)) if t is None else t for x, t in zip(values, made, strict=True)]
    return (tree_unflatten(values, out_spec), tree_unflatten(made, out_spec), tree_map(transform.unwrap, aux))


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """Return the value of a function and its directional derivative.

    Args:
        func: A function of tensors, or trees of them, that returns a tree of tensors.
        primals: A tuple of arguments: the point.
        tangents: The direction, a tree like the primals.
        strict: Whether results that do not depend on the primals are an error instead of zeros.
        has_aux: Whether ``func`` returns a pair of the result to differentiate and auxiliary data.

    Returns:
        ``(result, derivative)``, with ``has_aux`` also the auxiliary data.

    Raises:
        AutogradError: The primals are not a tuple, the tangents have another structure, or a result breaks ``strict``.
        ArgumentError: A primal or tangent is not a tensor of a dtype with derivatives.
        ShapeError: A tangent and its primal differ in shape.

    >>> import tensocket_core as tc
    >>> jvp(lambda x: x * x, (tc.tensor(3.0),), (tc.tensor(1.0),))[1].item()
    6.0
    """
    if not isinstance(primals, tuple):
        raise AutogradError("jvp", f"primals of type {type(primals).__name__}", f"{_CALL}: Expected primals to be a "
                            "tuple. E.g. it should be valid to call f(*primals)", "pass (x,)")
    leaves, spec = tree_flatten(primals)
    given, other = tree_flatten(tangents)
    if spec != other:
        raise AutogradError("jvp", f"primals {spec.brief()} and tangents {other.brief()}",
                            f"{_CALL}: Expected primals and "
                            "tangents to have the same python structure", "pass one tangent per primal")
    if not leaves:
        raise AutogradError("jvp", "no primals", f"{_CALL}: Expected primals to contain at least one Tensor",
                            "pass the arguments of the function")
    result, derivative, aux = push_forward("jvp", func, primals, given, has_aux, strict)
    return (result, derivative, aux) if has_aux else (result, derivative)
