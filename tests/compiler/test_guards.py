"""Guards catch every change of what an observed function can have read, or the observation is refused: no misses."""

from __future__ import annotations

import inspect
import sys
import types

import pytest

from tensocket_compiler.capture.layout import LAYOUT

from . import (
    programs_attributes,
    programs_classes,
    programs_containers,
    programs_harmless,
    programs_models,
    programs_names,
    programs_outside,
    programs_runtime,
    programs_tricks,
)
from .judge import judge

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is observed without a known layout")

MODULES = (programs_names, programs_attributes, programs_classes, programs_containers, programs_models,
           programs_outside, programs_runtime, programs_tricks)


def programs_of(module):
    """The generator functions that a module defines, by name."""
    return {name: value for name, value in vars(module).items()
            if isinstance(value, types.FunctionType) and value.__module__ == module.__name__
            and value.__code__.co_flags & inspect.CO_GENERATOR}


PROGRAMS = {f"{module.__name__.rpartition('_')[2]}.{name}": program
            for module in MODULES for name, program in programs_of(module).items()}
#: Since Python 3.12, specialised look-ups of a property go on to call the function that it had before.
UNCHANGED = {"tricks.property_initialized_again"} if sys.version_info >= (3, 12) else set()
OF_PROCESS = {"tricks.deep_copy", "tricks.fields_as_dict"}
HARMLESS = programs_of(programs_harmless)
REFUSED = {f"{module.__name__.rpartition('_')[2]}.{name}"
           for module in MODULES for name in getattr(module, "REFUSED", ())}


@pytest.mark.parametrize("name", PROGRAMS)
def test_changes_are_caught(name):
    verdict = judge(PROGRAMS[name])
    # Whether a table of the standard library can be watched depends on what the process has put there.
    allowed = {"caught", "refused"} if name in OF_PROCESS else {"refused" if name in REFUSED else "caught"}
    assert verdict.word in allowed or (name in UNCHANGED and verdict.word == "vacuous"), verdict


@pytest.mark.parametrize("name", HARMLESS)
def test_guards_hold_while_a_script_goes_on(name):
    verdict = judge(HARMLESS[name])
    assert verdict.word == "caught", verdict


def test_there_are_many_programs():
    assert len(PROGRAMS) >= 150
