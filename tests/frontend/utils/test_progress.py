"""The progress bar: silent where nobody looks, and with its fields where somebody does."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest

from tensocket.utils import progress


def test_items_pass_unchanged_and_nothing_is_printed(capsys):
    bar = progress(range(4), description="epoch")
    seen = []
    for item in bar:
        seen.append(item)
        bar.show(loss=0.5)
    assert seen == [0, 1, 2, 3]
    assert capsys.readouterr() == ("", "")


def test_rich_is_not_loaded_for_a_bar_that_is_off():
    code = ("import sys; from tensocket.utils import progress; list(progress([1], enabled=False)); "
            "sys.exit('rich' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_bar_shows_description_count_and_fields(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    bar = progress(iter([1, 2]), description="epoch 1", total=2, enabled=True)
    for _ in bar:
        bar.show(loss=0.123456, accuracy="97 %")
    text = screen.getvalue()
    assert "epoch 1" in text
    assert "2/2" in text
    assert "loss 0.1235  accuracy 97 %" in text


def test_a_failing_loop_ends_the_bar(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    bar = progress([1, 2], enabled=True)
    with pytest.raises(ZeroDivisionError):
        sum(1 / (item - 1) for item in bar)
    assert list(progress([3], enabled=True)) == [3]
