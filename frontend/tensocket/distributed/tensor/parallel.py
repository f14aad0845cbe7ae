"""Modules whose tensors are divided among processes, of which there is one."""

from __future__ import annotations

from tensocket.namespace.refusals import refused

globals().update(refused(
    "distributed.tensor.parallel",
    "ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput PrepareModuleOutput "
    "RowwiseParallel SequenceParallel loss_parallel parallelize_module",
    "one process has its tensors whole",
    "use the tensors and modules themselves"))
