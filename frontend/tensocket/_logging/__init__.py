"""Logs of compiled functions under PyTorch's names; ``TENSOCKET_COMPILE_LOG`` sets the same ones for a process."""

from __future__ import annotations

import logging
from typing import Any, Final

from tensocket_compiler.calls.events import TOPICS, set_topics

#: The topics of logs by PyTorch's names of artifacts.
_ARTIFACTS: Final = {
    "graph_breaks": "eager", "recompiles": "recompiles", "recompiles_verbose": "recompiles", "guards": "guards",
    "graph": "graph", "graph_code": "graph", "aot_graphs": "graph", "aot_joint_graph": "graph",
    "pre_grad_graphs": "graph", "post_grad_graphs": "graph", "output_code": "kernels", "kernel_code": "kernels",
    "fusion": "groups", "schedule": "groups", "ir_pre_fusion": "groups", "ir_post_fusion": "groups",
    "memory": "memory", "groups": "groups", "kernels": "kernels"}
#: PyTorch's components that compile functions; at the level of debugging, they log all topics.
_COMPONENTS: Final = frozenset({"all", "dynamo", "aot", "inductor", "dynamic"})


def set_logs(*, modules: dict[str, Any] | None = None, **artifacts: Any) -> None:
    """Log what the compiler does; a call replaces the choice of former ones.

    Args:
        modules: Artifacts by name, as further keyword arguments.
        artifacts: ``graph_breaks``, ``recompiles``, ``guards``, ``graph``, ``output_code``, ``fusion`` and others, each
            True or False. ``dynamo``, ``aot``, ``inductor`` and ``all`` take a level of ``logging``. Names of other
            parts of PyTorch have no effect.
    """
    wanted: set[str] = set()
    for name, value in {**artifacts, **(modules or {})}.items():
        if name in _COMPONENTS:
            wanted.update(TOPICS if value is not None and value <= logging.DEBUG else ())
        elif value and name in _ARTIFACTS:
            wanted.add(_ARTIFACTS[name])
    set_topics(sorted(wanted))


__all__ = ["set_logs"]
