"""Blocks that no warning leaves: they end before it is issued, and leave filters and profilers as they were."""

from __future__ import annotations

import cProfile
import sys
import warnings
from contextlib import suppress
from typing import Any

import pytest

from tensocket_operators.unwarned import WarnedError, unwarned


def careless() -> None:
    with suppress(Exception):
        warnings.warn("never issued", stacklevel=1)


def after() -> None:
    """Called behind the block."""


def test_the_first_warning_ends_the_block() -> None:
    with pytest.raises(WarnedError), unwarned():
        careless()
    with pytest.warns(UserWarning, match="never issued"):
        careless()


def test_blocks_leave_the_filters_alone() -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.resetwarnings()
        warnings.simplefilter("module")
        for _ in range(3):  # a changed filter would let it be given again
            with pytest.raises(WarnedError), unwarned():
                careless()
            warnings.warn("once for each module", stacklevel=1)
    assert len(shown) == 1


def test_profile_functions_go_on_behind_the_block() -> None:
    called = []

    def note(frame: Any, event: str, value: object) -> None:
        called.append(frame.f_code)
    sys.setprofile(note)
    with unwarned():
        pass
    after()
    sys.setprofile(None)
    assert after.__code__ in called


def test_cprofile_goes_on_behind_the_block() -> None:
    profile: Any = cProfile.Profile()
    with profile:
        with unwarned():
            pass
        after()
    assert after.__code__ in {each.code for each in profile.getstats()}
    assert sys.getprofile() is None
