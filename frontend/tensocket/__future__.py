"""Settings of how conversion and loading change the parameters of modules: by present or by future rules."""

from __future__ import annotations

from typing import Final

_SETTINGS: Final = {"overwrite": False, "swap": False}


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Set whether conversions of modules replace parameters by new ones.

    Otherwise, ``Module.to``, ``cpu``, ``cuda``, ``half``, ``to_empty`` and similar methods change the parameters' data.

    Args:
        value: Whether they replace them.
    """
    _SETTINGS["overwrite"] = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether conversions of modules replace parameters by new ones."""
    return _SETTINGS["overwrite"]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Set whether modules change parameters by ``utils.swap_tensors``.

    If so, conversions keep the parameter objects and swap everything else; ``load_state_dict`` does the same with the
    result of ``parameter.module_load(value)``. This has priority over ``set_overwrite_module_params_on_conversion``.

    Args:
        value: Whether they swap.
    """
    _SETTINGS["swap"] = value


def get_swap_module_params_on_conversion() -> bool:
    """Whether modules change parameters by ``utils.swap_tensors``."""
    return _SETTINGS["swap"]


__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]
