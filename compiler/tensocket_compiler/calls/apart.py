"""Calls that run apart from a graph, such as the steps of schedules, and the options that they set."""

from __future__ import annotations

from collections.abc import Sequence

from ..capture.guards import Effect
from ..capture.options import moved_option
from ..capture.recorder import CannotRecord, Recorder
from ..capture.watch import Observation
from ..schedule.dependencies import changes_inputs
from .moving import Moves


def check_apart(recorder: Recorder, effects: Sequence[Effect], seen: Observation | None, live: bool) -> None:
    """Check that calls which run apart may run behind the graph.

    Args:
        recorder: The recorder of the run.
        effects: Its assignments.
        seen: The observed call.
        live: Whether a result has a graph, which may run again.

    Raises:
        Moves: They set options that the graph must read at each call.
        CannotRecord: The graph modifies tensors behind them: if one raises an error, these would be as they were.
    """
    reads = recorder.options
    if live and (reads.calls or reads.places):
        raise CannotRecord("its result has a graph, and it reads or sets options that change")
    if not reads.calls:
        return
    places = [place for place in [moved_option(effect, seen) for effect in effects] if place is not None]
    if places:
        raise Moves(places)
    if any(changes_inputs(operation) for operation in recorder.recording.operations[recorder.apart_at:]):
        raise CannotRecord("it modifies a tensor that was there before after the step of a schedule")
