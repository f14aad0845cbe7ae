"""How modules change their parameters when they are converted or loaded: by today's rules or by those to come."""

from __future__ import annotations

from typing import Final

_SETTINGS: Final = {"overwrite": False, "swap": False}


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Choose whether conversions of modules put new parameters in the place of the old ones.

    ``Module.to``, ``cpu``, ``cuda``, ``half``, ``to_empty`` and the like otherwise change the parameters' data.

    Args:
        value: Whether they do.
    """
    _SETTINGS["overwrite"] = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether conversions of modules put new parameters in the place of the old ones."""
    return _SETTINGS["overwrite"]


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Choose whether modules change parameters by ``utils.swap_tensors``.

    Conversions then keep the parameter objects and exchange everything else; ``load_state_dict`` does the same with
    the result of ``parameter.module_load(value)``. This goes before ``set_overwrite_module_params_on_conversion``.

    Args:
        value: Whether they do.
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
