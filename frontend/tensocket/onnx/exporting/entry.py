"""The export: from a module to a program, a model and a file."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import tensocket as torch
from tensocket.errors import ArgumentError
from tensocket.export import ExportedProgram
from tensocket.export import export as capture
from tensocket.nn import Module
from tensocket.utils import _pytree as pytree
from tensocket_operators import Tensor

from ..packages import OnnxExporterError, OnnxModelError, package, torch_lib
from . import axes
from .program import ONNXProgram, differences
from .translation import BASE, Translator

#: The versions of the operators that models may have.
OPSETS: Final = range(18, 24)
#: Largest differences from the module's results that ``verify`` accepts: absolute, and relative ones.
_ABSOLUTE, _RELATIVE = 1e-4, 1e-3


@dataclass(slots=True)
class Options:
    """The options of an export, as ``onnx.export`` has them."""

    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    opset_version: int = 20
    dynamic_shapes: Any = None
    dynamic_axes: Mapping[str, Any] | None = None
    custom_translation_table: Mapping[Any, Any] | None = None
    optimize: bool = True
    verify: bool = False
    report: bool = False
    artifacts_dir: Any = "."
    verbose: bool = False
    seconds: dict[str, float] = field(default_factory=dict)


def export_model(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options) -> ONNXProgram:
    """Return a module, or an exported program, as a model.

    Raises:
        ArgumentError: An option does not fit the module.
        ExportError: The module has no graph, or no operators in ONNX.
        OnnxModelError: ``verify`` found results that differ.
    """
    try:
        made = _exported(model, args, kwargs, options)
    except Exception as error:
        if options.report:
            _report(options, model, f"Failed: {type(error).__name__}: {error}")
        raise
    return made


def _exported(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], options: Options) -> ONNXProgram:
    if options.opset_version not in OPSETS:
        raise ArgumentError("onnx.export", f"opset_version={options.opset_version}", f"models have opset "
                            f"{OPSETS[0]} to {OPSETS[-1]}", "choose one of these")
    registry = torch_lib()
    started = time.perf_counter()
    program, shapes = _program(model, args, kwargs, options)
    started = _note(options, "torch.export", started)
    made = Translator(program, registry, dict(options.custom_translation_table or {})).model()
    started = _note(options, "translation", started)
    if options.opset_version != BASE:
        package("onnxscript.version_converter").convert_version(made, options.opset_version, fallback=True)
        _check_version(made, options.opset_version)
    result = ONNXProgram(made, program)
    if options.optimize:
        result.optimize()
    started = _note(options, "optimization", started)
    _rename(made, options)
    axes.rename(made, axes.names_of_symbols(program, shapes))
    if options.dynamic_axes:
        axes.name_outputs(made, options.dynamic_axes)
    _check_model(result)
    lines = _verified(result, model, args, kwargs) if options.verify else []
    _note(options, "checks", started)
    if options.report:
        _report(options, model, "Exported", result, lines)
    return result


def _program(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
             options: Options) -> tuple[ExportedProgram, Any]:
    """Return the program of a module, and its dynamic shapes."""
    if isinstance(model, ExportedProgram):
        return model, None
    if not isinstance(model, Module):
        raise ArgumentError("onnx.export", f"a {type(model).__name__}", "a model is a module or an ExportedProgram",
                            "put the function into the forward() of a module")
    if model.training:
        warnings.warn("Exporting a model while it is in training mode. Please ensure that this is intended, as it may "
                      "lead to different behavior during inference. Calling model.eval() before export is "
                      "recommended.", UserWarning, stacklevel=5)
    shapes = options.dynamic_shapes
    if shapes is None and options.dynamic_axes:
        shapes = axes.from_dynamic_axes(options.dynamic_axes, model, args, kwargs, options.input_names,
                                        options.output_names)
    shapes = axes.with_dims(shapes)
    with torch.no_grad():
        return capture(model, args, kwargs, dynamic_shapes=shapes), shapes


def _check_version(model: Any, wanted: int) -> None:
    if model.graph.opset_imports.get("") != wanted:
        raise OnnxExporterError("onnx.export", f"opset_version={wanted} for a model of opset "
                                f"{model.graph.opset_imports.get('')}", "the model has an operator that cannot be "
                                "converted to the version", "choose another version")


def _rename(model: Any, options: Options) -> None:
    """Give inputs and outputs their names.

    Raises:
        ArgumentError: There are too many names, or equal ones.
    """
    for what, names, values in (("input_names", options.input_names, model.graph.inputs),
                                ("output_names", options.output_names, model.graph.outputs)):
        given = list(names or [])
        own = [x.name for x in values]
        taken = [*given, *own[len(given):]]
        if len(given) > len(own) or len(set(taken)) < len(taken) or "" in given or set(given) & set(
                model.graph.initializers):
            raise ArgumentError("onnx.export", f"{what}={given} for {own}", "names are distinct, not those of weights, "
                                "and at most as many as there are tensors", "pass a name for each tensor")
        for node in model.graph:
            for value in node.outputs:
                if value.name in given and value not in values:
                    value.name = f"{value.name}_inner"
        for value, name in zip(values, given, strict=False):
            value.name = name


def _check_model(result: ONNXProgram) -> None:
    """Check a model of less than two GiB with onnx's checker.

    Raises:
        OnnxModelError: It breaks a rule.
    """
    checker = package("onnx.checker")
    if result._size() > 1 << 30:
        return
    try:
        checker.check_model(result.model_proto, full_check=True)
    except (checker.ValidationError, package("onnx.shape_inference").InferenceError) as error:
        raise OnnxModelError("onnx.export", f"a model with a fault ({str(error).strip()})", "exported models keep the "
                             "rules that onnx.checker tests", "leave the operator out, and report it") from error


def _verified(result: ONNXProgram, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Compare the results of onnxruntime with those of the module.

    Raises:
        OnnxModelError: They differ.
    """
    if isinstance(model, ExportedProgram):
        args, kwargs = model.example_inputs
        model = model.module()
    with torch.no_grad():
        expected = [x for x in pytree.tree_leaves(model(*args, **kwargs)) if x is not None]
    found = differences(result, [x if isinstance(x, Tensor) else torch.tensor(x) for x in expected], args, kwargs)
    result.release()
    for name, absolute, relative in found:
        if not (absolute <= _ABSOLUTE or relative <= _RELATIVE):
            raise OnnxModelError("onnx.export", f"the result {name}, which differs by up to {absolute:.3g}, "
                                 f"{relative:.3g} relative", "verify=True accepts differences as of rounding",
                                 "compare the values on the way")
    return [f"| {name} | {absolute:.3g} | {relative:.3g} |" for name, absolute, relative in found]


