"""Names of classes and functions in files. They are PyTorch's, so both libraries can read the files."""

from __future__ import annotations

import functools
import importlib
import sys
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from typing import Any, Final

import tensocket_operators as core
from tensocket import _utils
from tensocket.errors import SerializationError
from tensocket_core import device as Device
from tensocket_core.autograd.hooks import RemovableHandle
from tensocket_core.formats import (
    layout,
    memory_format,
    sparse_bsc,
    sparse_bsr,
    sparse_coo,
    sparse_csc,
    sparse_csr,
    strided,
)
from tensocket_operators import TypedStorage, UntypedStorage
from tensocket_plugins.contract.dtypes import BY_NAME, DType

#: PyTorch's names of typed storages. Other dtypes have no name.
STORAGE_NAMES: Final[dict[str, DType]] = {f"{name}Storage": BY_NAME[kind] for name, kind in {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64",
    "Int": "int32", "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64",
    "ComplexDouble": "complex128"}.items()}
STORAGE_OF: Final[dict[DType, str]] = {kind: name for name, kind in STORAGE_NAMES.items()}


class StorageType:
    """A kind of typed storage, by its name in files: ``FloatStorage``."""

    def __init__(self, name: str) -> None:
        self._dtype = STORAGE_NAMES[name]

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self._dtype

    def __str__(self) -> str:
        return f"StorageType(dtype={self._dtype})"


def _get_layout(name: str) -> layout:
    """Return the layout named ``torch.strided``, ``torch.sparse_coo`` and so on."""
    kinds = (strided, sparse_coo, sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)
    return {f"torch.{kind.name}": kind for kind in kinds}[name]


#: Functions that make tensors: restricted files may call only these through ``_rebuild_from_type_v2``.
REBUILDERS: Final[dict[str, Any]] = {f"torch._utils.{f.__name__}": f for f in (
    _utils._rebuild_device_tensor_from_cpu_tensor, _utils._rebuild_meta_tensor_no_storage, _utils._rebuild_parameter,
    _utils._rebuild_parameter_with_state, _utils._rebuild_qtensor, _utils._rebuild_sparse_tensor,
    _utils._rebuild_tensor, _utils._rebuild_tensor_v2, _utils._rebuild_tensor_v3)}
#: Full names of objects whose modules differ from PyTorch's.
TABLE: Final[dict[str, Any]] = {
    **REBUILDERS,
    "torch._tensor._rebuild_from_type_v2": _utils._rebuild_from_type_v2,
    "torch.serialization._get_layout": _get_layout,
    "torch.Tensor": core.Tensor, "torch.Size": core.Size, "torch.device": Device, "torch.dtype": DType,
    "torch.layout": layout, "torch.memory_format": memory_format, "torch.Generator": core.Generator,
    "torch.utils.hooks.RemovableHandle": RemovableHandle,
    "torch.storage.UntypedStorage": UntypedStorage, "torch.storage.TypedStorage": TypedStorage,
    **{f"torch.{name}": StorageType(name) for name in STORAGE_NAMES},
    **{f"torch.{name}": kind for name, kind in BY_NAME.items()},
}
#: Modules of this library whose classes belong to another module in PyTorch.
_PLACES: Final = {
    "nn.modules.base.hooks": "nn.modules.module", "nn.modules.base.state": "nn.modules.module",
    "nn.modules.layers.attention": "nn.modules.activation", "nn.modules.layers.cells": "nn.modules.rnn",
    "nn.modules.layers.loss_base": "nn.modules.loss", "nn.modules.layers.margins": "nn.modules.loss",
    "nn.modules.layers.parameters": "nn.modules.container", "nn.modules.layers.rectifiers": "nn.modules.activation",
    "optim._adafactor": "optim",
    **{f"optim.lr_scheduler.{part}": "optim.lr_scheduler" for part in (
        "base", "composite", "cycles", "plateau", "simple")},
}
_NAME_OF: Final = {id(value): name.rpartition(".")[::2] for name, value in TABLE.items()}


def written_name(obj: Any, name: str | None = None) -> tuple[str, str] | None:
    """Return the module and name of a class or function of this library in files; None for others."""
    known = _NAME_OF.get(id(obj))
    if known is not None:
        return known
    module = str(getattr(obj, "__module__", ""))
    label = str(name or getattr(obj, "__qualname__", ""))
    root = module.partition(".")[0]
    if root not in ("tensocket", "tensocket_core", "tensocket_operators"):
        return None
    # Functions are written under their public names, which PyTorch has, too.
    for place in () if isinstance(obj, type) else ("nn.functional", ""):
        if getattr(_package(place), label, None) is obj:
            return f"torch.{place}".rstrip("."), label
    if root == "tensocket":
        place = module.partition(".")[2]
        return f"torch.{_PLACES.get(place, place)}".rstrip("."), label
    return ("torch", label) if getattr(_package(""), label, None) is obj else None


def modern(module: str, name: str) -> tuple[str, str]:
    """Return Python 3's name for a name of Python 2, which pickles of old protocols use."""
    if (module, name) in NAME_MAPPING:
        return NAME_MAPPING[module, name]
    return IMPORT_MAPPING.get(module, module), name


def full_name(module: str, name: str) -> str:
    """Return the full name, ``torch.nn.Linear``, for the name in either library."""
    root, dot, rest = module.partition(".")
    return f"{'torch' if root == 'tensocket' else root}{dot}{rest}.{name}"


def is_ours(module: str) -> bool:
    """Whether a name in a file belongs to this library."""
    return module.partition(".")[0] in ("torch", "tensocket")


def find(module: str, name: str) -> Any:
    """Return the object that a trusted file calls ``module.name`` if that is a name of this library.

    Classes and functions that belong to another module here are searched in the enclosing packages.

    Raises:
        SerializationError: The object does not exist.
    """
    known = TABLE.get(full_name(module, name))
    if known is not None:
        return known
    path = module.partition(".")[2]
    places = [path, "nn.functional", ""] if path.partition(".")[0] == "_C" else [path]
    while path:
        path = path.rpartition(".")[0]
        places.append(path)
    for place in places:
        try:
            return functools.reduce(getattr, name.split("."), _package(place))
        except (ImportError, AttributeError):
            continue
    own = sys.modules.get(module)
    if own is not None and sys.modules.get("torch") is sys.modules["tensocket"] and hasattr(own, name):
        return getattr(own, name)  # of a module that the program has added below torch
    raise SerializationError("load", f"{module}.{name}", "the file needs a name that tensocket does not have",
                             "save a state_dict() instead of whole objects")


def _package(path: str) -> Any:
    return importlib.import_module(f"tensocket.{path}" if path else "tensocket")
