"""Models in ONNX: export of modules, and import as graph modules. The packages for it are the extra ``onnx``."""

from __future__ import annotations

import enum
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import symbolic_helper, symbolic_opset9, symbolic_opset11
from .packages import OnnxExporterError, OnnxModelError, UnsupportedOnnxOperators, package
from .symbolic import register_custom_op_symbolic, unregister_custom_op_symbolic

if TYPE_CHECKING:
    from tensocket.fx.graph_module import GraphModule

    from .exporting.program import ONNXProgram

_EXPORTING: list[bool] = []


class TrainingMode(enum.Enum):
    """Values of a deprecated option of ``export``; the mode is that of the module."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """Values of a deprecated option of ``export``; operators are ONNX's."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def export(model: Any, args: Any = (), f: Any = None, *, kwargs: dict[str, Any] | None = None,
           verbose: bool | None = None, input_names: Sequence[str] | None = None,
           output_names: Sequence[str] | None = None, opset_version: int | None = None, dynamo: bool = True,
           external_data: bool = True, dynamic_shapes: Any = None,
           custom_translation_table: Mapping[Any, Any] | None = None, report: bool = False, optimize: bool = True,
           verify: bool = False, profile: bool = False, dump_exported_program: bool = False, artifacts_dir: Any = ".",
           export_params: bool = True, keep_initializers_as_inputs: bool = False,
           dynamic_axes: Mapping[str, Any] | None = None, **deprecated: Any) -> ONNXProgram | None:
    """Return a module as an ONNX model, and write it to a file if a path is given.

    The graph is that of ``torch.export.export``; weights have the names of the state dict. Nothing is written if an
    error occurs.

    Args:
        model: A module, or an exported program.
        args: Its positional arguments.
        f: The path of the file, or an open binary file.
        kwargs: Its keyword arguments.
        verbose: Whether to print the steps and their times.
        input_names: Names of the first inputs.
        output_names: Names of the first outputs.
        opset_version: Version of the operators, 18 to 23; by default 20.
        dynamo: Accepted for programs: there is one exporter.
        external_data: Whether large weights are in a file beside the model, ``<f>.data``.
        dynamic_shapes: As for ``torch.export.export``; a name in place of a ``Dim`` is a dimension of that name.
        custom_translation_table: ONNX Script functions for operators, by operator.
        report: Whether to write a report, in Markdown, into ``artifacts_dir``.
        optimize: Whether constants are folded, and nodes without use left out.
        verify: Whether the results of onnxruntime are compared with the module's.
        profile: Accepted for programs; the report has the times.
        dump_exported_program: Whether the text of the exported program is written into ``artifacts_dir``.
        artifacts_dir: The folder of the report.
        export_params: Whether the file holds the weights.
        keep_initializers_as_inputs: Whether weights are inputs, too.
        dynamic_axes: The older form of dynamic shapes, ``{input: {axis: name}}``, with the names of ``input_names``.
        **deprecated: Options of PyTorch that have no effect there either.

    Raises:
        ArgumentError: An option does not fit the module.
        ExportError: The module has no graph; ``UnsupportedOnnxOperators`` lists operators that ONNX does not have.
        OnnxModelError: onnx's checker refuses the model, or ``verify`` found differences.
        MissingPackage: onnx or onnxscript is not installed.
    """
    _check_deprecated(deprecated)
    package("onnx", "onnx.export")
    package("onnxscript", "onnx.export")
    from .exporting.entry import Options, export_model

    args = args if isinstance(args, tuple) else (args,)
    if not kwargs and args and isinstance(args[-1], dict):
        args, kwargs = args[:-1], args[-1]
    options = Options(input_names, output_names, 20 if opset_version is None else opset_version, dynamic_shapes,
                      dynamic_axes, custom_translation_table, optimize, verify, report, artifacts_dir, bool(verbose))
    with _exporting():
        made = export_model(model, args, dict(kwargs or {}), options)
    if dump_exported_program:
        os.makedirs(artifacts_dir, exist_ok=True)
        with open(os.path.join(artifacts_dir, "exported_program.txt"), "w", encoding="utf-8") as file:
            file.write(str(made.exported_program))
    if f is not None:
        made.save(f, include_initializers=export_params, keep_initializers_as_inputs=keep_initializers_as_inputs,
                  external_data=external_data)
    return made


#: Options of the former exporter of PyTorch, which its present one accepts and ignores.
_DEPRECATED = frozenset({"training", "operator_export_type", "do_constant_folding", "custom_opsets",
                         "export_modules_as_functions", "autograd_inlining"})


def _check_deprecated(options: dict[str, Any]) -> None:
    unknown = sorted(set(options) - _DEPRECATED)
    if unknown:
        raise TypeError(f"export() got an unexpected keyword argument '{unknown[0]}'")
    for name in options:
        warnings.warn(f"The option {name} is deprecated and has no effect", DeprecationWarning, stacklevel=3)


@contextmanager
def _exporting() -> Any:
    _EXPORTING.append(True)
    try:
        yield
    finally:
        _EXPORTING.pop()


def is_in_onnx_export() -> bool:
    """Whether a model is being exported."""
    return bool(_EXPORTING)


def load_graph_module(model: Any, *, device: Any = None) -> GraphModule:
    """Return an ONNX model as a graph module; see ``tensocket.onnx.importing.load_graph_module``."""
    from .importing import load_graph_module as load

    return load(model, device=device)


def __getattr__(name: str) -> Any:
    if name == "ONNXProgram":
        package("onnx_ir", "ONNXProgram")
        from .exporting.program import ONNXProgram

        return ONNXProgram
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "OnnxModelError",
    "OperatorExportTypes",
    "TrainingMode",
    "UnsupportedOnnxOperators",
    "export",
    "is_in_onnx_export",
    "load_graph_module",
    "register_custom_op_symbolic",
    "symbolic_helper",
    "symbolic_opset9",
    "symbolic_opset11",
    "unregister_custom_op_symbolic",
]
