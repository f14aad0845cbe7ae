"""Modes and options of ``compile``: which exist, and what a mode stands for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from tensocket._inductor import config
from tensocket_compiler.errors import OptionError

#: The options that each mode stands for, as in PyTorch.
MODES: Final[dict[str, dict[str, Any]]] = {
    "default": {},
    "lite": {"fallback_by_default": True},
    "reduce-overhead": {"triton.cudagraphs": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True, "coordinate_descent_tuning": True},
    "max-autotune": {"max_autotune": True, "triton.cudagraphs": True, "coordinate_descent_tuning": True}}


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """Return the options that a mode stands for; without a mode, those of all modes by name.

    Raises:
        OptionError: There is no such mode.
    """
    if mode is None:
        return {name: dict(options) for name, options in MODES.items()}
    check_mode(mode)
    return dict(MODES[mode])


def list_options() -> list[str]:
    """Return the names of all options, those of sections as ``section.name``."""
    return sorted(_known())


def _known() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in vars(config).items():
        if isinstance(value, SimpleNamespace):
            found.update({f"{name}.{inner}": each for inner, each in vars(value).items()})
        elif name in vars(config)["_switches"]:
            found[name] = value
    return found


def check_mode(mode: str) -> None:
    """Check that a mode exists.

    Raises:
        OptionError: It does not.
    """
    if mode not in MODES:
        raise OptionError("compile", f"Unrecognized mode={mode}", f"should be one of: {', '.join(MODES)}",
                          "pass one of these, or leave it out")


def check_options(options: dict[str, Any]) -> None:
    """Check that options exist, and that their values are of the types of the settings that they replace.

    Raises:
        OptionError: One does not, or is not.
    """
    known = _known()
    for given, value in options.items():
        name = given.replace("-", "_")
        if name not in known:
            raise OptionError("compile", f"Unexpected optimization option {given}",
                              f"known options are {sorted(known)}", "pass one of these, or leave it out")
        kind = type(known[name])
        if known[name] is not None and type(value) is not kind:
            raise OptionError("compile", f"Unexpected type of attr {given}, got {type(value).__name__} should be "
                              f"{kind.__name__}", "a value has the type of the setting that it replaces",
                              f"pass a {kind.__name__}")
