"""The stack of running transforms, and their tensors.

A transform that runs a function is an entry of the thread's stack. Every operator call goes to the innermost one (see
``dispatch.protocol``), which does its part and calls the operator again for the transforms below it; below the last
one, the operator runs as usual. A transform's tensor holds the tensor one level below; its own handle is a layout
without memory, so that the transformed function gets the right shapes and no code reads elements by accident.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.errors import TransformError

from ..dispatch.call import call
from ..dispatch.modes import STATE, update_state
from ..dispatch.overrides import disabled_torch_function
from ..geometry import element_strides, memory_nbytes, memory_offset
from ..keys import AUTOGRAD, WRAPPER
from ..tensor import Tensor

_new = object.__new__


class LevelTensor(Tensor):
    """A tensor of a transform.

    Attributes:
        _value: The tensor one level below.
        _transform: The transform.
    """

    __slots__ = ()
    #: Not an overriding class: transforms come after these.
    __torch_function__ = disabled_torch_function
    #: Name in ``repr``.
    label: ClassVar[str] = "LevelTensor"
    _value: Any
    _transform: Any

    @property
    def _level(self) -> int:  # type: ignore[override]
        """Position of the transform in the stack, from 1."""
        level: int = self._transform.level
        return level

    def _host(self) -> np.ndarray[Any, Any]:
        host: np.ndarray[Any, Any] = self._value._host()
        return host

    def _values(self) -> np.ndarray[Any, Any]:
        values: np.ndarray[Any, Any] = self._value._values()
        return values

    @property
    def _real(self) -> Any:
        """The tensor below all levels; batches appear as leading dimensions."""
        value = self._value
        while value._level:
            value = value._value
        return value

    def _like(self, tensor: Any) -> Any:
        """Lift a new real tensor to this tensor's levels, with a copy for every example of batches."""
        value = self._value._like(tensor) if self._value._level else tensor
        return self._transform.wrap_like(self, value)

    def _become(self, view: Any) -> None:
        """Become a view of this tensor: take over its shape and strides, in place."""
        self.__dict__.update(view.__dict__)

    def data_ptr(self) -> int:
        """Raise: a level tensor has no memory of its own.

        Raises:
            TransformError: Always.
        """
        raise TransformError("data_ptr", f"a tensor of {self._transform.name}",
                             "tensors of transforms have no memory of their own", "take the pointer outside")

    def _cut(self) -> Tensor:
        return self._transform.wrap(self._value)  # type: ignore[no-any-return]

    def __repr__(self, *, tensor_contents: str | None = None) -> str:
        inner = "\n    ".join(repr(self._value).splitlines())
        return f"{self.label}(lvl={self._level}, value=\n    {inner}\n)"



class Extent:
    """Stand-in for the storage of a level tensor's handle: it has the size of the memory, but no memory."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    @property
    def nbytes(self) -> int:
        """Size of the real memory in bytes."""
        return memory_nbytes(self._array)


def geometry(tensor: Any) -> DeviceArray:
    """Return a handle with a tensor's layout and without memory."""
    array = tensor._array
    storage = array.storage if tensor._level else Extent(array)
    offset = 0 if type(array) is np.ndarray and array.base is None else memory_offset(array)
    return DeviceArray(storage, tensor.dtype, tuple(array.shape), element_strides(array), offset)


def level_tensor(kind: type[LevelTensor], value: Any, transform: Transform) -> Any:
    """Return a transform's tensor over a lower one; both share the version counter."""
    tensor = _new(kind)
    tensor._array = geometry(value)
    tensor._key = value._key & ~AUTOGRAD | WRAPPER
    tensor._grad = tensor._grad_fn = tensor._base = None
    if value._version_counter is None:
        value._version_counter = [0]
    tensor._version_counter = value._version_counter
    tensor._value, tensor._transform = value, transform
    return tensor


