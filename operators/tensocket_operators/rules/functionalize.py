"""Functions without mutation: in-place changes become new values, also of views."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_core.dispatch.call import call
from tensocket_core.pytree import tree_leaves, tree_map
from tensocket_core.transforms.aliasing import AliasTensor, content, make_view, replace, written
from tensocket_core.transforms.levels import Transform, lowered, map_tensors, results_of, shares_memory
from tensocket_plugins.contract.arrays import DeviceArray, contiguous_strides
from tensocket_plugins.contract.errors import ArgumentError

from ..kinds.inplace import InPlace


class FunctionalTensor(AliasTensor):
    """A tensor whose value is replaced when a program modifies it."""

    __slots__ = ()
    label = "FunctionalTensor"

    @property
    def _value(self) -> Any:
        return content(self)

    @_value.setter
    def _value(self, value: Any) -> None:
        self._content = value



class Functionalizing(Transform):
    """Transform that runs in-place operators out of place.

    Args:
        copied: Whether views become copies, too.
    """

    kind = FunctionalTensor

    def __init__(self, name: str, copied: bool) -> None:
        super().__init__(name)
        self.copied = copied

    def run(self, operator: Any, args: tuple[Any, ...]) -> Any:
        """Run the operator in the level below; modified arguments get new values."""
        if any(parameter.mutated for parameter in operator.schema.parameters):
            self.check_mutation(operator, args)
            target = args[0]
            values = self.unwrap(args)
            with lowered():
                replace(target, modified(operator, values), lambda root: root._value)
            return target
        args = map_tensors(self.lift, args)
        values = self.unwrap(args)
        with lowered():
            result = call(operator, *values)
            if shares_memory(operator) and self.copied:
                result = result.clone()
        made = results_of(args, result, self.wrap)
        if shares_memory(operator):
            self._follow(operator, args, made)
        return made

    def _follow(self, operator: Any, args: tuple[Any, ...], view: Any) -> None:
        """Make a view follow later values of its parent."""
        def replay(whole: Any) -> Any:
            with lowered(depth=self.level - 1):
                shown = call(operator, whole, *args[1:])
                return shown.clone() if self.copied else shown

        if self.copied:
            # A copy does not share the memory of its parent; the layout records the elements of which it is a copy.
            view._array = operator.view(args[0]._array, *args[1:]) if operator.kind == "view" else args[0]._array
        make_view(view, args[0], replay)


def modified(operator: Any, args: tuple[Any, ...]) -> Any:
    """Return as a new tensor the value that an in-place operator would write to its first argument."""
    target = args[0]
    shape = tuple(target.shape)
    if isinstance(operator, InPlace):
        return call(operator.origin, *args).to(target.dtype)
    if operator.name in ("copy_", "fill_"):
        source = args[1] if hasattr(args[1], "_key") else target.new_full((), args[1])
        return source.to(target.device, target.dtype).expand(shape)
    if operator.name == "basic_put_":
        whole = DeviceArray(None, target.dtype, shape, contiguous_strides(shape), 0)
        return written(target, whole, whole[tuple(args[1])], args[2])
    return call(operator, target.clone(), *args[1:])


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return a function that computes the same as ``func``, by operators that modify nothing.

    Arguments that ``func`` modifies are modified at the end, by one copy each.

    Args:
        func: A function of trees of tensors.
        remove: ``mutations``, or ``mutations_and_views`` to make copies of views as well.

    Raises:
        ArgumentError: ``remove`` has another value.
    """
    if remove not in ("mutations", "mutations_and_views"):
        raise ArgumentError("functionalize", f"remove={remove!r}",
                            "what is removed is 'mutations' or 'mutations_and_views'", "pass one of these")

    def compute(*args: Any, **kwargs: Any) -> Any:
        transform = Functionalizing("functionalize", remove != "mutations")
        with transform:
            wrapped = tree_map(lambda x: map_tensors(transform.wrap, x), (args, kwargs))
            result = tree_map(transform.unwrap, func(*wrapped[0], **wrapped[1]))
            changed = [x._value if hasattr(x, "_key") and x._generation else None for x in tree_leaves(wrapped)]
        for original, value in zip(tree_leaves((args, kwargs)), changed, strict=True):
            if value is not None:
                original.copy_(value)
        return result

    return compute
