"""Values of ONNX graphs: tensors, sequences (lists), absent values (None), and arrays for what no tensor holds.

Strings, and numbers of dtypes that tensors do not have (4-bit integers, some 8-bit floats), are NumPy arrays.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensocket as torch
from tensocket.errors import DtypeError
from tensocket_operators import Tensor

#: dtypes by the numbers of ``TensorProto.DataType``.
DTYPES: Final[dict[int, Any]] = {
    1: torch.float32, 2: torch.uint8, 3: torch.int8, 4: torch.uint16, 5: torch.int16, 6: torch.int32, 7: torch.int64,
    9: torch.bool, 10: torch.float16, 11: torch.float64, 12: torch.uint32, 13: torch.uint64, 14: torch.complex64,
    15: torch.complex128, 16: torch.bfloat16, 17: torch.float8_e4m3fn, 19: torch.float8_e5m2}
NUMBERS: Final = {dtype: number for number, dtype in DTYPES.items()}
#: The number of strings.
STRING: Final = 8
#: NumPy dtypes of the packages beside NumPy, by name, with the dtype of the same bits and that of tensors.
_BITS: Final = {"bfloat16": (np.uint16, torch.bfloat16), "float8_e4m3fn": (np.uint8, torch.float8_e4m3fn),
                "float8_e5m2": (np.uint8, torch.float8_e5m2)}


def to_value(array: Any, device: Any = None) -> Any:
    """Return a NumPy array as a tensor, or unchanged if tensors do not have its dtype."""
    array = np.asarray(array)
    if array.dtype.name in _BITS:
        bits, dtype = _BITS[array.dtype.name]
        made = torch.from_numpy(np.array(array, order="C").view(bits)).view(dtype)
    elif array.dtype.kind in "OUST":
        return array.astype(object)
    elif array.dtype.kind in "biufc" and array.dtype.isbuiltin == 1:
        made = torch.from_numpy(np.array(array, order="C").astype(array.dtype.newbyteorder("="), copy=False))
    else:
        return array
    return made if device is None else made.to(device)


def to_array(value: Any) -> Any:
    """Return a value as a NumPy array."""
    if not isinstance(value, Tensor):
        return np.asarray(value)
    value = value.detach().cpu()
    name = str(value.dtype).rpartition(".")[2]
    if name in _BITS:
        import ml_dtypes

        return value.contiguous().view(_word(value)).numpy().view(getattr(ml_dtypes, name))
    return value.numpy()


def _word(value: Any) -> Any:
    return torch.uint16 if value.element_size() == 2 else torch.uint8


def device_of(*values: Any) -> Any:
    """Return the device of the first tensor; None without one."""
    return next((x.device for x in values if isinstance(x, Tensor)), None)


def on_host(function: Any, *values: Any) -> Any:
    """Return the result of a NumPy function of values, on the device of the first tensor."""
    return to_value(function(*[None if x is None else to_array(x) for x in values]), device_of(*values))


def ints(value: Any) -> Any:
    """Return integers from a tensor or a list of them; None for None."""
    if value is None:
        return None
    if isinstance(value, (Tensor, np.ndarray)):
        value = value.reshape(-1).tolist()
    return [int(x) for x in (value if isinstance(value, (list, tuple)) else [value])]


def floats(value: Any) -> Any:
    """Return floats from a tensor or a list of them; None for None."""
    if value is None:
        return None
    if isinstance(value, (Tensor, np.ndarray)):
        value = value.reshape(-1).tolist()
    return [float(x) for x in (value if isinstance(value, (list, tuple)) else [value])]


def number(value: Any, default: Any = None) -> Any:
    """Return the only number of a tensor, or a number; the default for None."""
    if value is None:
        return default
    if isinstance(value, (Tensor, np.ndarray)):
        return value.reshape(-1)[0].item()
    return value[0] if isinstance(value, (list, tuple)) else value


def text(value: Any) -> str:
    """Return an attribute that may be bytes as str."""
    return value.decode() if isinstance(value, bytes) else str(value)


def dtype_of(name: str, to: int) -> Any:
    """Return the dtype of tensors by its number.

    Raises:
        DtypeError: Tensors do not have it.
    """
    if to not in DTYPES:
        raise DtypeError(name, f"the data type {to}", "the results of this operator are tensors, which do not have "
                         "this dtype", "compute with another one, and Cast the result")
    return DTYPES[to]


def axis_in(axis: int, rank: int) -> int:
    """Return an axis counted from the front."""
    return axis + rank if axis < 0 else axis


def axes_in(axes: Any, rank: int) -> list[int]:
    """Return axes counted from the front; all of them for None."""
    return list(range(rank)) if axes is None else [axis_in(a, rank) for a in ints(axes)]
