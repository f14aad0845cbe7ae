"""Profiles: events and how they nest, times, memory, schedules, tables and files."""

from __future__ import annotations

import doctest
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import tensocket as torch
from tensocket import nn, profiler
from tensocket.autograd import profiler as older
from tensocket.profiler import ProfilerAction, ProfilerActivity, events, profiling, record_function, schedule
from tensocket_core.dispatch.modes import ACTIVE, STATE
from tensocket_core.recording import RECORDING_SLOW_PATHS


@pytest.fixture(autouse=True)
def _nothing_stays_on() -> Any:
    before = len(ACTIVE), len(RECORDING_SLOW_PATHS)
    yield
    assert STATE.tracer is None
    assert (len(ACTIVE), len(RECORDING_SLOW_PATHS)) == before


def names(p: Any) -> list[str]:
    return [event.name for event in p.events()]


def test_doctests() -> None:
    assert doctest.testmod(events).failed == 0
    assert doctest.testmod(profiling).failed == 0


def test_calls_are_events_that_nest() -> None:
    x = torch.ones(3, requires_grad=True)
    with profiler.profile() as p:
        with record_function("block"):
            loss = torch.nn.functional.mse_loss(x, torch.zeros(3))
        loss.backward()
    block = p.events()[0]
    assert block.name == "block"
    assert block.is_user_annotation
    inside = [child.name for child in block.cpu_children]
    assert inside == ["aten::zeros", "aten::mse_loss"]
    loss_event = block.cpu_children[1]
    assert loss_event.cpu_parent is block
    assert loss_event.cpu_children
    assert any(name.endswith("Backward0") for name in names(p))


def test_operators_mark_events() -> None:
    space = torch.ops.profiler
    with profiler.profile() as p:
        event = space._record_function_enter_new("range", "details")
        torch.ones(3)
        space._record_function_exit(event)
    (block,) = [event for event in p.events() if event.name == "range details"]
    assert block.is_user_annotation
    assert "aten::ones" in [child.name for child in block.cpu_children]


def test_operators_that_mark_events_stay_in_graphs() -> None:
    space, graph = torch.ops.profiler, torch.fx.Graph()
    begin = graph.call_function(space._record_function_enter_new, ("range",))
    graph.call_function(space._record_function_exit.default, (begin,))
    graph.call_function(torch.ones, (1,))
    graph.output(None)
    graph.eliminate_dead_code()
    assert [node.target for node in graph.nodes if node.op == "call_function"] == [
        space._record_function_enter_new, space._record_function_exit.default]
    assert torch.fx.GraphModule({}, graph)() is None


def test_times_add_up() -> None:
    with profiler.profile() as p, record_function("outer"):
        for _ in range(3):
            torch.ones(10).exp()
    outer = p.events()[0]
    parts = outer.self_cpu_time_total + sum(child.cpu_time_total for child in outer.cpu_children)
    assert parts == pytest.approx(outer.cpu_time_total)
    assert p.events().self_cpu_time_total == pytest.approx(outer.cpu_time_total)
    for event in p.events():
        assert 0 <= outer.time_range.start <= event.time_range.start <= event.time_range.end <= outer.time_range.end
        assert event.self_cpu_time_total >= 0
    average = next(a for a in p.key_averages() if a.key == "aten::exp")
    assert average.count == 3
    assert average.cpu_time == pytest.approx(average.cpu_time_total / 3)
    assert average.cuda_time_total == average.device_time_total == 0
    assert average.cpu_time_str == events.time_text(average.cpu_time)
    total = p.events().total_average()
    assert total.count == len(p.events())
    with pytest.raises(AttributeError, match="no attribute 'speed'"):
        _ = average.speed


def test_shapes_are_recorded_and_told_apart() -> None:
    with profiler.profile(record_shapes=True) as p:
        torch.ones(2, 3) @ torch.ones(3, 4)
        torch.ones(2, 2) @ torch.ones(2, 2)
    product = next(event for event in p.events() if event.name == "aten::matmul")
    assert product.input_shapes == [[2, 3], [3, 4]]
    shapes = [a.input_shapes for a in p.key_averages(group_by_input_shape=True) if a.key == "aten::matmul"]
    assert shapes == [[[2, 3], [3, 4]], [[2, 2], [2, 2]]]
    assert "[[2, 3], [3, 4]]" in p.key_averages(group_by_input_shape=True).table()
    with profiler.profile(record_shapes=True) as q:
        torch.cat([torch.ones(2), torch.ones(3)])
    assert q.events()[-1].input_shapes[0] == [[2], [3]]


def test_operations_are_counted_once() -> None:
    with profiler.profile(with_flops=True) as p:
        torch.nn.functional.linear(torch.ones(5, 7), torch.ones(3, 7))
        torch.ones(2, 3) @ torch.ones(3, 4)
        torch.nn.functional.conv2d(torch.ones(1, 2, 5, 5), torch.ones(4, 2, 3, 3))
        torch.ones(10) * 2
    assert sum(event.flops for event in p.events()) == 2 * 5 * 3 * 7 + 2 * 2 * 4 * 3 + 2 * 4 * 9 * 2 * 9 + 10
    assert "MFLOPs" in p.key_averages().table()


