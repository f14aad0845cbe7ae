"""The optional packages for ONNX, imported at their first use, and the errors of reading and writing models."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import tensocket
from tensocket.errors import DamagedFileError, ExportError, MissingPackage

_INSTALL: Final = "pip install 'tensocket[onnx]'"

#: PyTorch's name for errors of the export.
OnnxExporterError = ExportError


class UnsupportedOnnxOperators(ExportError):
    """Operators that cannot be carried over; the message lists all of them.

    Attributes:
        operators: Their names.
    """

    operators: tuple[str, ...] = ()


class OnnxModelError(DamagedFileError, ValueError):
    """A model that is damaged, breaks the rules of ONNX, or asks for too much."""


def package(name: str, operator: str = "onnx") -> Any:
    """Return an optional package.

    Raises:
        MissingPackage: It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name.partition(".")[0]):
            raise
        raise MissingPackage(operator, f"an environment without {error.name}", f"models in ONNX need the package "
                             f"{error.name}", _INSTALL) from error


@contextmanager
def _known_as_torch() -> Iterator[None]:
    """Let ``import torch`` in a block give this package, unless the process has a ``torch`` already."""
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = tensocket
    try:
        yield
    finally:
        del sys.modules["torch"]


def torch_lib() -> Any:
    """Return onnxscript's registry of functions for PyTorch's operators.

    Raises:
        MissingPackage: onnxscript is not installed.
    """
    package("onnxscript", "onnx.export")
    with _known_as_torch():
        package("onnxscript.function_libs.torch_lib.ops", "onnx.export")
    return package("onnxscript.function_libs.torch_lib.registration", "onnx.export").default_registry
