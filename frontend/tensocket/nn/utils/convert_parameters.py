"""Conversion of parameters to one vector and back."""

from __future__ import annotations

from collections.abc import Iterable

from tensocket.errors import ArgumentTypeError, DeviceMismatch
from tensocket_operators import Tensor, functions


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Concatenate the elements of all parameters to one vector; gradients flow.

    Raises:
        DeviceMismatch: The parameters are on several devices.
    """
    given = list(parameters)
    _check_devices(given)
    vector: Tensor = functions.cat([parameter.reshape(-1) for parameter in given])
    return vector


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set parameters to the elements of a vector, as views of it.

    Raises:
        ArgumentTypeError: ``vec`` is not a tensor.
        DeviceMismatch: The parameters are on several devices.
    """
    if not isinstance(vec, Tensor):
        raise ArgumentTypeError("vector_to_parameters", f"a {type(vec).__name__}", "the vector is a tensor",
                                "convert it with tensocket.tensor(...)")
    given = list(parameters)
    _check_devices(given)
    start = 0
    for parameter in given:
        stop = start + parameter.numel()
        parameter.data = vec[start:stop].view_as(parameter).data
        start = stop


def _check_devices(parameters: list[Tensor]) -> None:
    devices = {str(parameter.device) for parameter in parameters}
    if len(devices) > 1:
        raise DeviceMismatch("parameters_to_vector", f"parameters on {', '.join(sorted(devices))}",
                             "all parameters are on one device", "move them to one device first")


__all__ = ["parameters_to_vector", "vector_to_parameters"]
