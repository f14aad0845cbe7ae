"""``torch.ops.profiler``: the functions behind ``record_function``, as graphs call them; they make no own events."""

from __future__ import annotations

from tensocket_compiler.graph.purity import has_side_effect
from tensocket_operators.creation.record import factory
from tensocket_operators.graph_functions import FUNCTIONS_OF_GRAPHS
from tensocket_operators.namespaces import ops

from .annotate import record_function


def _enter(name: str, args: str | None = None) -> record_function:
    """Begin an event, and return it."""
    return record_function(name, args).__enter__()


def _exit(record: record_function) -> None:
    """End an event."""
    record.__exit__()


for _name, _function in {"_record_function_enter_new": _enter, "_record_function_exit": _exit}.items():
    FUNCTIONS_OF_GRAPHS[f"profiler::{_name}"] = factory(_function, f"profiler::{_name}")
    _packet = getattr(ops.profiler, _name)
    has_side_effect(_packet)
    has_side_effect(_packet.default)
