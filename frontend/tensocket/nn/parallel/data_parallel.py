"""Data parallelism over several devices of one process; here, the first device does all the work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensocket import cuda
from tensocket.nn.modules import Module
from tensocket.notices import note

from .scatter_gather import scatter

_ONE = "batches are not divided over devices; the module runs on the first one"


class DataParallel(Module):
    """A module that is called on one device with the whole batch.

    Args:
        module: The module to call; its parameters are ``module.…`` here, as in PyTorch.
        device_ids: Devices to divide batches over; all by default. If there are several, a notice says once that one
            works.
        output_device: Accepted as in PyTorch: results stay on the first device.
        dim: The dimension of the batch.
    """

    module: Module

    def __init__(self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None,
                 dim: int = 0) -> None:
        super().__init__()
        if device_ids is None or not cuda.is_available():
            device_ids = list(range(cuda.device_count()))
        if len(device_ids) > 1:
            note("DataParallel", _ONE)
        self.dim = dim
        self.device_ids = list(device_ids)
        self.output_device = output_device if output_device is not None or not device_ids else device_ids[0]
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Move the inputs to the first device, and call the module."""
        return data_parallel(self.module, inputs, self.device_ids, self.output_device, self.dim, kwargs)


def data_parallel(module: Module, inputs: Any, device_ids: Sequence[Any] | None = None, output_device: Any = None,
                  dim: int = 0, module_kwargs: dict[str, Any] | None = None) -> Any:
    """Call a module with a batch on the first of several devices.

    Args:
        module: The module to call.
        inputs: Its positional arguments.
        device_ids: Devices to divide the batch over.
        output_device: Accepted as in PyTorch: results stay on the first device.
        dim: The dimension of the batch.
        module_kwargs: Its named arguments.
    """
    devices = list(range(cuda.device_count())) if device_ids is None else list(device_ids)
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    if not devices:
        return module(*given, **(module_kwargs or {}))
    (moved,) = scatter(given, devices[:1], dim)
    (named,) = scatter(module_kwargs or {}, devices[:1], dim)
    return module(*moved, **named)


__all__ = ["DataParallel", "data_parallel"]
