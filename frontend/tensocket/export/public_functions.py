"""Public functions under a recorder: the symbolic numbers that they get, and those that are one call of an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from tensocket_core.dispatch.overrides import TorchFunctionMode
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_core.formats import strided
from tensocket_operators import Tensor

from .symbols import SymNumber, plain_number


class PublicFunctions(TorchFunctionMode):
    """Mode above the recorder: it notes the symbolic numbers that public functions get, and passes plain ones on."""

    def __init__(self, recorder: Any) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:
        """Run a call with plain numbers."""
        recorder = self._recorder
        before, recorder.symbols = recorder.symbols, [x for x in leaves_in([args, kwargs or {}])
                                                        if isinstance(x, SymNumber)]
        recorder.depth += 1
        try:
            given, named = plain(args), {name: plain(x) for name, x in (kwargs or {}).items()}
            record = _whole_operator(func, [given, named])
            return func(*given, **named) if record is None else recorder.run_whole(record, func, given, named)
        finally:
            recorder.depth -= 1
            recorder.symbols = before


def _whole_operator(func: Callable[..., Any], arguments: Any) -> Any:
    """Return the operator of a function of sparse tensors; None for others.

    Their class runs operators by rules of its own, whose parts and gradients have no place in graphs.
    """
    if all(x.layout is strided for x in tensors_in(arguments)):
        return None
    record = _operators().get(func)
    return None if record is None or record.schema.is_mutable else record


@cache  # one table, for the life of the process
def _operators() -> dict[Any, Any]:
    """Return the operators by their public functions."""
    return {x.public: x for x in (*OPERATORS.values(), *COMPOSITES.values()) if x.public is not None}


def plain(value: Any) -> Any:
    """Return arguments with plain numbers in place of symbolic ones."""
    if isinstance(value, SymNumber):
        return plain_number(value)
    if isinstance(value, list):  # a graph's own class of lists, too
        return [plain(x) for x in value]
    if type(value) is tuple:
        return tuple([plain(x) for x in value])
    if isinstance(value, tuple) and any(isinstance(x, SymNumber) for x in value):
        return tuple([plain(x) for x in value])
    if isinstance(value, slice):
        return slice(plain(value.start), plain(value.stop), plain(value.step))
    if type(value) is dict:
        return {name: plain(x) for name, x in value.items()}
    return value


def leaves_in(value: Any) -> Iterator[Any]:
    """Yield the leaves of arguments."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves_in(item)
    elif isinstance(value, dict):
        yield from leaves_in(list(value.values()))
    elif isinstance(value, slice):
        yield from leaves_in([value.start, value.stop, value.step])
    else:
        yield value


def tensors_in(value: Any) -> Iterator[Any]:
    """Yield the tensors among arguments."""
    return (x for x in leaves_in(value) if isinstance(x, Tensor))


def has_tensor(index: Any) -> bool:
    """Whether an index has positions or masks."""
    return any(isinstance(x, (Tensor, list)) or hasattr(x, "__array__")
               for x in (index if isinstance(index, tuple) else (index,)))
