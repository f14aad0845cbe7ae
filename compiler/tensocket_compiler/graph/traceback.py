"""Metadata of the node that is running, which nodes recorded meanwhile inherit."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

from .node import Node


class _State:
    """The metadata in use; one per process, like the patches of a tracer."""

    def __init__(self) -> None:
        self.preserves = False
        self.meta: dict[str, Any] = {}
        self.replayed: Node | None = None


STATE: Final = _State()


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Let nodes that are recorded in the block inherit the metadata of the node that runs."""
    earlier, meta = STATE.preserves, STATE.meta
    STATE.preserves, STATE.meta = enable, dict(meta)
    try:
        yield
    finally:
        STATE.preserves, STATE.meta = earlier, meta


def has_preserved_node_meta() -> bool:
    """Whether recorded nodes inherit metadata."""
    return STATE.preserves


def set_stack_trace(stack: list[str]) -> None:
    """Set the stack trace that recorded nodes inherit, if they inherit metadata."""
    if STATE.preserves and stack:
        STATE.meta["stack_trace"] = "".join(stack)


def format_stack() -> list[str]:
    """Return the lines of the stack trace that nodes inherit; without one, those of the calls that run."""
    if STATE.preserves:
        return [STATE.meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Add entries to ``meta["custom"]`` of the nodes that are recorded in the block."""
    had = "custom" in STATE.meta
    earlier = STATE.meta.get("custom", {})
    STATE.meta["custom"] = {**earlier, **annotation_dict}
    try:
        yield
    finally:
        if had:
            STATE.meta["custom"] = earlier
        else:
            del STATE.meta["custom"]


def annotate_fn(annotation_dict: dict[str, Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function so that it runs in ``annotate(annotation_dict)``."""
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return function(*args, **kwargs)

        return annotated

    return decorate


@contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """Let nodes that are recorded in the block inherit a node's metadata, if inheritance is on."""
    if not STATE.preserves or not node.meta:
        yield
        return
    earlier = STATE.meta
    STATE.meta = {**node.meta, "from_node": [*node.meta.get("from_node", []), (node.name, node.target)]}
    if "custom" in earlier:
        STATE.meta["custom"] = {**node.meta.get("custom", {}), **earlier["custom"]}
    try:
        yield
    finally:
        STATE.meta = earlier


def get_current_meta() -> dict[str, Any]:
    """Return the metadata that recorded nodes inherit."""
    return STATE.meta


@contextmanager
def set_current_replay_node(node: Node | None) -> Iterator[None]:
    """Set the node that ``get_current_replay_node`` returns in the block."""
    earlier, STATE.replayed = STATE.replayed, node
    try:
        yield
    finally:
        STATE.replayed = earlier


def get_current_replay_node() -> Node | None:
    """Return the node that is being run again, or None."""
    return STATE.replayed
