"""Attributes of PyTorch's operator objects other than calls; records and factories have them too."""

from __future__ import annotations

from typing import Any, Final

from .schema import Schema

#: Names of PyTorch's overloads of one operator; here one record covers them all.
OVERLOADS: Final = frozenset({
    "Dimname", "IntList", "List", "Scalar", "ScalarList", "ScalarOther", "ScalarSelf", "ScalarTensor",
    "Scalar_Tensor", "Scalar_mode", "Tensor", "TensorList", "TensorScalar", "TensorTensor", "Tensor_Scalar",
    "Tensor_Tensor", "Tensor_mode", "correction", "default", "device", "dim", "dim_IntList", "dim_max", "dim_min",
    "dims", "dtype", "dtype_layout", "generator", "int", "low", "memory_format", "msg", "names", "other", "self",
    "self_int", "sizes", "src", "stable", "start", "start_step", "two", "value",
})  # fmt: skip


class AtenOverloads:
    """An operator by name, for all of its overloads."""

    name: str
    schema: Schema

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def _schema(self) -> Schema:
        return self.schema

    @property
    def overloadpacket(self) -> AtenOverloads:
        """This record: it covers all of PyTorch's overloads."""
        return self

    def overloads(self) -> list[str]:
        """Return ``["default"]``."""
        return ["default"]

    def __getattr__(self, name: str) -> Any:
        if name in OVERLOADS or name.rpartition("_")[2] == "out":
            return self
        raise AttributeError(f"{type(self).__name__} {self.__dict__.get('name', '')!r} has no attribute {name!r}")
