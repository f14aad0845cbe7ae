"""Memory over time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...profiler.events import memory_text
from .figures import ending_of, new_figure, write_figure


def memory_timeline(profile: Any, path: Any = None) -> Any:
    """Draw the bytes of live results over time, one line per device, with the largest value.

    Args:
        profile: A ``profiler.profile`` that was made with ``profile_memory=True``, or its changes of memory.
        path: File of the picture: ``.svg``, ``.png``, ``.pdf`` or ``.html``.

    Returns:
        The matplotlib figure.

    Raises:
        ArgumentError: The path has another extension.
        MissingPackage: matplotlib is not installed.
    """
    if path is not None:
        ending_of("memory_timeline", path)
    changes: Iterable[Any] = getattr(profile, "_changes", profile)
    figure = new_figure("memory_timeline", 9, 4)
    axes = figure.add_subplot()
    by_device: dict[str, list[Any]] = {}
    for change in changes:
        by_device.setdefault(change.device, []).append(change)
    for device, given in by_device.items():
        times, totals = [c.time / 1e3 for c in given], [c.total for c in given]
        peak = max(given, key=lambda c: c.total)
        label = f"{device}: {memory_text(peak.total)} at most" + (f" ({peak.event})" if peak.event else "")
        axes.step(times, totals, where="post", label=label)
        axes.fill_between(times, totals, step="post", alpha=0.2)
    axes.set(xlabel="time in ms", ylabel="bytes of living results", title="Memory")
    axes.yaxis.set_major_formatter(lambda value, _: memory_text(int(value)))
    if by_device:
        axes.legend(loc="upper left")
    if path is not None:
        write_figure("memory_timeline", figure, path)
    return figure
