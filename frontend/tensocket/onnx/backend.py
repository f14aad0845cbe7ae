"""This package as a backend of ONNX: ``onnx.backend.base.Backend``."""

from __future__ import annotations

from typing import Any

import tensocket as torch
from tensocket.fx.graph_module import GraphModule

from .importing import load_graph_module
from .operators.values import to_array, to_value
from .packages import package

_base: Any = package("onnx.backend.base", "onnx.backend")
_BackendRep: Any = _base.BackendRep
_Backend: Any = _base.Backend


class BackendRep(_BackendRep):  # type: ignore[misc]
    """A model that is ready to run.

    Args:
        module: The model.
        device: Where inputs go.
    """

    def __init__(self, module: GraphModule, device: str) -> None:
        self.module, self.device = module, device

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return the results for NumPy arrays, sequences of these, or None, as such."""
        with torch.no_grad():
            found = self.module(*[_given(x, self.device) for x in inputs])
        single = len(self.module.meta["onnx"]["outputs"]) == 1
        return tuple([_returned(x) for x in ((found,) if single else found)])


def _given(value: Any, device: str) -> Any:
    if isinstance(value, (list, tuple)):
        return [_given(x, device) for x in value]
    return None if value is None else to_value(value, device)


def _returned(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_returned(x) for x in value]
    return None if value is None else to_array(value)


class Backend(_Backend):  # type: ignore[misc]
    """The backend; devices are ``CPU`` and ``CUDA``, with an index after a colon."""

    @classmethod
    def is_compatible(cls, model: Any, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether all operators of a model are in the table."""
        try:
            load_graph_module(model)
        except (NotImplementedError, RuntimeError):
            return False
        return True

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a device is there."""
        kind = device.partition(":")[0].lower()
        return kind == "cpu" or (kind == "cuda" and bool(torch.cuda.is_available()))

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **kwargs: Any) -> BackendRep:
        """Return a model, ready to run on a device."""
        return BackendRep(load_graph_module(model, device=device.lower()), device.lower())

    @classmethod
    def run_node(cls, node: Any, inputs: Any, device: str = "CPU", outputs_info: Any = None,
                 **kwargs: Any) -> tuple[Any, ...]:
        """Return the results of one node."""
        onnx = package("onnx")
        helper = onnx.helper
        values = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
                  for name, x in zip([n for n in node.input if n], inputs, strict=True)]
        results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", values, results)
        version = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
        return cls.prepare(model, device).run(inputs)


is_compatible, prepare, run_node = Backend.is_compatible, Backend.prepare, Backend.run_node
run_model, supports_device = Backend.run_model, Backend.supports_device
