"""The digits example from end to end: accuracy, files, the same curve and weights on every device."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tensocket as torch

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_digits.py"
AVAILABLE = [name for name in torch.available_devices() if name in ("cpu:0", "opencl:0")]


def load_example():
    spec = importlib.util.spec_from_file_location("train_digits", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_digits"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def example():
    return load_example()


@pytest.fixture(scope="module")
def curves(example, tmp_path_factory):
    """Losses of a short training, by device; each device trains once."""
    found = {}

    def train(device):
        if device not in found:
            out = tmp_path_factory.mktemp(device.replace(":", "_"))
            assert example.main(["--device", device, "--epochs", "3", "--out", str(out), "--check-device", "cpu"]) == 0
            found[device] = json.loads((out / "losses.json").read_text())
        return found[device]

    return train


@pytest.mark.parametrize("device", AVAILABLE)
def test_a_short_training_learns(curves, device):
    report = curves(device)
    assert report["test_accuracy"] > 0.9
    assert report["device"] == device
    assert len(report["epoch_losses"]) == len(report["accuracies"]) == 3
    assert len(report["step_losses"]) == 3 * 23
    assert report["epoch_losses"][-1] < 0.5 * report["epoch_losses"][0]


@pytest.mark.parametrize("device", [name for name in AVAILABLE if name != "cpu:0"])
def test_the_curve_is_the_same_on_every_device(curves, device):
    assert curves(device)["step_losses"] == pytest.approx(curves("cpu:0")["step_losses"], abs=1e-4)


def test_the_whole_run_on_the_cpu(example, tmp_path, capsys):
    weights = tmp_path / "w.tsk"
    assert example.main(["--epochs", "12", "--out", str(tmp_path), "--save", str(weights)]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = re.fullmatch(r"test accuracy (\d+\.\d) % on cpu:0", lines[-1])
    assert float(found[1]) >= 95
    assert re.fullmatch(r"weights reloaded on \w+:\d: .* %, the same", lines[-2])
    for picture in ("loss_curve.png", "wrong_predictions.png"):
        assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")
    assert example.main(["--load", str(weights), "--out", str(tmp_path), "--check-device", "cpu"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == lines[-1]


def test_the_same_seed_gives_the_same_curve(example):
    def losses(seed):
        data = example.load_data(seed, "cpu")
        return example.train(example.make_model(seed, "cpu"), data, 1, seed).step_losses

    assert losses(1) == losses(1)
    assert losses(1) != losses(2)


def test_an_unknown_device_is_an_error(example, tmp_path, capsys):
    assert example.main(["--device", "nosuchdevice", "--out", str(tmp_path)]) == 1
    assert "nosuchdevice" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--epochs", "0"], ["--seed", str(1 << 64)]])
def test_values_out_of_range_are_refused(example, arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        example.main(arguments)
    assert caught.value.code == 2
    assert f"error: {arguments[0]} must" in capsys.readouterr().err


def test_damaged_weights_are_an_error(example, tmp_path, capsys):
    (tmp_path / "w").write_bytes(b"PK damaged")
    assert example.main(["--load", str(tmp_path / "w"), "--out", str(tmp_path)]) == 1
    assert "the file must be what save() wrote" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["sklearn", "matplotlib"])
def test_missing_packages_are_named(missing, tmp_path):
    (tmp_path / f"{missing}.py").write_text(f"raise ModuleNotFoundError('no', name={missing!r})\n")
    code = (f"import sys, runpy; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['x']; "
            f"runpy.run_path({str(EXAMPLE)!r}, run_name='__main__')")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"{missing} is not installed" in done.stderr
    assert "pip install scikit-learn matplotlib" in done.stderr
