"""Functions of tensors that are divided among processes, of which there is one."""

from __future__ import annotations

from tensocket.namespace.refusals import refused

globals().update(refused(
    "distributed.tensor.experimental", "context_parallel implicit_replication local_map register_sharding",
    "one process has its tensors whole", "use the tensors and modules themselves"))
