"""Memory of files: tensors and storages whose elements are read on first use."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensocket_core.device import open_device
from tensocket_core.dispatch.modes import as_leaf
from tensocket_core.promotion import get_default_dtype
from tensocket_plugins.contract.devices import HOST_DEVICE
from tensocket_plugins.contract.errors import ArgumentError

from .exported import fix_size
from .numpy import from_numpy
from .storage import UntypedStorage, storage_of


def mapped(operator: str, filename: Any, shared: bool | None, nbytes: int) -> Any:
    """Return the first bytes of a file, as a tensor of dtype uint8.

    Args:
        operator: The operator that errors name.
        filename: The file.
        shared: Whether changes are written to the file, which is made or extended where needed.
        nbytes: Number of bytes.

    Raises:
        ArgumentError: The file does not exist or is smaller, and is not shared.
    """
    from pathlib import Path  # which brings urllib

    path = Path(filename)
    held = path.stat().st_size if path.is_file() else -1
    if not shared and held < max(nbytes, 0):
        given = f"{nbytes} bytes of {str(filename)!r}, which has {held}" if held >= 0 else f"no file {str(filename)!r}"
        raise ArgumentError(operator, given, "the file has all bytes unless it is shared",
                            "pass another size, or shared=True")
    if shared and held < nbytes:
        with path.open("ab") as file:
            file.truncate(nbytes)
    if nbytes <= 0:
        return from_numpy(np.empty(0, np.uint8))
    made = from_numpy(np.memmap(path, np.uint8, "r+" if shared else "c", 0, (nbytes,)))
    fix_size(made._array, str(filename) if shared else None)
    return made


def storage_from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
    """Return a storage on the memory of a file.

    Args:
        filename: The file.
        shared: Whether changes are written to the file; otherwise it does not change.
        nbytes: Number of bytes from its start.

    Raises:
        ArgumentError: The file does not exist or is smaller, and is not shared.
    """
    return storage_of(mapped("from_file", filename, shared, nbytes))


def from_file(filename: Any, shared: bool | None = None, size: int = 0, *, dtype: Any = None, layout: Any = None,
              device: Any = None, pin_memory: bool = False, requires_grad: bool = False) -> Any:
    """Return a tensor of one dimension on the memory of a file.

    Args:
        filename: The file.
        shared: Whether changes are written to the file; otherwise it does not change.
        size: Number of elements from its start.
        dtype: The dtype of the elements; the default dtype if not given.
        layout: Strided, as all tensors on files are.
        device: The host, or None.
        pin_memory: Accepted as in PyTorch.
        requires_grad: Whether the tensor is a leaf that requires grad.

    Raises:
        ArgumentError: The file does not exist or is smaller, and is not shared; or the device is not the host.
    """
    if device is not None and open_device(device) is not open_device(HOST_DEVICE):
        raise ArgumentError("from_file", f"device {device}", "files are mapped into the host's memory",
                            "leave device out, then call .to(device)")
    kind = get_default_dtype() if dtype is None else dtype
    found = mapped("from_file", filename, shared, size * kind.itemsize).view(kind)
    return as_leaf(found) if requires_grad else found


UntypedStorage.from_file = staticmethod(storage_from_file)
