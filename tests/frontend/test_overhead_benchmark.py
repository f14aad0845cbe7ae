"""``benchmarks/overhead.py``: it runs, with tiny counts, and says what it measured."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "overhead.py"


@pytest.fixture(scope="module")
def overhead():
    spec = importlib.util.spec_from_file_location("overhead_under_test", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_row_is_measured_once_for_each_interpreter(overhead, tmp_path, capsys):
    path = tmp_path / "found.json"
    tiny = ["--calls", "2", "--repetitions", "2", "--warm", "2", "--json", str(path)]
    assert overhead.main(["--python", sys.executable, "--python", sys.executable, *tiny]) == 0
    found = json.loads(path.read_text("utf-8"))
    assert (found["calls"], found["repetitions"], found["interpreters"]) == (2, 2, [sys.executable] * 2)
    assert [row["row"] for row in found["rows"]] == list(overhead.ROWS)
    for row in found["rows"]:
        assert min(row["us"]) > 0
        assert row["ratio"] == pytest.approx(row["us"][1] / row["us"][0])
    printed = capsys.readouterr().out
    assert all(row in printed for row in overhead.ROWS)
    assert "geometric mean" in printed


class Scripted:
    """A worker whose times are known."""

    def __init__(self, name, turns, times):
        self.name, self.turns, self.times = name, turns, iter(times)

    def time(self, rows, calls, *, warm=False):
        self.turns.append((self.name, warm))
        return dict.fromkeys(rows, next(self.times))


def test_workers_take_turns_and_the_least_counts(overhead):
    turns = []
    workers = [Scripted("a", turns, [5.0, 2.0, 3.0]), Scripted("b", turns, [4.0, 6.0, 4.5])]
    assert overhead.measure(workers, ["add"], 1, 3) == [{"add": 2.0}, {"add": 4.0}]
    assert turns == [("a", True), ("b", True), *[("a", False), ("b", False)] * 2]


@pytest.mark.parametrize(("arguments", "words"), [
    (["--tree", "a", "--tree", "b", "--python", "c"], "not more"), (["--only", "nonsense"], "no row matches"),
    (["--calls", "0"], "at least 1"), (["--repetitions", "0"], "at least 1")])
def test_wrong_options_are_refused(overhead, arguments, words, capsys):
    with pytest.raises(SystemExit):
        overhead.main(arguments)
    assert words in capsys.readouterr().err


def test_trees_are_measured_by_their_environments(overhead):
    (python,) = overhead.parsed(["--tree", "some"]).python
    assert Path(python).parts[-4] == "some"
    assert Path(python).parts[-3] == ".venv"
    assert overhead.parsed(["--only", "add*"]).rows == ["add", "add, gradient", "add in place"]
