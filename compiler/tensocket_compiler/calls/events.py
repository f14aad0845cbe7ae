"""Events of compiled functions: counters, and lines in the logs of the topics that programs ask for."""

from __future__ import annotations

import logging
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final

from tensocket_plugins.contract.errors import ArgumentError

from ..capture.guards import Change
from .describe import describe_graph, describe_groups, describe_guards, describe_kernels, describe_memory

#: The topics of logs, each a logger ``tensocket.compile.<topic>``, with their texts for a graph.
TOPICS: Final[dict[str, Callable[[Any], str] | None]] = {
    "guards": describe_guards, "graph": describe_graph, "groups": describe_groups, "kernels": describe_kernels,
    "memory": describe_memory, "recompiles": None, "eager": None}
#: The variable with the topics of a process, separated by commas.
VARIABLE: Final = "TENSOCKET_COMPILE_LOG"
#: Numbers of events, by kind and name, as PyTorch's ``torch._dynamo.utils.counters``; programs clear it.
COUNTERS: Final[defaultdict[str, Counter[str]]] = defaultdict(Counter)
_ROOT: Final = logging.getLogger("tensocket.compile")
_ROOT.setLevel(logging.WARNING)  # texts of graphs are long: whoever wants them asks for a topic
_LOGS: Final = {topic: _ROOT.getChild(topic) for topic in TOPICS}


def set_topics(topics: Iterable[str]) -> None:
    """Log these topics, and no others, to the standard error stream, or to the handlers that the program has set.

    Raises:
        ArgumentError: There is no such topic.
    """
    wanted = [topic.strip() for topic in topics if topic.strip()]
    unknown = sorted(set(wanted) - set(TOPICS))
    if unknown:
        raise ArgumentError(VARIABLE, ", ".join(unknown), f"topics are {', '.join(TOPICS)}", "name some of these")
    for topic, log in _LOGS.items():
        log.setLevel(logging.INFO if topic in wanted else logging.NOTSET)
    if wanted and not _ROOT.hasHandlers():
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
        _ROOT.addHandler(handler)


def is_logged(topic: str) -> bool:
    """Whether a topic is logged; its text need not be made otherwise."""
    return _LOGS[topic].isEnabledFor(logging.INFO)


def name_of(function: Any) -> str:
    """Return the name of a function or module for messages, with its file and line if it has some."""
    name = str(getattr(function, "__qualname__", type(function).__qualname__))
    code = getattr(function, "__code__", None)
    return name if code is None else f"{name} ({code.co_filename}:{code.co_firstlineno})"


def note_variant(function: Any, variant: Any) -> None:
    """Count and log a new graph."""
    COUNTERS["stats"]["unique_graphs"] += 1
    COUNTERS["stats"]["calls_captured"] += variant.operators
    for topic, describe in TOPICS.items():
        if describe is not None and is_logged(topic):
            text = describe(variant)
            if text:
                _LOGS[topic].info("%s\n%s", name_of(function), text)


def note_refusal(function: Any, reason: str) -> None:
    """Count and log why a call cannot be captured."""
    COUNTERS["graph_break"][reason] += 1
    _LOGS["eager"].info("%s runs eagerly: %s", name_of(function), reason)


def note_recompile(function: Any, change: Change | None) -> None:
    """Count and log a call that no graph fits, with the first thing that changed."""
    COUNTERS["recompiles"][name_of(function)] += 1
    if change is not None:
        _LOGS["recompiles"].info("%s needs another graph: %s", name_of(function), describe_change(change))


def describe_change(change: Change) -> str:
    """Return a change as text: its path, the old and the new value."""
    return f"{change.path} was {change.old!r:.80}, is {change.new!r:.80}"


set_topics(os.environ.get(VARIABLE, "").split(","))
