"""Events that programs make themselves: trees from times, and averages."""

from __future__ import annotations

import tensocket as torch
from tensocket.autograd import profiler
from tensocket.autograd.profiler_util import EventList, FunctionEvent, FunctionEventAvg


def event(number: int, thread: int, start: float, end: float, **more: object) -> FunctionEvent:
    return FunctionEvent(id=number, name="f", thread=thread, start_us=start, end_us=end, **more)


def test_events_are_children_of_those_around_them_in_their_thread() -> None:
    events = EventList([event(1, 1, 0, 1), event(2, 1, 1, 2), event(3, 0, 0, 2), event(4, 0, 1, 2), event(5, 0, 1, 3),
                        event(6, 0, 1, 3, is_async=True)])
    events._populate_cpu_children()
    assert [[child.id for child in e.cpu_children] for e in events] == [[], [], [], [], [4], []]
    assert events[3].cpu_parent is events[4]
    assert events[4].self_cpu_time_total == 1
    assert events[5].self_cpu_time_total == 0


def test_averages_take_the_key_of_the_first_event() -> None:
    average = FunctionEventAvg()
    average.add(event(0, 0, 10, 15)).add(event(1, 0, 20, 30)).add(average)
    assert (average.key, average.count, average.cpu_time_total, average.cpu_time) == ("f", 4, 30, 7.5)


def test_whether_this_thread_is_measured() -> None:
    assert torch.autograd.kineto_available()
    with profiler.profile(use_kineto=True) as measured:
        assert torch.autograd._profiler_enabled()
        torch.ones(2) * 2
    assert not torch.autograd._profiler_enabled()
    assert "aten::mul" in [e.name for e in measured.function_events]
