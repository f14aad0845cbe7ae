"""Trees of modules: parameters, shapes, texts, pictures."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.utils import viz

#: The function of this name hides it in the package.
MODULE = import_module("tensocket.utils.viz.summary")


class Block(nn.Module):
    """Calls one part twice, and gives two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(4, 4)
        self.same = self.part
        self.unused = nn.Linear(4, 100)
        self.drop = nn.Dropout(0.5)
        self.part.bias.requires_grad_(False)
        self.register_buffer("scale", torch.ones(10))

    def forward(self, x: torch.Tensor, more: int = 0) -> dict[str, torch.Tensor]:
        y = self.drop(self.part(self.part(x)))
        return {"a": y, "b": y.sum(0) + more}


def test_doctests() -> None:
    assert doctest.testmod(MODULE).failed == 0


def test_parameters_and_shapes() -> None:
    made = viz.summary(Block(), torch.ones(3, 4))
    rows = {row.name: row for row in made.rows}
    assert rows[""].parameters == made.total == 4 * 4 + 4 + 4 * 100 + 100
    assert rows[""].trainable == made.trainable == made.total - 4
    assert rows[""].shapes == [[3, 4], [4]]
    assert rows["part"].shape == "[3, 4] x 2"
    assert rows["unused"].shape == "-"
    assert made.nbytes == 4 * (made.total + 10)
    assert "same" not in rows


def test_the_model_stays_as_it_is() -> None:
    model = Block()
    model.drop.eval()
    viz.summary(model, torch.ones(3, 4), more=1)
    assert model.training
    assert model.part.training
    assert not model.drop.training
    assert not model.part._forward_hooks
    norm = nn.Sequential(nn.BatchNorm1d(4)) if hasattr(nn, "BatchNorm1d") else None
    if norm is not None:
        viz.summary(norm, torch.ones(3, 4))
        assert norm[0].running_mean.tolist() == [0.0] * 4
    with pytest.raises(RuntimeError):
        viz.summary(model, torch.ones(3, 5))
    assert model.training
    assert not model.part._forward_hooks


def test_depth_and_text() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Linear(2, 1))
    text = str(viz.summary(model))
    assert [line.split("  ")[0].rstrip() for line in text.splitlines()[3:8]] == [
        "Sequential", "├─ 0: Sequential", "│", "│", "└─ 1: Linear"]
    assert "│  └─ 1: ReLU" in text
    assert text.endswith("9 parameters, 9 of them trainable; 36 B with buffers")
    assert len(viz.summary(model, depth=1).rows) == 3
    assert [row.shape for row in viz.summary(model).rows] == ["-"] * 5
    with pytest.raises(TypeError, match="a module is summarised"):
        viz.summary(3)


def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = viz.summary(Block(), torch.ones(3, 4), path=tmp_path / "tree.svg")
    assert "<svg" in (tmp_path / "tree.svg").read_text()
    axes = made.draw(tmp_path / "tree.png").axes[0]
    assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")
    assert len(axes.patches) == len(made.rows)
    widths = [bar.get_width() for bar in axes.patches]
    assert widths[0] == max(widths)
    assert widths[1] / widths[0] == pytest.approx(made.rows[1].parameters / made.total)
    with pytest.raises(ValueError, match="the path ends with the format of a picture"):
        made.draw(tmp_path / "tree.txt")
