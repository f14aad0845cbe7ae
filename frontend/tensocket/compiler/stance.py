"""The stance of the process towards compiled functions: whether they run graphs, make new ones, or raise."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, get_args

from tensocket_compiler.calls.settings import SETTINGS, SWITCHES, Stance
from tensocket_plugins.contract.errors import ArgumentError

_TOKEN: Final = object()


def _apply(stance: Stance) -> None:
    SETTINGS.stance = stance
    if stance == "default":
        SWITCHES[:] = [x for x in SWITCHES if x is not _TOKEN]
    elif _TOKEN not in SWITCHES:
        SWITCHES.append(_TOKEN)


class set_stance:
    """Set the stance of the process, from now on, for a block, or for calls of a function that it decorates.

    Args:
        stance: ``default``; ``force_eager``, which runs compiled functions as they are; ``eager_on_recompile``, which
            does so for calls that no graph fits; ``fail_on_recompile``, which raises ``RecompileError`` for these.
        skip_guard_eval_unsafe: Not supported: graphs always check their guards.
        force_backend: Not supported: a function keeps its backend.

    Raises:
        ArgumentError: There is no such stance, or an argument that is not supported is given.
    """

    def __init__(self, stance: Stance = "default", *, skip_guard_eval_unsafe: bool = False,
                 force_backend: Any = None) -> None:
        if stance not in get_args(Stance):
            raise ArgumentError("set_stance", f"stance={stance!r}", f"stances are {', '.join(get_args(Stance))}",
                                "pass one of them")
        if skip_guard_eval_unsafe or force_backend is not None:
            raise ArgumentError("set_stance", "skip_guard_eval_unsafe or force_backend", "graphs always check their "
                                "guards, and functions keep their backends", "leave the argument out")
        self.stance, self._before = stance, [SETTINGS.stance]
        _apply(stance)

    def __enter__(self) -> None:
        if SETTINGS.stance != self.stance:
            self._before.append(SETTINGS.stance)
            _apply(self.stance)

    def __exit__(self, *error: object) -> None:
        _apply(self._before.pop() if len(self._before) > 1 else self._before[0])

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Use it as a decorator; the stance of the process is as before."""
        _apply(self._before[0])

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            before = SETTINGS.stance
            _apply(self.stance)
            try:
                return function(*args, **kwargs)
            finally:
                _apply(before)

        return call


__all__ = ["set_stance"]
