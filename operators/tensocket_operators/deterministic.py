"""The setting for bitwise reproducible results, one for the process.

Operators whose fast form is not bitwise reproducible read ``SETTING.required``. These operators add floating-point
numbers to memory in the order in which threads arrive: ``scatter_add``, ``index_put`` with ``accumulate``, the
gradients of indexing, and composites of these. Devices with a code generator have a form that adds in the order of the
indices; others raise an error, unless their profile declares that they are deterministic anyway. ``put_`` without
``accumulate`` and ``max_unpool`` raise it on every device, as in PyTorch: if a position occurs twice, no program should
rely on which element is written last.
"""

from __future__ import annotations

import warnings
from typing import Any, Final

from tensocket_core.dispatch.registry import clear_tables
from tensocket_core.recording import SlowPathReason
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, UnsupportedOperator

_DEBUG_MODES: Final = ("default", "warn", "error")
#: Not empty while results must be reproducible: machine code, and replays of backward rules, do not read the setting.
SLOW_PATHS: Final[list[SlowPathReason]] = []


class Setting:
    """The setting, whose attributes operators read.

    Attributes:
        required: Whether results must be reproducible.
        warn_only: Whether an operator that cannot comply warns instead of raising an error.
        fill: Whether factories fill uninitialised memory while results must be reproducible.
        filling: Whether factories fill memory now: ``required and fill``, so that they test one attribute.
    """

    __slots__ = ("fill", "filling", "required", "warn_only")

    def __init__(self) -> None:
        self.required = self.warn_only = self.filling = False
        self.fill = True

    def update(self, *, required: bool, warn_only: bool, fill: bool) -> None:
        """Change the setting. Closures that were made for another one end."""
        clear_tables()
        if required != self.required:
            SLOW_PATHS[:] = [SlowPathReason()] if required else []
        self.required, self.warn_only, self.fill = required, warn_only, fill
        self.filling = required and fill


SETTING: Final = Setting()


def _flag(operator: str, name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ArgumentTypeError(operator, f"{name}={value!r}", f"{name} is a bool", "pass True or False")
    return value


def alert_not_deterministic(operator: str, device: Any) -> None:
    """Raise an error if results must be reproducible; operators call it before they compute in an undefined order.

    Raises:
        UnsupportedOperator: Results must be reproducible; with ``warn_only``, a warning replaces the error.
    """
    if not SETTING.required:
        return
    error = UnsupportedOperator(operator, f"a tensor on {device}", f"{operator} does not have a deterministic "
                                "implementation, but you set 'torch.use_deterministic_algorithms(True)'",
                                "use another device, turn it off, or pass warn_only=True")
    if not SETTING.warn_only:
        raise error
    warnings.warn(str(error), UserWarning, stacklevel=3)


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Set whether operators must give bitwise reproducible results, for the whole process.

    Args:
        mode: Whether they must.
        warn_only: Whether an operator without a reproducible form warns instead of raising an error.

    Raises:
        ArgumentTypeError: An argument is not a bool.
    """
    operator = "use_deterministic_algorithms"
    SETTING.update(required=_flag(operator, "mode", mode), warn_only=_flag(operator, "warn_only", warn_only),
                   fill=SETTING.fill)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether ``use_deterministic_algorithms`` is on."""
    return SETTING.required


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether operators without a deterministic form only warn."""
    return SETTING.warn_only


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set the same by name or number: 0 ``default`` (off), 1 ``warn``, 2 ``error``.

    Raises:
        ArgumentTypeError: The mode is neither an int nor a string.
        ArgumentError: The mode is unknown.
    """
    if isinstance(debug_mode, bool) or not isinstance(debug_mode, (int, str)):
        raise ArgumentTypeError("set_deterministic_debug_mode", f"a {type(debug_mode).__name__}",
                                "the mode is a string or an int", "pass 'default', 'warn' or 'error'")
    known = dict(zip(_DEBUG_MODES, range(3), strict=True))
    level = known.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if level is None or level not in range(3):
        raise ArgumentError("set_deterministic_debug_mode", f"mode {debug_mode!r}",
                            "modes are 'default', 'warn' and 'error', or 0, 1 and 2", "pass one of these")
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    """Return the mode: 0 off, 1 warn, 2 error."""
    return 0 if not SETTING.required else 1 if SETTING.warn_only else 2


def set_fill_uninitialized_memory(value: bool) -> None:
    """Set whether ``empty`` and similar factories fill memory while results must be reproducible.

    They fill it with NaN, the largest integer or True.

    Raises:
        ArgumentTypeError: The value is not a bool.
    """
    SETTING.update(required=SETTING.required, warn_only=SETTING.warn_only,
                   fill=_flag("fill_uninitialized_memory", "value", value))
