"""Models whose parts run in several processes, which programs here do not have."""

from __future__ import annotations

from enum import Enum

from tensocket.namespace.refusals import refused

__all__ = ["SplitPoint"]


class SplitPoint(Enum):
    """Where a model is cut: before a module, or after it."""

    BEGINNING = 1
    END = 2


globals().update(refused(
    "distributed.pipelining", "Pipe PipelineStage Schedule1F1B ScheduleGPipe ScheduleInterleaved1F1B build_stage "
    "pipe_split pipeline", "the stages of a pipeline run in several processes, and programs run as 1 process",
    "call the whole model"))
