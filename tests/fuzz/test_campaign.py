"""The helper that all fuzzers share."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fuzz.campaign import Campaign
from fuzz.values import difference

FOLDER = Path(__file__).parent


def test_each_case_has_numbers_of_its_own_and_can_be_repeated():
    drawn = {number: rng.integers(1 << 60) for number, rng in Campaign("x", 7, cases=20).each()}
    assert len(set(drawn.values())) == 20
    assert {n: rng.integers(1 << 60) for n, rng in Campaign("x", 7, cases=1, first=13).each()} == {13: drawn[13]}
    assert [rng.integers(1 << 60) for _, rng in Campaign("x", 8, cases=1, first=13).each()] != [drawn[13]]


def test_a_difference_says_how_to_repeat_it():
    campaign = Campaign("operators", 7, cases=5, options=("conv1d",))
    for number, _ in campaign.each():
        campaign.called(2)
        if number == 3:
            campaign.differ("conv1d gives 7")
    assert campaign.summary() == "operators: seed 7, 5 cases from 0, 10 calls, 1 differences"
    with pytest.raises(AssertionError, match="python tests/fuzz operators conv1d --seed 7 --first 3 --cases 1"):
        campaign.check()


def test_it_stops_after_too_many_differences_and_after_its_time():
    campaign = Campaign("x", cases=1000, most=4)
    for _ in campaign.each():
        campaign.differ("all")
    assert campaign.ran == 4
    assert list(Campaign("x", seconds=0.0).each()) == []
    with pytest.raises(ValueError, match="seconds or of cases"):
        next(Campaign("x").each())


def test_a_fuzzer_that_calls_nothing_fails():
    with pytest.raises(AssertionError, match="called nothing"):
        Campaign("x", cases=1).check()


def test_what_lapack_prints_of_nan_is_left_out(capsys):
    main = importlib.import_module("fuzz.__main__")
    text = "print(' ** On entry to DLASCL parameter number  4'); print('found'); raise SystemExit(3)"
    assert main.echoed([sys.executable, "-c", text]) == 3
    assert capsys.readouterr().out == "found\n"


def test_the_command_line_says_what_there_is():
    done = subprocess.run([sys.executable, str(FOLDER), "--help"], capture_output=True, text=True, check=True)
    assert "--seconds" in done.stdout


def test_parts_of_complex_numbers_that_are_nan_are_equal():
    nan, inf = float("nan"), float("inf")
    assert not difference([complex(nan, inf)], [complex(nan, inf)])
    assert difference([complex(nan, inf)], [complex(nan, -inf)])
    assert difference([complex(0.0, inf)], [complex(nan, inf)])
    assert difference([1.0], [1])


def test_sums_that_cancel_are_compared_relative_to_their_terms():
    found, wanted = [("float32", np.float32([1e-6]))], [("float32", np.float32([2e-6]))]
    assert difference(found, wanted, rough=1.0)
    assert not difference(found, wanted, rough=1.0, scale=10.0)
    assert difference(found, wanted, rough=1.0, scale=1e-3)
