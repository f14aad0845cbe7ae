"""Every example runs with its smallest settings, and draws its picture."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import tensocket as torch

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

FOLDER = Path(__file__).parents[2] / "examples"
NAMES = ["char_gpt", "cnn", "diffusion", "dqn", "gan", "gcn", "lstm_text", "neural_ode", "vae", "vision_transformer"]
#: Programs with libraries that are written for PyTorch, and these libraries.
OF_LIBRARIES = {"lora_text": ["transformers", "peft"], "timm_digits": ["timm"]}


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module
    for path in FOLDER.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.mark.parametrize("name", NAMES)
def test_tiny_settings_run(example, name, tmp_path, capsys):
    assert example(name).main(["--tiny", "--out", str(tmp_path)]) == 0
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert f"{name}: loss " in capsys.readouterr().out


@pytest.mark.parametrize("name", OF_LIBRARIES)
def test_examples_with_libraries(name, tmp_path):
    missing = [library for library in OF_LIBRARIES[name] if importlib.util.find_spec(library) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    command = [sys.executable, "-m", "tensocket.as_torch", str(FOLDER / f"{name}.py"), "--tiny", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert f"{name}: loss " in done.stdout


@pytest.mark.skipif(not torch.is_available("opencl"), reason="there is no OpenCL device")
def test_another_device(example, tmp_path, capsys):
    assert example("diffusion").main(["--tiny", "--device", "opencl", "--out", str(tmp_path)]) == 0
    assert "diffusion: loss " in capsys.readouterr().out


def test_the_same_seed_gives_the_same_losses(example, tmp_path, capsys):
    for _ in range(2):
        example("vae").main(["--tiny", "--seed", "3", "--out", str(tmp_path)])
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


def test_every_example_is_listed():
    runs = [path.stem for path in FOLDER.glob("*.py") if "def main" in path.read_text() and path.stem != "train_digits"]
    assert sorted(runs) == sorted([*NAMES, *OF_LIBRARIES])


def test_a_network_learns(example, tmp_path, capsys):
    example("gcn").main(["--tiny", "--steps", "60", "--out", str(tmp_path)])
    first, last = map(float, capsys.readouterr().out.split("loss ")[1].split(",")[0].split(" -> "))
    assert last < 0.7 * first
