"""Scripts of functions and modules: not implemented, so everything runs as Python.

``save`` pickles a whole module, and ``load`` runs the code that such a file names: load only files that you trust.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar
from typing import Final as Final

from tensocket.errors import ArgumentError, ExportError

from .modules import (
    RecursiveScriptModule,
    ScriptFunction,
    ScriptModule,
    TopLevelTracedModule,
    original,
    script,
    trace,
    trace_module,
)

_Value = TypeVar("_Value")


class Error(RuntimeError):
    """The error that a script raises in PyTorch; never raised here."""


class Attribute(NamedTuple):
    """A value with the type that a script would give it."""

    value: Any
    type: Any


class Future:
    """The result of ``fork``, which is available at once."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def wait(self) -> Any:
        """Return the result."""
        return self._value

    def done(self) -> bool:
        """Return True."""
        return True

    value = wait


def is_scripting() -> bool:
    """Return False: nothing is compiled."""
    return False


is_tracing = is_scripting


def annotate(the_type: Any, the_value: _Value) -> _Value:
    """Return the value."""
    return the_value


def export(fn: _Value) -> _Value:
    """Return the function itself."""
    return fn


script_method = unused = interface = script_if_tracing = _script_if_tracing = export
_overload = _overload_method = export


def ignore(drop: Any = False, **options: Any) -> Any:
    """Return the function itself; given a flag, return a decorator that leaves functions unchanged."""
    return drop if callable(drop) else export


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type; the contents of containers are not checked."""
    kinds = target_type if type(target_type) is tuple else (target_type,)
    return any(_is(obj, getattr(kind, "__origin__", kind)) for kind in kinds)


def _is(obj: Any, kind: Any) -> bool:
    return issubclass(type(obj), kind)


def freeze(mod: _Value, preserved_attrs: Any = None, optimize_numerics: bool = True) -> _Value:
    """Return the module itself."""
    return mod


def optimize_for_inference(mod: _Value, other_methods: Any = None) -> _Value:
    """Return the module itself."""
    return mod


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
    """Call a function immediately; ``wait`` returns its result."""
    return Future(func(*args, **kwargs))


def wait(future: Future) -> Any:
    """Return the result of ``fork``.

    Raises:
        ArgumentError: ``future`` is None.
    """
    if future is None:
        raise ArgumentError("wait", "None", "Future can't be None", "pass what fork returned")
    return future.wait()


def save(m: Any, f: str | os.PathLike[str] | Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Write a module or function to a file, which contains the names of its classes but not their code.

    Args:
        m: The object that ``script`` or ``trace`` returned.
        f: A path or an open file.
        _extra_files: Accepted only if empty.

    Raises:
        ExportError: Extra files are given.
    """
    if _extra_files:
        raise ExportError("jit.save", f"extra files {sorted(_extra_files)}", "a file holds the module alone",
                          "write them next to it")
    import tensocket

    tensocket.save(original(m), f)


def load(f: str | os.PathLike[str] | Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None) -> Any:
    """Read a file that ``jit.save`` wrote. This runs code that the file names: load only files that you trust.

    Args:
        f: A path or an open file.
        map_location: Devices of the tensors.
        _extra_files: Accepted as in PyTorch; it stays unchanged.
    """
    import tensocket

    return script(tensocket.load(f, map_location=map_location, weights_only=False))


class strict_fusion:
    """``with strict_fusion():`` — nothing is fused, without an error."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Accept a strategy; nothing is fused."""
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Accept the setting; nothing is fused."""


__all__ = ["Attribute", "Error", "Final", "Future", "RecursiveScriptModule", "ScriptFunction", "ScriptModule",
           "TopLevelTracedModule", "annotate", "enable_onednn_fusion", "export", "fork", "freeze", "ignore",
           "interface", "is_scripting", "is_tracing", "isinstance", "load", "optimize_for_inference", "save", "script",
           "script_if_tracing", "script_method", "set_fusion_strategy", "strict_fusion", "trace", "trace_module",
           "unused", "wait"]
