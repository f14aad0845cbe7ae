"""The profiler, by the module from which programs for PyTorch import it."""

from __future__ import annotations

from tensocket.profiler import ProfilerAction, ProfilerActivity, profile, schedule, tensorboard_trace_handler


def _default_schedule_fn(_: int) -> ProfilerAction:
    """Return the action of every step without a schedule: ``RECORD``."""
    return ProfilerAction.RECORD

__all__ = ["ProfilerActivity", "profile", "schedule", "tensorboard_trace_handler"]
