"""Metadata that recorded nodes inherit from the node that runs."""

from __future__ import annotations

from tensocket_compiler.graph.traceback import (
    annotate,
    annotate_fn,
    format_stack,
    get_current_meta,
    get_current_replay_node,
    has_preserved_node_meta,
    preserve_node_meta,
    set_current_meta,
    set_current_replay_node,
    set_stack_trace,
)

__all__ = ["annotate", "annotate_fn", "format_stack", "get_current_meta", "get_current_replay_node",
           "has_preserved_node_meta", "preserve_node_meta", "set_current_meta", "set_current_replay_node",
           "set_stack_trace"]
