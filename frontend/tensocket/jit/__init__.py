"""Scripts: functions and modules compiled from Python or recorded from calls, with graphs that are saved and loaded."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, TypeVar
from typing import Final as Final

from tensocket.jit.asynchronous import Await, Future, fork, wait
from tensocket.jit.asynchronous import _awaitable as _awaitable
from tensocket.jit.asynchronous import _awaitable_nowait as _awaitable_nowait
from tensocket.jit.asynchronous import _awaitable_wait as _awaitable_wait
from tensocket.jit.asynchronous import fork as _fork  # noqa: F401
from tensocket.jit.asynchronous import wait as _wait  # noqa: F401
from tensocket.jit.frontend import Error
from tensocket.jit.markers import _drop as _drop
from tensocket.jit.markers import export, ignore, is_scripting, is_tracing, script_if_tracing, unused
from tensocket.jit.markers import overload as _overload
from tensocket.jit.tracer_warning import TracerWarning

_Value = TypeVar("_Value")


class Attribute(NamedTuple):
    """A value with the type that a script gives it.

    Attributes:
        value: The value.
        type: The type.
    """

    value: Any
    type: Any


from tensocket.jit import _recursive as _recursive  # noqa: E402
from tensocket.jit import _state as _state  # noqa: E402
from tensocket.jit.entry_points import interface, load, save, script  # noqa: E402  modules of scripts know Attribute
from tensocket.jit.freezing import freeze, optimize_for_inference, run_frozen_optimizations  # noqa: E402
from tensocket.jit.modules import (  # noqa: E402
    RecursiveScriptModule,
    ScriptModule,
    TopLevelTracedModule,
    TracedModule,
    script_method,
)
from tensocket.jit.script_functions import CompilationUnit, ScriptFunction  # noqa: E402
from tensocket.jit.tracing import TracingCheckError, trace, trace_module  # noqa: E402

_overload_method = _overload
_script_if_tracing = script_if_tracing


def annotate(the_type: Any, the_value: _Value) -> _Value:
    """Return the value; a script gives it the type."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether a value is of a type, such as ``List[int]``, or of one of several types."""
    from tensocket.jit.annotations import from_python
    from tensocket.jit.boundary import is_value_of

    kinds = target_type if type(target_type) is tuple else (target_type,)
    return any(is_value_of(obj, from_python(kind)) for kind in kinds)


class strict_fusion:
    """``with strict_fusion():`` — all operators of the block must be fused.

    Scripts run their operators one by one, so that those with such a block raise a ``RuntimeError`` when they are
    compiled; elsewhere, the block has no effect but a warning.
    """

    def __init__(self) -> None:
        warnings.warn("[jit.strict_fusion] a block outside of a script — it only works in script mode — leave it out",
                      stacklevel=2)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


class optimized_execution:
    """``with optimized_execution(flag):`` — whether graphs are optimised before they run.

    Scripts and traces run their operators one by one, as they were written, with neither compiler nor fusion: that is
    the execution for ``False``, and the only one.

    Args:
        should_optimize: Accepted as in PyTorch; results do not depend on it.
    """

    def __init__(self, should_optimize: bool) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def set_fusion_strategy(strategy: Any) -> list[Any]:
    """Accept a strategy; nothing is fused."""
    return []


def enable_onednn_fusion(enabled: bool) -> None:
    """Accept the setting; nothing is fused."""


__all__ = ["Attribute", "Await", "CompilationUnit", "Error", "Final", "Future", "RecursiveScriptModule",
           "ScriptFunction", "ScriptModule", "TopLevelTracedModule", "TracedModule", "TracerWarning",
           "TracingCheckError", "annotate", "enable_onednn_fusion",
           "export", "fork", "freeze", "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "load",
           "optimize_for_inference", "optimized_execution", "run_frozen_optimizations", "save", "script",
           "script_if_tracing", "script_method", "set_fusion_strategy",
           "strict_fusion", "trace", "trace_module", "unused", "wait"]