def test_memory_is_followed() -> None:
    given = torch.ones(1000)
    with profiler.profile(profile_memory=True) as p:
        with record_function("kept"):
            kept = given * 2
        with record_function("dropped"):
            (given + 1).sum()
        given.add_(1)
        kept[2:]
        del kept
    usage = {event.name: event.cpu_memory_usage for event in p.events()}
    assert usage["kept"] == 4000
    assert usage["aten::mul"] == 4000
    assert usage["dropped"] == 0
    assert usage["aten::add_"] == 0
    changes = p._changes
    assert [c.nbytes for c in changes] == [4000, 4000, 4, -4000, -4, -4000]
    assert max(c.total for c in changes) == 8004
    assert changes[-1].total == 0
    assert "3.91 KB" in p.key_averages().table()


def test_calls_are_located(tmp_path: Path) -> None:
    with profiler.profile(with_stack=True) as p:
        for _ in range(20):
            torch.ones(100, 100) @ torch.ones(100, 100)
    stack = next(event.stack for event in p.events() if event.name == "aten::matmul")
    assert stack[0].startswith(__file__)
    assert stack[0].endswith("test_calls_are_located")
    p.export_stacks(str(tmp_path / "stacks.txt"))
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert any("test_calls_are_located" in line and int(line.rpartition(" ")[2]) > 0 for line in lines)
    with pytest.raises(ValueError, match="the metric is a time of an event alone"):
        p.export_stacks(str(tmp_path / "stacks.txt"), "count")
    assert __file__[-20:] in p.key_averages(group_by_stack_n=1).table(max_src_column_width=0)


def test_modules_and_optimizers_are_events() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with profiler.profile(with_modules=True) as p:
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    found = [name for name in names(p) if name.startswith("nn.Module")]
    assert found == ["nn.Module: Sequential_0", "nn.Module: Linear_0", "nn.Module: ReLU_0", "nn.Module: Linear_1"]
    assert "Optimizer.step#SGD.step" in names(p)
    model(torch.ones(1, 2))


def test_errors_end_events() -> None:
    with pytest.raises(RuntimeError), profiler.profile() as p, record_function("block"):
        torch.ones(2) + torch.ones(3)
    assert names(p)[0] == "block"
    assert all(event.time_range.end > 0 for event in p.events())


def test_devices_are_measured() -> None:
    x = torch.ones(8, 8, device="ref")
    with profiler.profile() as p:
        x.exp()
    event = next(event for event in p.events() if event.name == "aten::exp")
    assert event.use_device == "ref"
    assert event.device_time_total > 0
    assert "Self REF" in p.key_averages().table(sort_by="cuda_time_total")
    with profiler.profile(activities=[ProfilerActivity.CPU]) as q:
        x.exp()
    assert q.events()[0].use_device is None


# --------------------------------------------------------------------------------------------------------- schedules


def test_schedule() -> None:
    plan = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    assert [plan(step).name for step in range(11)] == [
        "NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE",
        "NONE"]
    for wrong in ({"wait": -1}, {"active": 0}):
        with pytest.raises(AssertionError, match="numbers of steps are not negative, and active is positive"):
            schedule(**{"wait": 0, "warmup": 1, "active": 1, **wrong})
    with pytest.warns(UserWarning, match="without warmup"):
        assert schedule(wait=1, warmup=0, active=1, skip_first_wait=1)(0) is ProfilerAction.RECORD_AND_SAVE


def test_cycles_are_handed_over() -> None:
    ready: list[list[str]] = []
    with profiler.profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
                          on_trace_ready=lambda p: ready.append(names(p))) as p:
        for _ in range(9):
            torch.ones(1)
            p.step()
    assert [[n for n in cycle if n.startswith("Profiler")] for cycle in ready] == [
        ["ProfilerStep#2", "ProfilerStep#3"], ["ProfilerStep#6", "ProfilerStep#7"]]
    assert ready[0].count("aten::ones") == 2


def test_a_recording_that_is_cut_off_is_saved() -> None:
    ready: list[int] = []
    with profiler.profile(schedule=schedule(wait=0, warmup=1, active=3),
                          on_trace_ready=lambda p: ready.append(p.step_num)) as p:
        p.step()
        torch.ones(1)
    assert ready == [1]
    plan = [ProfilerAction.RECORD, ProfilerAction.NONE].__getitem__
    q = profiler.profile(schedule=plan)

    def one_step():
        with q:
            torch.ones(1)
            q.step()

    with pytest.warns(UserWarning, match="stops recording without saving"):
        one_step()
    assert "aten::ones" in names(q)


def test_pause_and_accumulate() -> None:
    p = profiler.profile(acc_events=True)
    with pytest.raises(RuntimeError, match="a recording is complete before it is read"):
        p.events()
    with pytest.raises(RuntimeError, match="a recording is paused while it goes on"):
        p.toggle_collection_dynamic(False, [])
    for _ in range(2):
        p.start()
        torch.ones(1)
        p.toggle_collection_dynamic(False, [])
        torch.zeros(1)
        p.toggle_collection_dynamic(True, [])
        torch.ones(1)
        p.stop()
    assert names(p) == ["aten::ones"] * 4
    with pytest.raises(AssertionError, match="at least one activity is measured"):
        profiler.profile(activities=[])


