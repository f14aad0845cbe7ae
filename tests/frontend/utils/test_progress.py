"""The progress bar: silent where nobody looks, and with its fields where somebody does."""

from __future__ import annotations

import builtins
import io
import subprocess
import sys

import pytest

import tensocket as torch
from tensocket.errors import MissingPackage
from tensocket.utils import progress


@pytest.fixture
def look(monkeypatch):
    """Redirects standard error; called in the test itself, because pytest sets it before."""

    def redirect(*, terminal=False):
        text = io.StringIO()
        monkeypatch.setattr(text, "isatty", lambda: terminal)
        monkeypatch.setattr(sys, "stderr", text)
        return text

    return redirect


@pytest.fixture
def no_rich(monkeypatch):
    original = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.partition(".")[0] == "rich":
            raise ModuleNotFoundError("No module named 'rich'")
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_items_pass_unchanged_and_nothing_is_printed(capsys):
    bar = progress(range(4), description="epoch")
    seen = []
    for item in bar:
        seen.append(item)
        bar.show(loss=0.5)
        bar.describe("later")
    assert seen == [0, 1, 2, 3]
    assert len(bar) == 4
    with progress(total=3) as steps:
        steps.advance()
    assert capsys.readouterr() == ("", "")


def test_rich_is_not_loaded_for_a_bar_that_is_off():
    code = ("import sys; from tensocket.utils import progress; list(progress([1], enabled=False)); "
            "sys.exit('rich' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_bar_shows_description_count_and_fields(look):
    screen = look()
    bar = progress(iter([1, 2]), description="epoch 1", total=2, enabled=True)
    for _ in bar:
        bar.show(loss=torch.tensor(0.123456), accuracy="97 %", step=3)
    text = screen.getvalue()
    assert "epoch 1" in text
    assert "2/2" in text
    assert "loss 0.1235  accuracy 97 %  step 3" in text
    with pytest.raises(TypeError):
        len(bar)


def test_there_is_a_bar_where_a_terminal_is(look):
    terminal = look(terminal=True)
    assert list(progress([7])) == [7]
    assert "1/1" in terminal.getvalue()


def test_loops_within_loops(look):
    screen = look()
    for epoch in progress(range(3), description="epochs", enabled=True):
        for _ in progress(range(2), description=f"inner {epoch}", enabled=True):
            pass
    text = screen.getvalue()
    assert "epochs" in text
    assert "3/3" in text
    assert "inner 2" not in text.splitlines()[-1]


def test_a_bar_that_is_advanced_by_hand(look):
    screen = look()
    with progress(description="bytes", total=10, enabled=True) as bar:
        bar.advance(4)
        bar.describe("more bytes")
        bar.advance(4)
    assert "more bytes" in screen.getvalue()
    assert "8/10" in screen.getvalue()


def test_a_loop_that_is_left_ends_the_bar(look):
    look()
    for item in progress([1, 2, 3], enabled=True):
        if item == 2:
            break
    bar = progress([1, 2], enabled=True)
    with pytest.raises(ZeroDivisionError):
        sum(1 / (item - 1) for item in bar)
    assert list(bar) == [1, 2]
    assert list(progress([3], enabled=True)) == [3]


def test_without_rich_a_bar_that_is_asked_for_is_an_error(no_rich):
    with pytest.raises(MissingPackage, match=r"\[progress\] an environment without rich — "
                                             "progress bars are drawn by rich — pip install rich, or pass"):
        progress([1], enabled=True)


def test_without_rich_there_is_a_hint_and_no_bar(no_rich, look):
    terminal = look(terminal=True)
    with pytest.warns(UserWarning, match="pip install rich"):
        bar = progress([1, 2])
    assert list(bar) == [1, 2]
    assert terminal.getvalue() == ""
