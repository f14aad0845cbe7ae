"""Tier T5 finds defects that are planted into the compiler, each by the case that is noted for it."""

from __future__ import annotations

import os

import pytest

from tensocket_compiler.capture.layout import LAYOUT
from tensocket_conformance.case import Outcome

from .compiler_mutants import MUTANTS, plant

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")

#: All mutants run with TENSOCKET_MUTANTS=1; otherwise every third one does.
EVERY = 1 if os.environ.get("TENSOCKET_MUTANTS", "0") != "0" else 3
CHOSEN = [pytest.param(mutant, id=f"{area}-{number}-{mutant.place.rpartition(':')[2]}")
          for area, mutants in MUTANTS.items() for number, mutant in enumerate(mutants) if number % EVERY == 0]


@pytest.mark.parametrize("mutant", CHOSEN)
def test_a_planted_defect_is_found(mutant, run_cases, monkeypatch):
    plant(monkeypatch, mutant)
    results = run_cases("cpu", f"T5.state.{mutant.case}")
    assert results[f"T5.state.{mutant.case}"].outcome is Outcome.FAIL


@pytest.mark.parametrize("area", MUTANTS)
def test_every_mutant_fits_the_source(area, monkeypatch):
    """Also those that this run does not look for."""
    for mutant in MUTANTS[area]:
        with monkeypatch.context() as planted:
            plant(planted, mutant)


def test_a_mutant_has_to_fit_the_source(monkeypatch):
    mutant = MUTANTS["guards"][0]
    with pytest.raises(AssertionError, match="has 0 times 'no such text'"):
        plant(monkeypatch, mutant._replace(old="no such text"))


def test_the_compiler_without_defects_passes(run_cases):
    results = run_cases("cpu", "T5.state.*")
    assert {name: result.message for name, result in results.items() if result.outcome is not Outcome.PASS} == {}
    assert len(results) >= 40


def test_there_are_many_mutants_of_every_area():
    assert {area: len(mutants) >= 7 for area, mutants in MUTANTS.items()} == dict.fromkeys(MUTANTS, True)
    assert sum(map(len, MUTANTS.values())) >= 40
