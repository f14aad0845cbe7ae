"""The list of available devices."""

from __future__ import annotations

from tensocket_plugins.contract.registry import registry


def available_devices() -> list[str]:
    """Return the names of all usable devices, for example ``["cpu:0", "opencl:0"]``; probe every installed
    backend.

    Raises:
        BackendError: A backend is broken or incompatible and ``TENSOCKET_BACKENDS_STRICT`` is on.
    """
    return [f"{record.name}:{index}" for record in registry().records() if record.state.usable
            for index in range(record.device_count)]
