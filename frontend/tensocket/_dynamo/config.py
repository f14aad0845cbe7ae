"""The settings of PyTorch's tracer. Programs can set any name; these are the ones that they may read first.

Five of them have an effect: ``recompile_limit`` (or ``cache_size_limit``), ``fail_on_recompile_limit_hit``,
``error_on_recompile``, ``suppress_errors`` and ``disable``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tensocket.backends.flags import Flags
from tensocket_compiler.calls.settings import SETTINGS, SWITCHES

#: Settings of the compiler, by the names of flags.
_EFFECTS: Final = {"recompile_limit": "variants", "cache_size_limit": "variants", "error_on_recompile":
                   "fails_on_recompile", "fail_on_recompile_limit_hit": "fails_at_limit", "suppress_errors":
                   "suppresses_errors", "disable": "is_disabled"}
#: Flags that are one.
_TWINS: Final = {"recompile_limit": "cache_size_limit", "cache_size_limit": "recompile_limit",
                 "accumulated_cache_size_limit": "accumulated_recompile_limit",
                 "accumulated_recompile_limit": "accumulated_cache_size_limit"}


class _Config(Flags):
    """The module, whose flags with an effect reach the compiler."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a flag, or any other attribute."""
        super().__setattr__(name, value)
        if name in _TWINS:
            super().__setattr__(_TWINS[name], value)
        if name in _EFFECTS:
            setattr(SETTINGS, _EFFECTS[name], value)
        if name == "disable":
            SWITCHES[:] = [x for x in SWITCHES if x is not _Config] + [_Config] * bool(value)

    @contextmanager
    def patch(self, *named: Any, **values: Any) -> Iterator[None]:
        """Set flags for a block or a function: ``patch(name=value)``, ``patch("name", value)``."""
        given = {**(named[0] if len(named) == 1 else {named[0]: named[1]} if named else {}), **values}
        before = {name: getattr(self, name) for name in given}
        for name, value in given.items():
            setattr(self, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


patch: Callable[..., Any]  # the module's class has it

_Config.module(
    sys.modules[__name__], accumulated_cache_size_limit=256, accumulated_recompile_limit=256, allow_rnn=False,
    assume_static_by_default=True, automatic_dynamic_shapes=True, cache_size_limit=8,
    capture_dynamic_output_shape_ops=False, capture_scalar_outputs=False, compiled_autograd=False, disable=False,
    dynamic_shapes=True, error_on_recompile=False, fail_on_recompile_limit_hit=False,
    force_parameter_static_shapes=True, guard_nn_modules=True, inline_inbuilt_nn_modules=True, log_level=30,
    optimize_ddp=True, recompile_limit=8, specialize_float=False, specialize_int=False, suppress_errors=False,
    verbose=False)