# ------------------------------------------------------------------------------------------------------------- files


def test_chrome_trace(tmp_path: Path) -> None:
    with profiler.profile(record_shapes=True, profile_memory=True, custom_trace_id_callback=lambda: "mine") as p:
        with record_function("block", "args"):
            torch.ones(2) + 1
        torch.ones(2, device="ref").exp()
    p.add_metadata("note", "text")
    p.add_metadata_json("numbers", "[1, 2]")
    for path in (tmp_path / "trace.json", tmp_path / "trace.json.gz"):
        p.export_chrome_trace(str(path))
        data = path.read_bytes()
        trace = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
        assert (trace["note"], trace["numbers"], trace["trace_id"]) == ("text", [1, 2], "mine")
        found = {event["name"]: event for event in trace["traceEvents"] if event["ph"] == "X"}
        outer, inner = found["block args"], found["aten::add"]
        assert outer["ts"] <= inner["ts"]
        assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
        assert inner["args"]["Input Dims"][0] == [2]
        assert any(event.get("cat") == "kernel" for event in trace["traceEvents"])
        assert any(event["ph"] == "C" and event["args"]["bytes"] == 8 for event in trace["traceEvents"])


def test_tensorboard_handler(tmp_path: Path) -> None:
    for zipped in (False, True):
        handler = profiler.tensorboard_trace_handler(str(tmp_path / "log"), "worker", use_gzip=zipped)
        with profiler.profile(on_trace_ready=handler):
            torch.ones(1)
    files = sorted(path.name for path in (tmp_path / "log").iterdir())
    assert len(files) == 2
    assert all(name.startswith("worker.") for name in files)
    assert [name.endswith(".pt.trace.json.gz") for name in files] in ([False, True], [True, False])


def test_memory_timeline(tmp_path: Path) -> None:
    with profiler.profile(profile_memory=True) as p:
        kept = torch.ones(100) * 2
    p.export_memory_timeline(str(tmp_path / "memory.json.gz"), device="cpu")
    times, totals, changes, operators = json.loads(gzip.decompress((tmp_path / "memory.json.gz").read_bytes()))
    assert totals[-1] == kept.numel() * 4
    assert sum(changes) == totals[-1]
    assert len(times) == len(operators)
    with pytest.raises(ValueError, match="the path ends with the format"):
        p.export_memory_timeline(str(tmp_path / "memory.txt"))
    with pytest.raises(ValueError, match="its memory was measured"):
        p.export_memory_timeline(str(tmp_path / "memory.json"), device="ref")
    with profiler.profile() as q:
        pass
    with pytest.raises(ValueError, match="memory was measured"):
        q.export_memory_timeline(str(tmp_path / "memory.json"))


def test_table() -> None:
    with profiler.profile() as p:
        for _ in range(3):
            torch.ones(1).exp()
    averages = p.key_averages()
    text = averages.table(sort_by="count", row_limit=1, header="Mine", time_unit="us", max_name_column_width=8)
    lines = text.splitlines()
    assert lines[0] == "Mine"
    assert lines[2].split()[:4] == ["Name", "Self", "CPU", "%"]
    assert lines[4].split()[0] == "aten:..."
    assert text.endswith("us\n")
    assert str(averages) == averages.table()
    assert len(p.events().table(top_level_events_only=True).splitlines()) == 5 + 6
    assert events.EventList().table() == ""
    with pytest.raises(AttributeError):
        averages.table(sort_by="zzz")


def test_decorator_and_nothing_on() -> None:
    @record_function("square")
    def square(x: torch.Tensor) -> torch.Tensor:
        return x * x

    assert square(torch.ones(1)).item() == 1.0
    with profiler.profile() as p:
        square(torch.ones(1))
    assert "square" in names(p)


def test_what_is_there() -> None:
    assert ProfilerActivity.CPU in profiler.supported_activities()
    assert profiler.kineto_available()


def test_older_profiler(tmp_path: Path) -> None:
    with older.profile(record_shapes=True) as p, older.record_function("block"):
        torch.ones(2).exp()
    assert [e.name for e in p.function_events] == ["block", "aten::ones", "aten::exp"]
    assert "aten::exp" in str(p)
    assert p.total_average().count == 3
    assert p.self_cpu_time_total == pytest.approx(p.key_averages().self_cpu_time_total)
    p.export_chrome_trace(str(tmp_path / "trace.json"), {"note": "text"})
    assert json.loads((tmp_path / "trace.json").read_text())["note"] == "text"
    assert p.table(sort_by="cpu_time")
    with older.profile(enabled=False) as off:
        torch.ones(1)
    assert str(off) == "<unfinished profile>"
    with older.emit_nvtx(), older.emit_itt(record_shapes=True):
        assert torch.ones(1).item() == 1.0
