"""A backend from outside of the workspace: installed by pip, selected by name, passed through conformance."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tensocket_plugins.kit.host_operators import HOST_OPERATORS, SEQUENCE_OPERATORS

EXAMPLE = Path(__file__).parents[2] / "examples" / "backend_example"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs Python with the example installed in a folder of its own."""
    folder = tmp_path_factory.mktemp("installed")
    # A copy: building must leave nothing in the source tree.
    source = shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("source") / "example")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index", "--quiet",
         "--disable-pip-version-check", "--target", str(folder / "site"), str(source)],
        capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    def python(*arguments, **environ):
        path = os.pathsep.join(filter(None, (str(folder / "site"), os.environ.get("PYTHONPATH"))))
        return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=300,
                              check=False, env={**os.environ, "PYTHONPATH": path, **environ})

    return python


def test_it_is_found_and_selected_by_name(run):
    code = ("import tensocket, sys\nassert 'tensocket_toy' not in sys.modules\n"
            "x = tensocket.randn(5, 3, device='toy', requires_grad=True)\n"
            "y = (x @ x.t()).softmax(-1).log().mean()\ny.backward()\n"
            "print(x.grad.device, tuple(x.grad.shape), y.device)")
    done = run("-W", "error", "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["toy:0", "(5,", "3)", "toy:0"]


def test_it_is_in_the_list_of_devices(run):
    done = run("-m", "tensocket", "devices")
    assert done.returncode == 0, done.stderr
    assert "NumPy behind a queue" in done.stdout


def test_it_passes_conformance(run, tmp_path):
    path = tmp_path / "report.json"
    done = run("-W", "error", "-m", "tensocket", "conformance", "toy", "--quick", "--report", str(path))
    report = json.loads(path.read_text("utf-8"))
    assert [case["id"] for case in report["cases"] if case["outcome"] in ("FAIL", "BLOCKED", "NOT_RUN")] == []
    assert done.returncode == 0, done.stdout + done.stderr
    assert report["identity"]["backend"] == "tensocket-toy"
    assert report["totals"]["by_tier"]["T0"]["PASS"] > 10
    assert report["totals"]["PASS"] > 200
    counted = {entry["operator"] for entry in report["fallback_ledger"]}
    assert counted
    assert counted <= HOST_OPERATORS | SEQUENCE_OPERATORS


def test_its_errors_surface_and_it_keeps_working(run):
    code = ("import tensocket\n"
            "try:\n    tensocket.zeros(1 << 40, device='toy')\n"
            "except tensocket.errors.OutOfMemoryError as error:\n    print('toy:0' in str(error))\n"
            "print((tensocket.ones(3, device='toy') + 1).tolist())")
    done = run("-c", code)
    assert done.stdout == "True\n[2.0, 2.0, 2.0]\n", done.stderr