def _note(options: Options, step: str, started: float) -> float:
    now = time.perf_counter()
    options.seconds[step] = now - started
    if options.verbose:
        print(f"[onnx.export] {step}: {now - started:.2f} s")
    return now


def _report(options: Options, model: Any, outcome: str, result: ONNXProgram | None = None,
            lines: Sequence[str] = ()) -> None:
    """Write a report about an export into the folder of artefacts."""
    folder = Path(os.fspath(options.artifacts_dir))
    folder.mkdir(parents=True, exist_ok=True)
    text = [f"# Export of {type(model).__name__}", "", outcome, "", f"- opset: {options.opset_version}",
            f"- tensocket: {getattr(torch, '__version__', '')}",
            *[f"- {step}: {seconds:.2f} s" for step, seconds in options.seconds.items()]]
    if result is not None:
        counts: dict[str, int] = {}
        for node in result.model.graph:
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
        text += ["", "| operator | nodes |", "|---|---|", *[f"| {k} | {n} |" for k, n in sorted(counts.items())]]
        if lines:
            text += ["", "| result | absolute | relative |", "|---|---|---|", *lines]
        text += ["", "```", str(result.exported_program), "```"]
    path = folder / f"onnx_export_{time.strftime('%Y-%m-%d_%H-%M-%S')}.md"
    path.write_text("\n".join(text) + "\n", "utf-8")
