"""ONNX's own backend tests through the importer: a sample, or all of them with ``TENSOCKET_ONNX=all``."""

from __future__ import annotations

import importlib.util
import os
import warnings
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx")

RUNNER = Path(__file__).parents[3] / "benchmarks" / "onnx_nodes.py"
ALL = os.environ.get("TENSOCKET_ONNX") == "all"
#: Tests that fail, by kind: at least so many pass.
BARS = {"node": 1484, "pytorch-operator": 35, "pytorch-converted": 82}


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("onnx_nodes", RUNNER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def cases():
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {kind: load_model_tests(kind=kind) for kind in BARS}


@pytest.mark.parametrize("kind", sorted(BARS))
def test_backend_tests_of_onnx(runner, cases, kind):
    found = cases[kind]
    chosen = found if ALL else found[::60 if kind == "node" else 5]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outcomes = {case.name: runner.run(case) for case in chosen}
    failed = {name: text for name, text in outcomes.items() if text != "passed"}
    if ALL:
        assert len(outcomes) - len(failed) >= BARS[kind], failed
    else:
        assert len(outcomes) >= 7
        assert failed == {}
