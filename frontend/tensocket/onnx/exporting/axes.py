"""Dynamic axes: the older form of dynamic shapes, and the names of sizes in models."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from tensocket.errors import ArgumentError
from tensocket.export import Dim
from tensocket.utils import _pytree as pytree
from tensocket_operators import Tensor

_ADVICE = "pass {input: {axis: name}}, with the inputs of input_names"


def names_of_axes(axes: Any, name: str) -> dict[int, str]:
    """Return the names of a tensor's dynamic axes; lists of axes get names.

    Raises:
        ArgumentError: An axis has no name.
    """
    if not isinstance(axes, Mapping):
        return {int(k): f"{name}_dynamic_axes_{number}" for number, k in enumerate(axes, 1)}
    for axis, word in axes.items():
        if not isinstance(word, str) or not word.isidentifier():
            raise ArgumentError("onnx.export", f"dynamic_axes with {name!r}: {{{axis}: {word!r}}}", "a dynamic axis "
                                "has a name, which is an identifier", _ADVICE)
    return {int(k): word for k, word in axes.items()}


def from_dynamic_axes(dynamic_axes: Mapping[str, Any], model: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                      input_names: Sequence[str] | None, output_names: Sequence[str] | None) -> dict[str, Any]:
    """Return dynamic axes as dynamic shapes.

    Raises:
        ArgumentError: They name something else than an input or output, or an axis has no name.
    """
    arguments = arguments_of(model, args, kwargs)
    leaves = [(name, x) for name, value in arguments for x in pytree.tree_leaves(value) if isinstance(x, Tensor)]
    own = [name for name, _ in leaves]
    known = [*(input_names or []), *own[len(input_names or []):]]
    for name in dynamic_axes:
        if name not in known and name not in (output_names or ()):
            raise ArgumentError("onnx.export", f"dynamic_axes of {name!r} beside {known + list(output_names or ())}",
                                "dynamic axes are those of inputs and outputs, by their names", _ADVICE)
    dims: dict[str, Dim] = {}
    found: dict[int, dict[int, Dim]] = {}
    for name, (_, tensor) in zip(known, leaves, strict=False):
        for axis, word in names_of_axes(dynamic_axes.get(name, {}), name).items():
            if not -tensor.dim() <= axis < tensor.dim():
                raise ArgumentError("onnx.export", f"axis {axis} of {name!r}, which has {tensor.dim()} dimensions",
                                    "a dynamic axis is a dimension of its input", _ADVICE)
            found.setdefault(id(tensor), {})[axis % tensor.dim()] = dims.setdefault(word, Dim(word))
    return {name: pytree.tree_map(lambda x: found.get(id(x)) if isinstance(x, Tensor) else None, value)
            for name, value in arguments}


def arguments_of(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the arguments of a call of a module by name."""
    parameters = list(inspect.signature(model.forward).parameters.values())
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    more = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    rest = args[len(plain):]
    return [*zip(plain, args, strict=False), *([(more, rest)] if rest else []), *kwargs.items()]


def with_dims(shapes: Any) -> Any:
    """Return dynamic shapes with a ``Dim`` for each name; equal names are one size."""
    dims: dict[str, Dim] = {}

    def replace(value: Any) -> Any:
        if isinstance(value, str):
            return dims.setdefault(value, Dim(value))
        if isinstance(value, Mapping):
            return {k: replace(x) for k, x in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)([replace(x) for x in value])
        return value

    return replace(shapes)


def names_of_symbols(program: Any, shapes: Any) -> dict[str, str]:
    """Return the names that dynamic shapes give to the symbols of a program's sizes."""
    specs = {x.arg.name: x.target for x in program.graph_signature.input_specs}
    nodes = [n for n in program.graph.find_nodes(op="placeholder") if specs[n.name] is None]
    forms = [n.meta["val"] for n in nodes]
    ordered = list(_dims_of(shapes))
    found: dict[str, str] = {}
    sizes = [[getattr(n, "name", None) for n in getattr(form, "shape", ())] for form in forms]
    for names, dims in zip(sizes, ordered, strict=False):
        for axis, dim in dims.items():
            word = names[axis] if axis < len(names) else None
            if word is not None and re.fullmatch(r"\w+", word) and type(dim) is Dim:
                found.setdefault(word, dim.__name__)
    return found


def _dims_of(shapes: Any) -> Any:
    """Yield a dict from axes to dims for each argument that is a leaf."""
    if isinstance(shapes, Mapping) and shapes and all(isinstance(k, int) for k in shapes):
        yield dict(shapes)
    elif isinstance(shapes, Mapping):
        for value in shapes.values():
            yield from _dims_of(value)
    elif isinstance(shapes, (list, tuple)):
        if shapes and all(x is None or isinstance(x, (Dim, int)) for x in shapes):
            yield dict(enumerate(shapes))
        else:
            for value in shapes:
                yield from _dims_of(value)
    else:
        yield {}


def rename(model: Any, names: Mapping[str, str]) -> None:
    """Rename the sizes of all values of a model, also in expressions."""
    if not names:
        return
    pattern = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in names))
    graph = model.graph
    values = [*graph.inputs, *graph.initializers.values(), *graph.outputs]
    values += [x for node in ir.traversal.RecursiveGraphIterator(graph) for x in node.outputs]
    for value in values:
        if value.shape is not None and any(not isinstance(n, int) for n in value.shape):
            value.shape = ir.Shape([n if isinstance(n, int) else None if n.value is None else pattern.sub(
                lambda found: names[found.group()], n.value) for n in value.shape])


def name_outputs(model: Any, dynamic_axes: Mapping[str, Any]) -> None:
    """Give the dynamic axes of outputs their names."""
    for value in model.graph.outputs:
        words = names_of_axes(dynamic_axes.get(value.name, {}), value.name)
        if words and value.shape is not None:
            value.shape = ir.Shape([words.get(k, n if isinstance(n, int) else n.value)
                                    for k, n in enumerate(value.shape)])
