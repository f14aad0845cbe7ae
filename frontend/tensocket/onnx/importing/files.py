"""Reading models: files are hostile until proved, so sizes, paths and counts are checked before memory is used."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, Final

import numpy as np

from tensocket.errors import ArgumentTypeError

from ..operators.values import to_value
from ..packages import OnnxModelError, package

#: Bytes of the largest file that protobuf reads.
_LARGEST_FILE: Final = (1 << 31) - 1
#: The fields that hold elements, by data type; others hold them in ``int32_data``.
_FIELDS: Final = {1: "float_data", 7: "int64_data", 8: "string_data", 10: "int32_data", 11: "double_data",
                  12: "uint64_data", 13: "uint64_data", 14: "float_data", 15: "double_data"}
#: Elements of an int32 for data types of fewer than 8 bits, and the bits of each.
_PACKED: Final = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}
_ADVICE: Final = "get the file again from a source that you trust"


def read_model(model: Any) -> tuple[Any, Path | None]:
    """Return a model and the folder of its external data, from a path, bytes, an open file or a ``ModelProto``.

    Raises:
        OnnxModelError: It is not a model.
        ArgumentTypeError: The argument is none of these.
    """
    onnx = package("onnx", "load_graph_module")
    if isinstance(model, onnx.ModelProto):
        return model, None
    folder = None
    if isinstance(model, (str, os.PathLike)):
        path = Path(model)
        if path.stat().st_size > _LARGEST_FILE:
            raise OnnxModelError("load_graph_module", f"{path.name} of {path.stat().st_size} bytes",
                                 f"a model has at most {_LARGEST_FILE} bytes beside its external data", _ADVICE)
        data, folder = path.read_bytes(), path.parent
    elif isinstance(model, (bytes, bytearray)):
        data = bytes(model)
    elif hasattr(model, "read"):
        data = model.read()
    else:
        raise ArgumentTypeError("load_graph_module", f"a {type(model).__name__}", "a model is a path, bytes, a file or "
                                "a ModelProto", "pass one of these")
    made = onnx.ModelProto()
    try:
        made.ParseFromString(data)
    except Exception as error:  # protobuf's own class, which has moved between its versions
        raise OnnxModelError("load_graph_module", f"{len(data)} bytes", "the data is not a model in ONNX's protobuf "
                             "format, or is truncated", _ADVICE) from error
    if not made.HasField("graph"):
        raise OnnxModelError("load_graph_module", f"{len(data)} bytes", "a model has a graph", _ADVICE)
    return made, folder


class Tensors:
    """Conversion of the tensors of a model.

    Args:
        folder: The folder of external data; None if the model has no file.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def value(self, proto: Any) -> Any:
        """Return a tensor of the model as a value.

        Raises:
            OnnxModelError: Its data do not fit its shape, or are outside of the model's folder.
        """
        onnx = package("onnx")
        dims = list(proto.dims)
        try:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(proto.data_type)
        except KeyError:
            raise self._fault(proto, f"the data type {proto.data_type}", "data types are those of ONNX") from None
        if any(n < 0 for n in dims):
            raise self._fault(proto, f"the shape {dims}", "sizes are not negative")
        count = math.prod(dims)
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            return self._external(proto, count, dtype)
        if proto.HasField("raw_data"):
            self._check(proto, len(proto.raw_data), self._bytes(proto, count, dtype), "bytes")
        else:
            self._check_fields(proto, count)
        return to_value(onnx.numpy_helper.to_array(proto))

    def _check_fields(self, proto: Any, count: int) -> None:
        field = _FIELDS.get(proto.data_type, "int32_data")
        wanted = 2 * count if proto.data_type in (14, 15) else count
        if proto.data_type in _PACKED:
            wanted = -(-count // (8 // _PACKED[proto.data_type]))
        self._check(proto, len(getattr(proto, field)), wanted, "elements")

    def _check(self, proto: Any, given: int, wanted: int, unit: str) -> None:
        if given != wanted:
            raise self._fault(proto, f"{given} {unit} for the shape {list(proto.dims)}",
                              f"a tensor of this shape and data type has {wanted} {unit}")

    def _bytes(self, proto: Any, count: int, dtype: Any) -> int:
        bits = _PACKED.get(proto.data_type, 8 * int(dtype.itemsize))
        return -(-count * bits // 8)

    def _external(self, proto: Any, count: int, dtype: Any) -> Any:
        """Read a tensor's data from another file of the model's folder."""
        options = {entry.key: entry.value for entry in proto.external_data}
        path = self._inside(proto, options.get("location", ""))
        size = path.stat().st_size
        wanted = self._bytes(proto, count, dtype)
        try:
            offset, length = int(options.get("offset", 0)), int(options.get("length", wanted))
        except ValueError:
            raise self._fault(proto, f"external data {options}", "offset and length are numbers") from None
        self._check(proto, length, wanted, "bytes")
        if offset < 0 or offset + length > size:
            raise self._fault(proto, f"{length} bytes at {offset} of {path.name}", f"this file has {size} bytes")
        onnx = package("onnx")
        with path.open("rb") as file:
            file.seek(offset)
            data = file.read(length)
        made = onnx.TensorProto(data_type=proto.data_type, dims=proto.dims, raw_data=data)
        return to_value(onnx.numpy_helper.to_array(made))

    def _inside(self, proto: Any, location: str) -> Path:
        """Return the path of external data, which is a file in the model's folder or below it."""
        if self._folder is None:
            raise self._fault(proto, f"external data in {location!r}", "only models that are read from a path have "
                              "external data")
        folder = self._folder.resolve()
        path = (folder / location).resolve()
        if not location or not path.is_relative_to(folder) or path == folder:
            raise self._fault(proto, f"external data in {location!r}", "external data are in the folder of the model, "
                              "or below it")
        if not path.is_file():
            raise self._fault(proto, f"external data in {location!r}", "this file does not exist")
        return path

    def sparse(self, proto: Any) -> Any:
        """Return a sparse tensor of the model as a dense one.

        Raises:
            OnnxModelError: Its data do not fit its shape.
        """
        values, index = self.value(proto.values), self.value(proto.indices)
        dims = list(proto.dims)
        if any(n < 0 for n in dims) or math.prod(dims) > 1 << 31:
            raise self._fault(proto.values, f"the shape {dims}", "a sparse tensor has up to 2 ** 31 places")
        places, limits = index.numpy(), np.array(dims if index.dim() == 2 else [math.prod(dims)])
        places = places if places.ndim == 2 else places.reshape(-1, 1)
        fits = places.shape == (values.numel(), len(limits)) and bool(((places >= 0) & (places < limits)).all())
        if not fits:
            raise self._fault(proto.values, "indices beyond its shape", "indices of sparse tensors are in their shape")
        flat = np.ravel_multi_index(tuple(places.T), tuple(limits.tolist()))
        made = np.zeros(math.prod(dims), dtype=values.numpy().dtype)
        made[flat] = values.numpy()
        return to_value(made.reshape(dims))

    @staticmethod
    def _fault(proto: Any, given: str, rule: str) -> OnnxModelError:
        return OnnxModelError("load_graph_module", f"the tensor {proto.name!r} with {given}", rule, _ADVICE)
