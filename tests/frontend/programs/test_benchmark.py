"""Timers of statements."""

from __future__ import annotations

import pytest

import tensocket as torch
from tensocket.utils.benchmark import Compare, Measurement, TaskSpec, Timer


def test_a_statement_runs_as_often_as_asked():
    calls = []
    measured = Timer("calls.append(1)", globals={"calls": calls}, label="append", sub_label="list").timeit(100)
    assert len(calls) == 101
    assert measured.number_per_run == 100
    assert measured.mean == measured.median == measured.raw_times[0] / 100
    assert measured.iqr == 0
    assert "append: list" in repr(measured)
    assert "1 measurement, 100 runs per measurement, 1 thread" in repr(measured)


def test_blocks_are_long_enough():
    blocks = []
    measured = Timer("x + 1", "x = 1").blocked_autorange(lambda number, seconds: blocks.append(number),
                                                         min_run_time=0.005)
    assert sum(measured.raw_times) >= 0.005
    assert blocks == [measured.number_per_run] * len(measured.raw_times)
    assert Timer("x + 1", "x = 1").adaptive_autorange(min_run_time=0.001, max_run_time=0.02).median > 0
    assert len(Timer().repeat(2, 10)) == 2


def test_statements_know_torch_and_may_be_indented():
    kept = []
    Timer("""
        with torch.no_grad():
            kept.append(x + 1)
    """, """
        x = torch.ones(1, requires_grad=True)
        for _ in range(2):
            x = x + 1
    """, globals={"kept": kept}).timeit(1)
    assert {(y.item(), y.requires_grad) for y in kept} == {(4.0, False)}
    assert Timer("torch.append(1)", globals={"torch": kept}).timeit(1).median > 0
    assert kept[-1] == 1


def test_threads_are_put_back():
    before = torch.get_num_threads()
    Timer("pass", num_threads=2).timeit(1)
    assert torch.get_num_threads() == before


def test_statistics_and_tables(capsys):
    spec = TaskSpec("x", label="row", description="column")
    measured = Measurement(2, [2.0, 4.0, 6.0], spec)
    assert (measured.times, measured.mean, measured.median, measured.iqr) == ([1, 2, 3], 2, 2, pytest.approx(1))
    table = Compare([measured])
    table.extend_results([Measurement(1, [2e-3], TaskSpec("x", label="row", description="other"))])
    table.trim_significant_figures()
    table.colorize()
    table.print()
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["column", "other"]
    assert row.split() == ["row", "(1", "threads)", "2.00", "s", "2.00", "ms"]
    for seconds, text in ((2e-6, "2.00 us"), (3e-9, "3.00 ns")):
        assert text in repr(Measurement(1, [seconds], spec))
