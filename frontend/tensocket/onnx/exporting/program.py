"""Exported models: callable, and written to files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx_ir as ir

import tensocket as torch
from tensocket.errors import ArgumentError
from tensocket.export import ExportedProgram
from tensocket.utils import _pytree as pytree
from tensocket_operators import Tensor

from ..operators.values import to_array, to_value
from ..packages import package
from . import axes

#: Bytes of weights from which they are in a file of their own, because protobuf holds less than 2 GiB.
_LARGE: Final = 1536 << 20
#: Bytes from which a tensor is in the file of external data.
_SMALL: Final = 1024


class ONNXProgram:
    """A model that ``onnx.export`` made; a call runs it with onnxruntime.

    Args:
        model: The model, as onnx_ir's.
        exported_program: The program that it comes from.

    Attributes:
        model: The model, as onnx_ir's.
        exported_program: The program that it comes from.
    """

    def __init__(self, model: Any, exported_program: ExportedProgram | None) -> None:
        self.model = model
        self.exported_program = exported_program
        self._session: Any = None
        self._weights = frozenset(model.graph.initializers)
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def model_proto(self) -> Any:
        """The model as ``onnx.ModelProto``."""
        return ir.serde.serialize_model(self.model)

    # ---- running

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the results of the model for the arguments of the module.

        Raises:
            MissingPackage: onnxruntime is not installed.
        """
        if self._session is None:
            self.initialize_inference_session()
        runtime = package("onnxruntime", "ONNXProgram")
        feeds = {name: _ort_value(runtime, x) for name, x in self._feeds(args, kwargs).items()}
        return tuple([_from_ort(x) for x in self._session.run_with_ort_values(None, feeds)])

    def call_reference(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the results of the model by onnx's reference evaluator."""
        evaluator = package("onnx.reference", "ONNXProgram").ReferenceEvaluator(self.model_proto)
        return tuple([to_value(x) for x in evaluator.run(None, self._feeds(args, kwargs))])

    def _feeds(self, args: Any, kwargs: Any) -> dict[str, Any]:
        leaves = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        inputs = [x for x in self.model.graph.inputs if x.name not in self.model.graph.initializers]
        if len(leaves) != len(inputs):
            raise ArgumentError("ONNXProgram", f"{len(leaves)} tensors for {[x.name for x in inputs]}", "a call has as "
                                "many tensors as the model has inputs", "pass the arguments of the exported module")
        return {value.name: to_array(torch.view_as_real(x) if x.dtype.is_complex else x)
                for value, x in zip(inputs, leaves, strict=True)}

    def initialize_inference_session(self, initializer: Callable[[Any], Any] | None = None) -> None:
        """Make the session of onnxruntime that calls use.

        Args:
            initializer: Makes the session of a path or of bytes.
        """
        make = initializer or _session
        if self._size() > _LARGE:
            self._folder = tempfile.TemporaryDirectory()
            path = Path(self._folder.name) / "model.onnx"
            self.save(path, external_data=True)
            self._session = make(str(path))
        else:
            self._session = make(self.model_proto.SerializeToString())

    def release(self) -> None:
        """Let go of the session."""
        self._session = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _size(self) -> int:
        return sum(x.const_value.nbytes for x in self.model.graph.initializers.values() if x.const_value is not None)

    # ---- changing it

    def optimize(self) -> None:
        """Fold constants, and leave out nodes without use; weights stay what they are, with their names."""
        def is_free(node: Any) -> bool | None:
            return False if any(x is not None and x.name in self._weights for x in node.inputs) else None

        common = package("onnx_ir.passes.common")
        common.InlinePass()(self.model)
        package("onnxscript.optimizer").fold_constants(self.model, onnx_shape_inference=True, should_fold=is_free)
        for each in (common.RemoveUnusedNodesPass, common.RemoveUnusedFunctionsPass, common.RemoveUnusedOpsetsPass,
                     common.CommonSubexpressionEliminationPass, common.OutputFixPass, common.NameFixPass):
            each()(self.model)
        self.release()

    def rename_axes(self, rename_mapping: Mapping[Any, str]) -> None:
        """Rename sizes that change, by their names or by the sizes of ``model``."""
        axes.rename(self.model, {str(getattr(k, "value", k)): v for k, v in rename_mapping.items()})
        self.release()

    def apply_weights(self, state_dict: Mapping[str, Any]) -> None:
        """Replace the weights of the model.

        Raises:
            ArgumentError: A name is not that of a weight, or a shape or dtype is another.
        """
        weights = self.model.graph.initializers
        for name, tensor in state_dict.items():
            made = ir.tensor(to_array(tensor), name=name)
            old = weights[name].const_value if name in weights else None
            if old is None or (made.dtype, list(made.shape)) != (old.dtype, list(old.shape)):
                raise ArgumentError("apply_weights", f"{name!r}", "weights are those of the model, with their shapes "
                                    "and dtypes", "pass a part of the state dict of the exported module")
        for name, tensor in state_dict.items():
            weights[name].const_value = ir.tensor(to_array(tensor), name=name)
        self.release()

    # ---- files

    def save(self, destination: Any, *, include_initializers: bool = True, keep_initializers_as_inputs: bool = False,
             external_data: bool | None = None) -> None:
        """Write the model to a file; an error leaves no file, or the old one.

        Args:
            destination: The path, or an open binary file, which gets the model with its weights.
            include_initializers: Whether the weights are in the file.
            keep_initializers_as_inputs: Whether the weights are inputs, too.
            external_data: Whether large weights are in a file beside it, with ``.data`` after its name; those of
                models beyond protobuf's limit are in any case.
        """
        if hasattr(destination, "write"):
            destination.write(self.model_proto.SerializeToString())
            return
        path = Path(os.fspath(destination))
        outside = external_data or self._size() > _LARGE
        graph = self.model.graph
        held, inputs = dict(graph.initializers), list(graph.inputs)
        try:
            if keep_initializers_as_inputs:
                graph.inputs.extend([x for x in held.values() if x not in inputs])
            if not include_initializers:
                graph.initializers.clear()
            self._write(path, outside and include_initializers)
        finally:
            graph.initializers.clear()
            graph.initializers.update(held)
            del graph.inputs[:]
            graph.inputs.extend(inputs)

    def _write(self, path: Path, outside: bool) -> None:
        """Write the model to a folder beside the file, and then move its files to their places."""
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
            made = Path(folder) / path.name
            data = f"{path.name}.data"
            if outside:
                ir.save(self.model, made, external_data=data, size_threshold_bytes=_SMALL)
                if (Path(folder) / data).exists():
                    os.replace(Path(folder) / data, path.parent / data)
            else:
                ir.save(self.model, made)
            os.replace(made, path)

    def __repr__(self) -> str:
        inputs, outputs = ([f"{x.name}: {x.type}{x.shape}" for x in values]
                           for values in (self.model.graph.inputs, self.model.graph.outputs))
        return f"ONNXProgram({', '.join(inputs)} -> {', '.join(outputs)}; {len(self.model.graph)} nodes)"


def _ort_value(runtime: Any, array: Any) -> Any:
    """Return an array as a value of onnxruntime, which knows 16-bit floats other than NumPy's by their number."""
    if array.dtype.name != "bfloat16":
        return runtime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
    return runtime.OrtValue.ortvalue_from_numpy_with_onnx_type(np.ascontiguousarray(array).view(np.uint16),
                                                               ir.DataType.BFLOAT16.value)


def _from_ort(value: Any) -> Any:
    if value.element_type() == ir.DataType.BFLOAT16.value:
        return torch.from_dlpack(value._get_c_value())
    return to_value(value.numpy())


def _session(model: Any) -> Any:
    runtime = package("onnxruntime", "ONNXProgram")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    return runtime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def differences(program: ONNXProgram, expected: Sequence[Any], args: tuple[Any, ...],
                kwargs: dict[str, Any]) -> list[tuple[str, float, float]]:
    """Return name, largest absolute and largest relative difference of each result from that of the module."""
    found = []
    names = [x.name for x in program.model.graph.outputs]
    for name, mine, wanted in zip(names, program(*args, **kwargs), expected, strict=True):
        one, other = (np.asarray(to_array(x), dtype=np.float64) for x in (mine, wanted))
        gap = np.abs(one - other)
        gap = np.where(np.isnan(one) & np.isnan(other) | (one == other), 0, gap)
        found.append((name, float(gap.max(initial=0)), float((gap / (np.abs(other) + 1e-12)).max(initial=0))))
    return found
