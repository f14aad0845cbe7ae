"""The profiler, by the module from which programs for PyTorch import it."""

from __future__ import annotations

from tensocket.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

__all__ = ["ProfilerActivity", "profile", "schedule", "tensorboard_trace_handler"]
