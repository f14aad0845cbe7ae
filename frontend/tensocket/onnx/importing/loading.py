"""Loading a model as a graph module."""

from __future__ import annotations

from typing import Any, Final

from tensocket.fx.graph_module import GraphModule

from ..packages import OnnxModelError, package
from .building import GraphBuilder, Model
from .files import Tensors, read_model
from .functions import inlined

#: Bytes of the largest model that onnx's checker takes.
_LARGEST_CHECKED: Final = 1 << 30


def load_graph_module(model: Any, *, device: Any = None) -> GraphModule:
    """Return an ONNX model as a module, whose graph calls functions of tensors.

    Floating-point initializers are parameters, by their names; the module runs where they are, and gradients pass
    where operators have them. Values of strings, and of data types that tensors do not have, are NumPy arrays;
    sequences are lists; absent optional values are None.

    Args:
        model: A path, bytes, an open binary file, or a ``ModelProto``.
        device: The device of the parameters.

    Returns:
        A module that takes the inputs of the model in order, and returns its result, or a tuple of several.

    Raises:
        OnnxModelError: The model is damaged, or breaks the rules of ONNX.
        UnsupportedOnnxOperators: It has operators without a function; all are listed.
        MissingPackage: The package ``onnx`` is not installed.
    """
    proto, folder = read_model(model)
    _check(proto)
    proto = inlined(proto)
    opsets = {"" if x.domain == "ai.onnx" else x.domain: int(x.version) for x in proto.opset_import}
    shared = Model(opsets, Tensors(folder))
    made = GraphBuilder(shared, proto.graph, []).build(name="OnnxGraphModule", single=True)
    shared.check()
    names = {t.name for t in proto.graph.initializer}
    made.meta["onnx"] = {"inputs": [x.name for x in proto.graph.input if x.name not in names],
                         "outputs": [x.name for x in proto.graph.output], "opsets": opsets}
    made.eval()
    return made if device is None else made.to(device)


def _check(proto: Any) -> None:
    """Check a model with onnx's own checker.

    Raises:
        OnnxModelError: It breaks a rule.
    """
    checker = package("onnx.checker")
    if proto.ByteSize() > _LARGEST_CHECKED:
        return
    stripped = type(proto)()
    stripped.CopyFrom(proto)
    for tensor in stripped.graph.initializer:  # the importer checks data itself, and where files may be
        if tensor.data_location == tensor.EXTERNAL:
            del tensor.external_data[:]
            tensor.ClearField("data_location")
            tensor.dims[:] = [0]
    for value in [*stripped.graph.input, *stripped.graph.output]:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()  # runtimes need no shape, although the checker does
    try:
        checker.check_model(stripped)
    except (checker.ValidationError, ValueError, UnicodeDecodeError) as error:
        raise OnnxModelError("load_graph_module", f"a model with a fault ({str(error).strip()})", "models keep the "
                             "rules that onnx.checker tests", "correct the program that wrote it") from error
