"""Functions that generated code calls for what Python has no expression for."""

from __future__ import annotations

import builtins
import copy
import warnings
from collections.abc import Callable
from typing import Any

import tensocket_operators as operators
from tensocket.jit.asynchronous import Await, Future
from tensocket.jit.asynchronous import fork as fork
from tensocket.jit.frontend import Error, ScriptError
from tensocket.jit.graph import script_types as t
from tensocket_operators import Tensor


def raised(message: str, kind: str) -> Error:
    """Return the exception that a script raises."""
    name = kind if "." in kind else f"builtins.{kind}"
    return Error(f"[jit.script] the script raised an exception — {name}: {message} — see the traceback")


def slice_dim(tensor: Any, dim: int, start: int | None, stop: int | None, step: int) -> Any:
    """Return a slice along one dimension."""
    at = dim if dim >= 0 else tensor.dim() + dim
    return tensor[(slice(None),) * at + (slice(start, stop, step),)]


def index(tensor: Any, indices: list[Any]) -> Any:
    """Return the elements at tensors of positions, one for each of the first dimensions; None stands for all."""
    return tensor[tuple(slice(None) if each is None else each for each in indices)]


def index_last(tensor: Any, dims: list[int], indices: list[Any]) -> Any:
    """Return the elements at tensors of positions in dimensions that count from the end."""
    places: list[Any] = [slice(None)] * tensor.dim()
    for dim, each in zip(dims, indices, strict=True):
        places[dim] = each
    return tensor[tuple(places)]


def index_put_(tensor: Any, indices: list[Any], value: Any, accumulate: bool = False) -> Any:
    """Write elements at tensors of positions."""
    if accumulate:
        return tensor.index_put_([each for each in indices if each is not None], value, accumulate=True)
    tensor[tuple(slice(None) if each is None else each for each in indices)] = value
    return tensor


def assign_view(view: Any, value: Any) -> Any:
    """Write a tensor to a view."""
    if value.dim() > view.dim() and all(n == 1 for n in value.shape[:value.dim() - view.dim()]):
        value = value.reshape(value.shape[value.dim() - view.dim():])
    return view.copy_(value)


def tensor_like(value: Any, view: Any) -> Any:
    """Return a number as a tensor of a view's dtype and device."""
    return operators.tensor(value, dtype=view.dtype, device=view.device)


def NumToTensor(value: Any) -> Any:  # noqa: N802  the name of the operator
    """Return a number as a tensor."""
    return operators.tensor(value)


def tensor_length(tensor: Any) -> int:
    """Return the first size of a tensor.

    Raises:
        ScriptError: It has no dimensions.
    """
    if not tensor.dim():
        raise ScriptError("a tensor without dimensions", "iteration over a 0-d tensor: it has no length", "use item()")
    return int(tensor.shape[0])


def list_range(start: int, stop: int, step: int) -> list[int]:
    """Return the numbers of a range."""
    return list(range(start, stop, step))


def leaving(manager: Any, leave: Callable[..., Any] | None = None) -> _Leaving:
    """Return a context manager that leaves one which was entered before."""
    return _Leaving(manager, leave)


class _Leaving:
    def __init__(self, manager: Any, leave: Callable[..., Any] | None) -> None:
        self.manager = manager
        self.leave = leave

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> Any:
        if self.leave is not None:
            self.leave(self.manager, None, None, None)
            return False
        return self.manager.__exit__(*error)


def method_of(owner: Any, name: str) -> Callable[..., Any]:
    """Return the Python function of a method that an interface declares."""
    kind = owner._type
    return kind.method(name).entry  # type: ignore[no-any-return]


def new_object(kind: t.ClassType) -> Any:
    """Return an instance of a scripted class without attributes."""
    from tensocket.jit.compiler.classes import new_object as make

    return make(kind)


def is_of(value: Any, kinds: tuple[t.JitType, ...]) -> bool:
    """Whether a value is of one of several types."""
    from tensocket.jit.boundary import is_value_of

    return any(is_value_of(value, kind) for kind in kinds)


def ModuleContainerIndex(owner: Any, index: Any) -> Any:  # noqa: N802  the name of the operator
    """Return a part of a container of modules."""
    if isinstance(index, str):
        return owner._modules[index]
    parts = list(owner._modules.values())
    return parts[index]


def awaitable(function: Callable[..., Any], *arguments: Any) -> Await:
    """Return the result of a function, which runs when the result is needed."""
    return Await(function, arguments)


def awaitable_nowait(value: Any) -> Await:
    """Return a value as the result of a function."""
    return Await.ready(value)


def deepcopy(value: Any) -> Any:
    """Return a copy."""
    return copy.deepcopy(value)


def warn(message: str, stacklevel: int = 2) -> None:
    """Warn."""
    warnings.warn(message, UserWarning, stacklevel=2)


def device(name: Any, index: int | None = None) -> Any:
    """Return a device."""
    import tensocket

    return tensocket.device(name) if index is None else tensocket.device(name, index)


#: Dtypes by PyTorch's numbers.
_DTYPES = ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64",
           "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16")


def dtype_of_number(number: Any) -> Any:
    """Return the dtype that PyTorch's files write as a number.

    Raises:
        ValueError: There is none.
    """
    import tensocket

    if not isinstance(number, int):
        return number
    if not 0 <= number < len(_DTYPES) or not hasattr(tensocket, _DTYPES[number]):
        raise ValueError(f"{number} is not the number of a dtype")
    return getattr(tensocket, _DTYPES[number])


def percentFormat(template: str, *values: Any) -> str:  # noqa: N802  the name of the operator
    """Return ``template % values``.

    Raises:
        ScriptError: A value is not of the type that the template asks for.
    """
    try:
        return template % values
    except (TypeError, ValueError) as error:
        raise ScriptError(f"{template!r} % {values!r}", str(error), "pass values of the types in the "
                          "template") from None


def sorted(values: list[Any], reverse: bool = False) -> list[Any]:
    """Return a list in order."""
    return builtins.sorted(values, reverse=reverse)


def wait_all(futures: list[Any]) -> list[Any]:
    """Return the results of several futures."""
    return [future.wait() for future in futures]


__all__ = ["Future", "Tensor"]
