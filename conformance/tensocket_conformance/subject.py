"""The device under test, and transfers between it and NumPy."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tensocket as ts

from .numerics import BY_NAME, FORMATS, Failure, Format, HostArray

#: The layouts that ``place`` can give a tensor without changing its values.
LAYOUTS = ("plain", "transposed", "offset", "step", "expanded")


@dataclass
class Subject:
    """The device under test.

    Attributes:
        name: Its device name, such as ``opencl``.
        index: Its index.
        seed: Number that is added to the seed of every case.
        state: State of the backend, such as ``available``.
        reason: Why it is not usable.
        dtypes: Short names of the declared element types that the suite knows.
        features: Declared features.
        host_kernels: Operators that the profile declares to run on the host.
        host_resident: Whether its memory is the host's.
        graphs: By case of compiled programs, why no graph served its calls; empty if one did.
    """

    name: str
    index: int = 0
    seed: int = 0
    state: str = "available"
    reason: str = ""
    dtypes: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()
    host_kernels: frozenset[str] = frozenset()
    host_resident: bool = False
    notes: list[str] = field(default_factory=list)
    graphs: dict[str, str] = field(default_factory=dict)

    @property
    def device(self) -> str:
        """The device with its index, such as ``opencl:0``."""
        return f"{self.name}:{self.index}"

    @property
    def usable(self) -> bool:
        """Whether there is a device to run on."""
        return self.state in ("available", "initialised")

    def rng(self, case_id: str) -> np.random.Generator:
        """Return the random numbers of a case: the same for every device, run and order of cases."""
        digest = hashlib.sha256(f"{case_id} {self.seed}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "little"))

    def put(self, array: HostArray, short: str) -> Any:
        """Return a contiguous tensor of element type ``short`` on the device, with the values of ``array``."""
        return host_tensor(array, short).to(self.device)

    def place(self, array: HostArray, short: str, layout: str = "plain") -> Any:
        """Return a tensor with the values of ``array`` and the strides of a layout.

        ``expanded`` needs an array that does not vary along its first dimension.
        """
        if layout == "transposed" and array.ndim > 1:
            return self.put(np.ascontiguousarray(array.T), short).permute(*reversed(range(array.ndim)))
        if layout == "offset" and array.ndim:
            padding = np.zeros((3, *array.shape[1:]), array.dtype)
            return self.put(np.concatenate([padding, array, padding]), short)[3 : 3 + array.shape[0]]
        if layout == "step" and array.ndim:
            spread = np.zeros((*array.shape[:-1], 2 * array.shape[-1] + 1), array.dtype)
            spread[..., 1::2] = array
            return self.put(spread, short)[..., 1::2]
        if layout == "expanded" and array.ndim:
            return self.put(array[:1], short).expand(*array.shape)
        return self.put(array, short)

    def get(self, tensor: Any) -> HostArray:
        """Return the values of a tensor on the host; bfloat16 as float32.

        Raises:
            Failure: The tensor is on another device.
        """
        where = str(tensor.device)
        if where not in (self.device, self.name):
            raise Failure(f"the result is on {where}, not on {self.device}")
        return host_array(tensor)


def dtype_of(short: str) -> Any:
    """Return the public API's dtype of a short name."""
    return getattr(ts, FORMATS[short].name)


def format_of(tensor: Any) -> Format:
    """Return the element type of a tensor.

    Raises:
        Failure: The suite does not know it.
    """
    name = str(tensor.dtype).rpartition(".")[2]
    if name not in BY_NAME:
        raise Failure(f"the result has dtype {name}")
    return BY_NAME[name]


def host_tensor(array: HostArray, short: str) -> Any:
    """Return a tensor on the CPU that does not share memory with ``array``."""
    tensor = ts.from_numpy(np.array(array, FORMATS[short].numpy, order="C"))
    return tensor.to(ts.bfloat16) if short == "bf16" else tensor


def host_array(tensor: Any) -> HostArray:
    """Return the values of a tensor in host memory; bfloat16 as float32."""
    values = tensor.detach().cpu()
    if values.dtype == ts.bfloat16:
        values = values.to(ts.float32)
    return np.array(values.resolve_conj().resolve_neg().numpy())
