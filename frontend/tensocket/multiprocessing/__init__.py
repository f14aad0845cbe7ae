"""``multiprocessing`` for tensors: processes and queues that share the memory of tensors instead of copying it.

All names of Python's module are also here. Importing this module makes tensors travel through shared memory.
"""

from __future__ import annotations

import multiprocessing as _python
from multiprocessing import *  # noqa: F403
from multiprocessing import context, pool, queues, reduction

from . import reductions
from .reductions import (
    get_all_sharing_strategies,
    get_sharing_strategy,
    init_reductions,
    set_sharing_strategy,
)
from .spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

init_reductions()

__all__ = [
    *_python.__all__,
    "ProcessContext",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "context",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "init_reductions",
    "pool",
    "queues",
    "reduction",
    "reductions",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]
