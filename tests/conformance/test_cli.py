"""The command ``tensocket conformance``: what it prints and how it exits."""

from __future__ import annotations

import json

import pytest
from tensocket_toy.backend import ToyDevice

from tensocket_conformance.cli import main


def test_a_green_run(double, capsys, tmp_path):
    name = double()
    path = tmp_path / "report.json"
    assert main([name, "--select", "T2.op.add/f32/*", "--report", str(path), "--seed", "3"]) == 0
    out = capsys.readouterr().out
    assert f"conformance of {name}:0" in out
    assert "NOT A CERTIFICATION RUN" not in out
    report = json.loads(path.read_text("utf-8"))
    assert report["identity"]["seed"] == 3
    assert report["totals"]["PASS"] == report["totals"]["selected"] > 15
    assert report["claims"]["dtypes"] == ["b8", "u8", "i8", "i16", "i32", "i64", "f16", "f32", "f64", "u32"]
    assert report["environment"]["device"]["model"] == "NumPy behind a queue"


def test_a_red_run_and_its_repetition(double, capsys):
    import numpy as np

    name = double(kernels={"exp": lambda out, ins, scalars: np.copyto(out, ins[0])})
    assert main([name, "--select", "T2.op.exp/f32/prime#0"]) == 1
    out = capsys.readouterr().out
    command = f"tensocket conformance repro 'T2.op.exp/f32/prime#0' --device {name}:0 --seed 0"
    assert command in out
    assert main(["repro", "T2.op.exp/f32/prime#0", "--device", f"{name}:0", "--seed", "0"]) == 1
    assert "of 91 elements are off" in capsys.readouterr().out


def test_repetition_of_a_passing_case(double, capsys):
    assert main(["repro", "T2.op.exp/f32/prime#0", "--device", double()]) == 0
    assert "of the allowed error" in capsys.readouterr().out


def test_quick_says_so(double, capsys):
    assert main([double(), "--quick", "--select", "T2.bad.add*"]) == 0
    assert "NOT A CERTIFICATION RUN" in capsys.readouterr().out


def test_list_runs_nothing(double, capsys):
    assert main([double(kernels={"add": None}), "--list", "--select", "T2.op.add/f32/prime#0"]) == 0
    assert capsys.readouterr().out.split() == ["T0.load.state", "T0.load.open", "T1.memory.roundtrip/f32/values",
                                               "T2.op.add/f32/prime#0"]


def test_shards_run_every_case_once(double, capsys):
    name = double()
    select = ["--select", "T2.op.*/f32/prime#0"]
    assert main([name, *select, "--list"]) == 0
    every = [case for case in capsys.readouterr().out.split() if case.startswith("T2")]
    parts = []
    for number in (1, 2, 3):
        assert main([name, *select, "--list", "--shard", f"{number}/3"]) == 0
        parts.append([case for case in capsys.readouterr().out.split() if case.startswith("T2")])
    assert sorted(case for part in parts for case in part) == sorted(every)
    assert min(map(len, parts)) > len(every) // 4


@pytest.mark.parametrize("text", ["0/3", "4/3", "2", "a/b", "-1/3"])
def test_a_shard_is_two_numbers(text, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["cpu", f"--shard={text}"])
    assert caught.value.code == 2
    assert f"{text!r} is not I/N with 1 <= I <= N, such as 2/8" in capsys.readouterr().err


def test_a_shard_beyond_the_operators_says_how_many_there_are(double, capsys):
    assert main([double(), "--select", "T2.op.add/f32/prime#[01]", "--shard", "2/3"]) == 2
    assert capsys.readouterr().err == (
        "tensocket conformance: [conformance] part 2 of 3 — parts have whole operators, and the selection has 1 — take "
        "parts up to 1, or select more cases\n")


@pytest.mark.parametrize(("options", "rule"), [
    ([], "it matches the id of a case up to tier T5"), (["--tier", "T1"], "it matches the id of a case up to tier T1"),
    (["--quick"], "it matches the id of a case of the quick run up to tier T5")])
def test_a_pattern_without_cases_says_what_it_has_to_match(double, capsys, options, rule):
    assert main([double(), "--select", "T2.op.nosuch*", *options]) == 2
    assert capsys.readouterr().err == (
        f"tensocket conformance: [conformance] the pattern 'T2.op.nosuch*' — {rule} — see the ids with --list, and "
        "check --tier\n")


@pytest.mark.parametrize("arguments", [
    ["nosuchdevice"], ["cpu:7"], ["CPU"], ["cpu", "--select", "T2.op.nosuch*"],
    ["repro", "T2.op.nosuch/f32/x#0", "--device", "cpu"],
    ["repro", "T2.op.add/f32/prime#0", "--device", "nosuchdevice"],
])
def test_nothing_to_run_exits_2(arguments, capsys):
    assert main(arguments) == 2
    assert "tensocket conformance: " in capsys.readouterr().err


def test_an_unknown_device_gets_a_suggestion(capsys):
    assert main(["cpuu"]) == 2
    assert "did you mean 'cpu'?" in capsys.readouterr().err


def test_a_profile_without_dtypes_exits_3(double, capsys):
    assert main([double(profile={"dtypes": frozenset()})]) == 3
    assert "declares no dtype that the suite knows" in capsys.readouterr().err


def test_without_a_device_only_loading_runs_and_exits_2(double, capsys):
    assert main([double(missing="libtoy.so.1 not found"), "--quick"]) == 2
    out = capsys.readouterr().out
    assert "unavailable: libtoy.so.1 not found" in out
    assert "\nFAIL " not in out


def test_a_device_that_cannot_be_opened_fails_loading(double, capsys):
    class Burning(ToyDevice):
        def __init__(self, index):
            raise RuntimeError("device 0 is on fire")

    assert main([double(device=Burning), "--quick"]) == 1
    out = capsys.readouterr().out
    assert "FAIL        T0.load.state" in out
    assert "raised RuntimeError: device 0 is on fire" in out


def test_an_unknown_feature_fails_loading(double, capsys):
    assert main([double(profile={"features": frozenset({"telepathy"})}), "--tier", "T0"]) == 1
    assert "unknown features in the profile: telepathy" in capsys.readouterr().out
