"""ONNX export: not implemented."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from tensocket.errors import ExportError
from tensocket_plugins.contract.errors import ArgumentError

from . import symbolic_helper, symbolic_opset9, symbolic_opset11

#: PyTorch's name for such errors.
OnnxExporterError = ExportError


#: By the operator's name and the operator set, functions that say how operators of libraries are exported.
_SYMBOLIC: Final[dict[tuple[str, int], Callable[..., Any]]] = {}
_NAME: Final = re.compile(r"\w+(\.\w+)*::\w+(\.\w+)*")


def export(model: Any, args: Any = (), f: Any = None, **options: Any) -> None:
    """Refuse to write a model.

    Raises:
        ExportError: Always.
    """
    raise ExportError("onnx.export", f"a {type(model).__name__}", "models are not written in ONNX yet",
                      "save the state_dict, and write the model where PyTorch is installed")


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Record how an operator is exported. ``export`` refuses every model, so nothing calls the function yet.

    Args:
        symbolic_name: ``domain::operator``.
        symbolic_fn: A function of the graph and the operator's arguments.
        opset_version: The first operator set that it is for.

    Raises:
        ArgumentError: The name has another form.
    """
    _SYMBOLIC[_checked("register_custom_op_symbolic", symbolic_name), opset_version] = symbolic_fn


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Forget how an operator is exported; do nothing if it was not recorded.

    Raises:
        ArgumentError: The name has another form.
    """
    _SYMBOLIC.pop((_checked("unregister_custom_op_symbolic", symbolic_name), opset_version), None)


def _checked(operator: str, name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ArgumentError(operator, f"the name {name!r}", "Failed to register operator: the symbolic name is "
                            "domain::name", "write it in this form")
    return name


def is_in_onnx_export() -> bool:
    """Return False: no model is being written."""
    return False


__all__ = [
    "OnnxExporterError",
    "export",
    "is_in_onnx_export",
    "register_custom_op_symbolic",
    "symbolic_helper",
    "symbolic_opset9",
    "symbolic_opset11",
    "unregister_custom_op_symbolic",
]