def map_tensors(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply ``function`` to every tensor in (named) tuples and lists; other values stay."""
    if hasattr(value, "_key"):
        return function(value)
    if isinstance(value, tuple):
        parts = [map_tensors(function, item) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if type(value) is list:
        return [map_tensors(function, item) for item in value]
    return value


class lowered:
    """A block ``with lowered():``, in which operators go to the transforms below the innermost one.

    Args:
        exclude: ``AUTOGRAD`` to turn recording off in the block, 0 to turn it on; None leaves it unchanged.
        depth: Number of remaining transforms; by default all but one.
    """

    __slots__ = ("_before", "_depth", "_exclude")

    def __init__(self, exclude: int | None = None, depth: int = -1) -> None:
        self._exclude = exclude
        self._depth = depth

    def __enter__(self) -> None:
        state = STATE
        self._before = state.transforms, state.include, state.exclude
        # Without ``update_state``: the thread stays busy, so that leaving is cheap.
        state.transforms = below = state.transforms[:self._depth]
        if not below:
            state.include &= ~WRAPPER
        if self._exclude is not None:
            state.exclude = state.exclude & ~AUTOGRAD | self._exclude

    def __exit__(self, *error: object) -> None:
        transforms, include, exclude = self._before
        update_state(transforms=transforms, include=include, exclude=exclude)


class Transform:
    """One transform while it runs a function: ``with transform:``.

    Attributes:
        name: Its name in errors.
        kind: Class of its tensors.
        level: Position in the stack, from 1.
        transparent: Number of callers that let its tensors stand for their values after its end.
        functional: Whether it transforms a function, which then records no gradients of its own.
    """

    name: str
    functional: bool = True
    kind: ClassVar[type[LevelTensor]]

    def __init__(self, name: str) -> None:
        self.name = name
        self.level = 0
        self.transparent = 0
        #: Level and thread state before each entry; a transform is entered again if a rule runs in it later.
        self._before: list[tuple[int, dict[str, Any]]] = []

    def __enter__(self) -> Transform:
        stack = STATE.transforms
        before = update_state(transforms=(*stack, self), include=STATE.include | WRAPPER, exclude=STATE.exclude)
        self._before.append((self.level, before))
        self.level = len(stack) + 1
        return self

    def __exit__(self, *error: object) -> None:
        level, before = self._before.pop()
        self.level = level or self.level
        update_state(**before)

    # ------------------------------------------------------------------------------------------ its tensors

    def owns(self, tensor: Any) -> bool:
        """Whether a tensor belongs to this transform."""
        return bool(tensor._level) and tensor._transform is self

    def wrap(self, value: Any) -> Any:
        """Return a lower tensor as one of this transform."""
        return level_tensor(self.kind, value, self)

    def wrap_like(self, tensor: Any, value: Any) -> Any:
        """Return a new lower tensor as one of this transform, with ``tensor`` as the model."""
        return self.wrap(value)

    def lift(self, tensor: Any) -> Any:
        """Return a tensor as one of this transform, unless it already is."""
        return tensor if self.owns(tensor) else self.wrap(tensor)

    def unwrap(self, tree: Any) -> Any:
        """Remove this transform's level from results."""
        return map_tensors(lambda t: t._value if self.owns(t) else t, tree)

    def created(self, tensor: Any, drawn: bool = False) -> Any:
        """Return a factory's tensor at this level; ``drawn``: dimension 0 has one draw per example."""
        return self.lift(tensor)

    def copies(self, operator: str) -> int | None:
        """Return the number of independent draws of random functions; None for one."""
        return None

    def check_parameter(self, operator: str) -> None:
        """Raise if a tensor of this transform cannot be the parameter of a distribution."""

    def released(self, operator: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of a call after this transform's end, its tensors replaced by their values.

        Raises:
            TransformError: No caller made the transform transparent.
        """
        if not self.transparent:
            raise TransformError(operator.name, f"a tensor of {self.name} (level {self.level})",
                                 "tensors of a transform are used while it runs and at its level",
                                 "return what is needed from the transformed function")
        return self.unwrap(args)  # type: ignore[no-any-return]

    # ------------------------------------------------------------------------------------------ calls

    def run(self, operator: Any, args: tuple[Any, ...]) -> Any:
        """Run an operator for this transform."""
        raise NotImplementedError

    def check_mutation(self, operator: Any, args: tuple[Any, ...]) -> None:
        """Raise if an operator modifies tensors from outside of the transformed function.

        Raises:
            TransformError: The operator writes to one.
        """
        for parameter, value in zip(operator.schema.parameters, args, strict=False):
            if parameter.mutated and hasattr(value, "_key") and not self.owns(value):
                raise TransformError(
                    operator.name, f"a tensor of shape {list(value.shape)} from outside of the function given to "
                    f"{self.name}", "a transformed function modifies only what it is given or has made: it "
                    "can not mutate a captured Tensor",
                    "pass the tensor as an argument, or clone() it")


class transparent:
    """A block ``with transparent(transform):`` after which a transform's tensors may stand for their values."""

    __slots__ = ("_transform",)

    def __init__(self, transform: Transform) -> None:
        self._transform = transform

    def __enter__(self) -> None:
        self._transform.transparent += 1

    def __exit__(self, *error: object) -> None:
        self._transform.transparent -= 1


def results_of(args: tuple[Any, ...], result: Any, wrap: Callable[[Any], Any]) -> Any:
    """Return the results of a lower call as tensors of a level.

    Args:
        args: The arguments, tensors of the level.
        result: Result of the lower call. A tensor that is an argument's value becomes that argument again; a view of
            one gets its base.
        wrap: Makes a tensor of the level.
    """
    given: list[Any] = []
    map_tensors(given.append, args)

    def convert(value: Any) -> Any:
        for argument in given:
            if argument._level and argument._value is value:
                return argument
        tensor = wrap(value)
        if value._base is not None:
            for argument in given:
                inner = argument._value if argument._level else argument
                if inner is value._base or inner._base is value._base:
                    tensor._base = argument if argument._base is None else argument._base
                    break
        return tensor

    return map_tensors(convert, result)


def shares_memory(operator: Any) -> bool:
    """Whether an operator's result shares memory with its first argument."""
    return bool(operator.kind == "view" or operator.name == "detach")


def call_lower(operator: Any, args: tuple[Any, ...], exclude: int | None = None) -> Any:
    """Run an operator for the transforms below."""
    with lowered(exclude):
        return call(operator, *args)
