"""The classes and functions that a restricted file may name, and those that a file names."""

from __future__ import annotations

import pickletools
from _codecs import encode
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final

from tensocket import _utils
from tensocket.errors import ArgumentTypeError
from tensocket.nn.parameter import Parameter
from tensocket_core import device
from tensocket_operators import Size, Tensor, TypedStorage, UntypedStorage
from tensocket_plugins.contract.dtypes import DType

from .names import REBUILDERS, TABLE, StorageType, full_name, modern, written_name

Allowed = Callable[..., Any] | tuple[Callable[..., Any], str]

#: Modules whose contents no file may name, even if the program allows them.
BLOCKED: Final = frozenset({"sys", "os", "posix", "nt"})
#: The objects that every file may name.
DEFAULT: Final[dict[str, Any]] = {
    **REBUILDERS,
    **{name: value for name, value in TABLE.items()
       if isinstance(value, (DType, StorageType)) or value in (Tensor, Size, device, TypedStorage, UntypedStorage)},
    "torch._tensor._rebuild_from_type_v2": _utils._rebuild_from_type_v2,
    "torch.serialization._get_layout": TABLE["torch.serialization._get_layout"],
    "torch.nn.parameter.Parameter": Parameter,
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "_codecs.encode": encode,
    "builtins.bytearray": bytearray,
    "builtins.bytes": bytes,
    "builtins.complex": complex,
    "builtins.frozenset": frozenset,
    "builtins.set": set,
    "builtins.slice": slice,
}
_ALLOWED: Final[list[Allowed]] = []


def add_safe_globals(safe_globals: list[Allowed]) -> None:
    """Allow files to name, create and call more classes and functions.

    Args:
        safe_globals: Classes and functions, or pairs of one and the full name that files give it.

    Raises:
        ArgumentTypeError: An object has no name, or a pair does not consist of an object and a text.
    """
    for item in safe_globals:
        _named(item)
    _ALLOWED.extend(item for item in safe_globals if item not in _ALLOWED)


def get_safe_globals() -> list[Allowed]:
    """Return the objects that ``add_safe_globals`` allowed."""
    return list(_ALLOWED)


def clear_safe_globals() -> None:
    """Disallow all objects that ``add_safe_globals`` allowed."""
    _ALLOWED.clear()


class safe_globals:
    """``with safe_globals([Class]):`` — files may name these classes and functions in the block.

    Args:
        safe_globals: The same as for ``add_safe_globals``.
    """

    def __init__(self, safe_globals: list[Allowed]) -> None:
        self.safe_globals = safe_globals

    def __enter__(self) -> None:
        self._previous = get_safe_globals()
        add_safe_globals(self.safe_globals)

    def __exit__(self, *error: object) -> None:
        _ALLOWED[:] = self._previous


def _named(item: Any) -> tuple[str, Any]:
    """Return an object's full name in files, and the object."""
    value, name = item if isinstance(item, tuple) and len(item) == 2 else (item, None)
    if name is None and hasattr(value, "__module__") and hasattr(value, "__qualname__"):
        name = ".".join(written_name(value) or (value.__module__, value.__qualname__))
    if not isinstance(name, str):
        raise ArgumentTypeError("add_safe_globals", repr(item), "what is allowed is a class or a function, or a pair "
                                "of one and its full name", "pass for example [MyClass]")
    module, _, last = name.rpartition(".")
    return full_name(module, last), value


def allowed_by_program() -> dict[str, Any]:
    """Return the objects that ``add_safe_globals`` allowed, by full name."""
    return dict(_named(item) for item in _ALLOWED)


def named_in(data: bytes) -> Iterator[str]:
    """Return the full names of all classes and functions in a pickle; import nothing.

    Raises:
        ValueError: The data are not a pickle.
    """
    memo: dict[int, Any] = {}
    texts: list[Any] = []
    argument: Any
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name == "GLOBAL":
            yield full_name(*modern(*argument.split(" ", 1)))
            texts.append(None)
        elif opcode.name == "STACK_GLOBAL":
            module, name = (str(text) for text in texts[-2:])
            yield full_name(module, name)
            texts.append(None)
        elif opcode.name in ("PUT", "BINPUT", "LONG_BINPUT"):
            memo[int(argument)] = texts[-1] if texts else None
        elif opcode.name == "MEMOIZE":
            memo[len(memo)] = texts[-1] if texts else None
        elif opcode.name in ("GET", "BINGET", "LONG_BINGET"):
            texts.append(memo.get(int(argument)))
        elif opcode.stack_after:
            texts.append(argument if isinstance(argument, str) else None)
