"""Anomaly mode, which finds the forward line of a failing gradient."""

from __future__ import annotations

import sys
import threading
import traceback
import warnings
from os.path import dirname
from typing import Any, Final

from tensocket_plugins.contract.errors import AutogradError

from ..recording import SlowPathReason
from .hooks import Extras

#: Folder of the runtime; its own frames are of no use to users.
_FOLDER: Final = dirname(dirname(__file__))


class _Mode:
    """State of anomaly mode for the process, as backward may run on another thread than the forward."""

    enabled = False
    check_nan = True
    reason: SlowPathReason | None = None


_MODE: Final = _Mode()


class _Current(threading.local):
    node: Any = None


#: The node whose gradients this thread is computing.
CURRENT: Final = _Current()


def enabled() -> bool:
    """Whether nodes record where they were created."""
    return _MODE.enabled


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    return _MODE.enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode checks gradients for NaN."""
    return _MODE.check_nan


def _set(mode: bool, check_nan: bool) -> None:
    _MODE.enabled, _MODE.check_nan = mode, check_nan
    _MODE.reason = (_MODE.reason or SlowPathReason()) if mode else None


class set_detect_anomaly:
    """Switch of anomaly mode, from the call on or as a context manager.

    Args:
        mode: Whether nodes record where they were created, and errors in backward show it.
        check_nan: Whether NaN in a gradient is an error.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = _MODE.enabled, _MODE.check_nan
        _set(mode, check_nan)

    def __enter__(self) -> None:
        """Do nothing; the mode is on from the constructor on."""

    def __exit__(self, *error: object) -> None:
        _set(*self._before)


class detect_anomaly:
    """A block in which nodes record where they were created, errors in backward show it, and NaN is an error.

    Args:
        check_nan: Whether NaN in a gradient is an error.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        self._before = _MODE.enabled, _MODE.check_nan
        warnings.warn("Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
                      "enabled for debugging.", stacklevel=2)

    def __enter__(self) -> None:
        self._before = _MODE.enabled, _MODE.check_nan
        _set(True, self.check_nan)

    def __exit__(self, *error: object) -> None:
        _set(*self._before)


def remember(extras: Extras) -> None:
    """Record the stack of the operator's call, without the runtime's own frames at the end."""
    frames = traceback.extract_stack()
    while len(frames) > 1 and frames[-1].filename.startswith(_FOLDER):
        frames.pop()
    extras.trace = frames.format()
    extras.parent = CURRENT.node


def report(node: Any) -> None:
    """Warn with the forward call of a failing node."""
    extras = node.extras
    if extras is None or extras.trace is None:
        _warn(f"Error detected in {node.name()}. No forward pass information available. Enable detect "
              "anomaly during forward pass for more information.")
        return
    _warn(f"Error detected in {node.name()}. Traceback of the forward call that caused the error:\n"
          f"{''.join(extras.trace)}")
    parent = extras.parent
    if parent is not None and parent.extras is not None and parent.extras.trace is not None:
        _warn(f"The failing call was made during the gradient of {parent.name()}. Traceback of its forward "
              f"call:\n{''.join(parent.extras.trace)}")


def _warn(message: str) -> None:
    """Warn while an error propagates; a warning that is itself an error is printed, so that it hides nothing."""
    try:
        warnings.warn(message, stacklevel=3)
    except Warning:
        sys.stderr.write(f"Warning: {message}\n")


def check(node: Any, grads: list[Any]) -> None:
    """Check the gradients that a node computed for NaN.

    Raises:
        AutogradError: A gradient has NaN.
    """
    if not _MODE.check_nan:
        return
    for index, grad in enumerate(grads):
        if grad is not None and grad.dtype.kind in ("float", "complex") and bool((grad != grad).any()):
            raise AutogradError("backward", f"NaN in gradient {index} computed by {node.name()}",
                                "gradients are checked for NaN in anomaly mode",
                                "look at the forward call, which a warning shows")
