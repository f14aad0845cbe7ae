"""Parameters that are computed from other tensors at each access."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tensocket.errors import ArgumentError, StateDictError
from tensocket.nn.modules.container import ModuleDict, ModuleList
from tensocket.nn.modules.module import Module
from tensocket.nn.parameter import Buffer, Parameter
from tensocket_operators import Tensor, no_grad

#: Values computed inside of ``cached()``, by module and name, and the number of such blocks that are active.
_CACHE: Final[dict[tuple[int, str], Any]] = {}
_DEPTH: Final[list[int]] = [0]


@contextmanager
def cached() -> Iterator[None]:
    """Compute parametrized tensors only once in the block, at their first access."""
    _DEPTH[0] += 1
    try:
        yield
    finally:
        _DEPTH[0] -= 1
        if not _DEPTH[0]:
            _CACHE.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, first to last, and the originals that they start from.

    Args:
        modules: The parametrizations.
        original: The tensor that is parametrized.
        unsafe: Whether the result may have another shape or dtype.

    Raises:
        ArgumentError: A ``right_inverse`` does not return tensors, or the result does not fit.
    """

    original: Tensor

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise _refused("no parametrizations", "there is at least one parametrization")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        values = self._originals_of(original)
        self.is_tensor = isinstance(values, Tensor)
        self.ntensors = 1 if isinstance(values, Tensor) else len(values)
        if isinstance(values, Tensor):
            if not unsafe and values.dtype is not dtype:
                raise _refused(f"a right_inverse of dtype {values.dtype} for {dtype}", "right_inverse keeps the dtype")
            if isinstance(original, Parameter):
                # The same object stays the leaf, so that optimizers still hold it.
                original.data = values.detach()
                self.original = original
            else:
                self.register_buffer("original", values)
        else:
            for number, value in enumerate(values):
                self._add_original(number, value, original)
        if not unsafe:
            result = self()
            if not isinstance(result, Tensor):
                raise _refused(f"a {type(result).__name__} from a parametrization",
                               "a parametrization returns a tensor")
            if result.dtype is not dtype or result.shape != shape:
                raise _refused(f"{tuple(result.shape)}, {result.dtype} for {tuple(shape)}, {dtype}",
                               "a parametrization keeps shape and dtype")

    def _originals_of(self, original: Tensor) -> Tensor | Sequence[Tensor]:
        values: Any = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        values = module.right_inverse(values)
                    except NotImplementedError:
                        # The parametrization has no inverse for these values: the original starts at the tensor's
                        # value.
                        break
        if not isinstance(values, (Tensor, Sequence)):
            raise _refused(f"a {type(values).__name__} from right_inverse",
                           "right_inverse returns a tensor or a sequence of tensors")
        return values

    def _add_original(self, number: int, value: Any, original: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise _refused(f"a {type(value).__name__} among those of right_inverse",
                           "right_inverse returns a tensor or a sequence of tensors")
        name = f"original{number}"
        if isinstance(original, Parameter):
            self.register_parameter(name, Parameter(value, original.requires_grad))
        else:
            self.register_buffer(name, value)

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the result is ``value``, by the ``right_inverse`` of each, last to first.

        Raises:
            ArgumentError: A parametrization has no ``right_inverse``, or it returns another number of tensors.
        """
        values: Any = value
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise _refused(f"an assignment through {type(module).__name__}", "parametrizations that are "
                                   "assigned to have a right_inverse")
                values = module.right_inverse(values)
            given = [values] if self.is_tensor else list(values)
            if len(given) != self.ntensors:
                raise _refused(f"{len(given)} tensors from right_inverse for {self.ntensors}",
                               "right_inverse returns as many tensors as before")
            for name, new in zip(self._names(), given, strict=True):
                getattr(self, name).set_(new.detach())

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{number}" for number in range(self.ntensors)]

    def forward(self) -> Any:
        """Return the parametrized tensor."""
        modules = iter(self)
        result = next(modules)(*(getattr(self, name) for name in self._names()))
        for module in modules:
            result = module(result)
        return result


def _refused(given: str, rule: str) -> ArgumentError:
    return ArgumentError("parametrize", given, rule, "change the parametrization, or pass unsafe=True for a check less")


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a parameter or buffer of ``module`` by ``parametrization`` from now on.

    The original is a parameter of ``module.parametrizations.<name>``. Assigning to the attribute goes through the
    ``right_inverse`` of the parametrization. Several can be registered; they run in order.

    Args:
        module: The module of the tensor.
        tensor_name: The attribute's name.
        parametrization: A module that maps the original to the tensor.
        unsafe: Whether the result may have another shape or dtype.

    Raises:
        ArgumentError: The tensor does not exist, or the parametrization does not fit it.
    """
    # During setup, the parametrization runs in training mode, if it depends on the mode.
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _append(module, tensor_name, parametrization, unsafe)
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        listed = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _derive_class(module)
            module.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _access(tensor_name))
        module.parametrizations[tensor_name] = listed
    else:
        raise ArgumentError("register_parametrization", f"{tensor_name!r} of {type(module).__name__}",
                            "the module has a parameter, a buffer or a parametrized tensor of that name",
                            "choose one of named_parameters()")
    return module


