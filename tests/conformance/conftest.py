"""Doubles of the example's device: the clean one, and ones with a planted defect."""

from __future__ import annotations

import functools
import itertools
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "backend_example"
if str(EXAMPLE) not in sys.path:
    sys.path.append(str(EXAMPLE))

from tensocket_toy import PROFILE  # noqa: E402
from tensocket_toy.backend import ToyBackend, ToyDevice  # noqa: E402

from tensocket_plugins.contract import Descriptor, Unavailable, hookimpl  # noqa: E402
from tensocket_plugins.contract.registry import registry  # noqa: E402
from tensocket_plugins.kit.host_primitives import compute  # noqa: E402

_NUMBERS = itertools.count()


@dataclass
class Double:
    """A variant of the example's device.

    Attributes:
        kernels: Primitive name to the function ``(out, ins, scalars)`` that replaces it; None leaves it out.
        device: Base class of the device.
        profile: Replacements of fields of the profile.
        missing: Why the backend is unavailable, if it is.
    """

    kernels: dict[str, Any] = field(default_factory=dict)
    device: type = ToyDevice
    profile: dict[str, Any] = field(default_factory=dict)
    missing: str = ""

    def install(self, name: str) -> None:
        double, profile = self, replace(PROFILE, **self.profile)

        class Device(double.device):
            def __init__(self, index):
                super().__init__(index)
                self.name, self.profile = f"{name}:{index}", profile
                self.allocator._device_name = self.name
                for primitive, kernel in double.kernels.items():
                    if kernel is None:
                        del self.kernels._kernels[primitive, None, False]

            def launch(self, primitive, outs, ins, scalars, stream):
                kernel = double.kernels.get(primitive)
                if kernel is None:
                    super().launch(primitive, outs, ins, scalars, stream)
                    return
                out, inputs = self.view(outs[0]), [self.view(array) for array in ins]
                stream.submit(lambda: _quietly(kernel, out, inputs, scalars))

        class Backend(ToyBackend):
            def probe(self):
                if double.missing:
                    raise Unavailable(double.missing, "find it")

            def open(self, index):
                return Device(index)

        class Hooks:
            @staticmethod
            @hookimpl
            def tensocket_describe():
                return Descriptor(name, ((1, 0), (2, 0)), profile)

            @staticmethod
            @hookimpl
            def tensocket_backend():
                return Backend()

        registry().add(Hooks, name=name)


def _quietly(kernel, out, ins, scalars):
    with np.errstate(all="ignore"):
        kernel(out, ins, scalars)


@pytest.fixture
def double():
    """Installs a ``Double`` under a fresh name and returns the name."""
    names = []

    def install(**options):
        name = f"double{''.join(chr(ord('a') + int(digit)) for digit in str(next(_NUMBERS)))}"
        Double(**options).install(name)
        names.append(name)
        return name

    yield install
    for name in names:
        registry().remove(name)


@pytest.fixture
def original():
    """The kit's kernels, to build defects upon."""
    return compute


@functools.cache
def _all_cases(dtypes):
    from tensocket_conformance import suite

    return suite.all_cases(dtypes)


@pytest.fixture
def run_cases():
    """Runs the cases of a device whose id matches, and returns id to result."""
    from tensocket_conformance import runner, suite

    def run(name, pattern, quick=False, seed=0):
        tested = suite.subject(name, seed)
        available = _all_cases(tested.dtypes)
        chosen = suite.Selection(pattern=pattern, quick=quick).apply(available)
        assert chosen, f"no case matches {pattern}"
        return {result.case.id: result for result in runner.open_run(tested, available).all(chosen)}

    return run