def _append(module: Any, name: str, parametrization: Any, unsafe: bool) -> None:
    listed = module.parametrizations[name]
    if not unsafe:
        value = getattr(module, name)
        result = parametrization(value)
        if not isinstance(result, Tensor) or result.dtype is not value.dtype or result.shape != value.shape:
            raise _refused("another shape or dtype", "a parametrization keeps shape and dtype")
        if hasattr(parametrization, "right_inverse"):
            back = parametrization.right_inverse(result)
            if not isinstance(back, Tensor) or back.dtype is not value.dtype or back.shape != value.shape:
                raise _refused("another shape or dtype from right_inverse",
                               "right_inverse of a further parametrization keeps shape and dtype")
    listed.append(parametrization)
    listed.unsafe |= unsafe


def _derive_class(module: Module) -> None:
    """Give one module a class of its own, so that it can have properties."""
    base = type(module)

    def reduce(self: Any, protocol: Any) -> Any:
        raise StateDictError("pickle", f"a parametrized {base.__name__}", "parametrized modules are saved by "
                             "state_dict()", "save state_dict(), or remove the parametrizations first")

    def deep_copy(self: Any, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = copied = self.__new__(self.__class__)
            copied.__dict__ = copy.deepcopy(self.__dict__, memo)
            copied.__class__ = type(type(self).__name__, (base,), dict(vars(type(self))))
        return memo[id(self)]

    module.__class__ = type(f"Parametrized{base.__name__}", (base,), {
        "__reduce_ex__": reduce, "__deepcopy__": deep_copy, "__module__": base.__module__})


def _access(name: str) -> property:
    def get(self: Any) -> Any:
        if not _DEPTH[0]:
            return self.parametrizations[name]()
        key = id(self), name
        if key not in _CACHE:
            _CACHE[key] = self.parametrizations[name]()
        return _CACHE[key]

    def put(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of ``module``, or any of its tensors, is parametrized."""
    listed = getattr(module, "parametrizations", None)
    if not isinstance(listed, ModuleDict):
        return False
    return len(listed) > 0 if tensor_name is None else tensor_name in listed


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Turn a parametrized tensor into an ordinary one.

    Args:
        module: The module of the tensor.
        tensor_name: The attribute's name.
        leave_parametrized: Whether it keeps the computed value; otherwise it gets the original back.

    Raises:
        ArgumentError: It is not parametrized, or it has several originals and should get its original back.
    """
    if not is_parametrized(module, tensor_name):
        raise ArgumentError("remove_parametrizations", f"{tensor_name!r} of {type(module).__name__}",
                            "the tensor is parametrized", "see module.parametrizations")
    table: Any = module.parametrizations
    listed = table[tensor_name]
    if listed.is_tensor:
        original = listed.original
        if leave_parametrized:
            with no_grad():
                value = getattr(module, tensor_name)
            original.data = value.detach()
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        trained = isinstance(listed.original0, Parameter)
        original = Parameter(value.detach()) if trained else Buffer(value.detach())
    else:
        raise ArgumentError("remove_parametrizations", f"{tensor_name!r} with {listed.ntensors} originals",
                            "what is computed from several tensors has no original to be left",
                            "pass leave_parametrized=True")
    del table[tensor_name]
    delattr(type(module), tensor_name)
    (module.register_parameter if isinstance(original, Parameter) else module.register_buffer)(tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the class of ``module`` as if it had no parametrizations."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give ``to_module`` the parametrizations and originals of one tensor of ``from_module``, or of all tensors.

    Raises:
        ArgumentError: ``from_module`` has no parametrizations.
    """
    if not is_parametrized(from_module):
        raise ArgumentError("transfer_parametrizations_and_params", f"a {type(from_module).__name__}",
                            "the module has parametrizations", "register some first")
    table: Any = from_module.parametrizations
    for name in table.keys() if tensor_name is None else (tensor_name,):
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for parametrization in table[name]:
            register_parametrization(to_module, name, parametrization)
        target: Any = to_module.parametrizations[name]
        for key in table[name]._names():
            setattr(target, key, getattr(table[name], key))
    return to_module


__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]
