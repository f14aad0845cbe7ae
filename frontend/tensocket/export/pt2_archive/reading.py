"""Exported programs from JSON. Everything in it is checked: names become code, so they must be identifiers."""

from __future__ import annotations

import json
import re
import sys
from enum import EnumMeta
from typing import Any, Final

from tensocket.errors import SerializationError
from tensocket.utils._pytree import tree_flatten_with_path, treespec_loads

from ..exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from ..graph_signature import (
    ArgumentSpec,
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from ..guards import InputGuards
from ..values import Symbol, ValueRanges
from .arguments import Json, entry_of, read_argument
from .constants import SCHEMA_VERSION
from .graphs import GraphReader
from .input_sizes import InputSizes
from .names import identifier_of, path_of

#: Deepest nesting of the text.
_DEEPEST: Final = 100
_STATE: Final = {"parameter": (InputKind.PARAMETER, "parameter_name"), "buffer": (InputKind.BUFFER, "buffer_name"),
                 "tensor_constant": (InputKind.CONSTANT_TENSOR, "tensor_constant_name")}
_WRITES: Final = {"buffer_mutation": (OutputKind.BUFFER_MUTATION, "buffer_name"),
                  "parameter_mutation": (OutputKind.PARAMETER_MUTATION, "parameter_name"),
                  "user_input_mutation": (OutputKind.USER_INPUT_MUTATION, "user_input_name")}
_SYMBOLIC: Final[dict[str, Any]] = {"as_sym_int": SymIntArgument, "as_sym_float": SymFloatArgument,
                                    "as_sym_bool": SymBoolArgument}
#: Functions that make the missing values of a ``defaultdict``.
_FACTORIES: Final = frozenset({f"builtins.{x}" for x in ("list", "dict", "set", "tuple", "int", "float", "str", "bool")}
                              | {"collections.OrderedDict", "collections.deque"})


def parse_json(data: bytes | bytearray) -> Json:
    """Return the object of a JSON text.

    Raises:
        ValueError: The text is not an object, or too deep.
    """
    depth = deepest = 0
    for bracket in re.findall(rb"[\[{}\]]", data):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    if deepest > 10 * _DEEPEST:
        raise ValueError(f"a text of depth {deepest}")
    found = json.loads(data)
    if not isinstance(found, dict):
        raise ValueError(f"a {type(found).__name__} in place of an object")
    return found


def read_program(text: Json, state_dict: dict[str, Any], constants: dict[str, Any],
                 example_inputs: Any) -> ExportedProgram:
    """Return the program of a JSON object.

    Args:
        text: The object.
        state_dict: Its parameters and persistent buffers by path.
        constants: Its constants and other buffers by path.
        example_inputs: The arguments that it was exported with.

    Raises:
        ValueError: The object is not a program.
        SerializationError: The program has parts that are not supported.
    """
    check_version(text)
    module = text["graph_module"]
    is_own = str(text.get("torch_version", "")).startswith("tensocket")
    sizes = InputSizes(text["range_constraints"], is_exact=is_own)
    entries = [_call_entry(x) for x in module["module_call_graph"]]
    call = entries[0].signature
    if entries[0].fqn or call is None:
        raise ValueError("the first call is not that of the program")
    names = [identifier_of(x) for x in module["module_call_graph"][0]["signature"].get("forward_arg_names") or []]
    specs = [_input_spec(x) for x in module["signature"]["input_specs"]]
    reader = GraphReader(module["graph"], sizes)
    reader.read(specs, _sources(call.in_spec, names))
    signature = ExportGraphSignature(specs, [
        _output_spec(x, reader) for x in module["signature"]["output_specs"]])
    guards = InputGuards(reader.sources, reader.expected, reader.sizes, sizes.roots,
                         [sizes.comparison(x, reader.places()) for x in text.get("guards_code") or []])
    ranges = {Symbol(str(name)): ValueRanges(_bound(r["min_val"], 0), _bound(r["max_val"], float("inf")))
              for name, r in text["range_constraints"].items()}
    return ExportedProgram({}, reader.graph, signature, state_dict, ranges, entries, example_inputs, constants,
                           guards=guards, argument_names=names, dialect=str((text.get("verifiers") or ["TRAINING"])[0]))


def check_version(text: Json) -> None:
    """Check the version of a text.

    Raises:
        SerializationError: It is another one.
    """
    version = text["schema_version"]
    if version["major"] != SCHEMA_VERSION[0]:
        raise SerializationError("export.load", f"schema version {version['major']}.{version['minor']}", "Serialized "
                                 f"schema version does not match our current schema version {SCHEMA_VERSION}",
                                 "export the program again with PyTorch 2.9 or newer")


def _bound(value: Any, default: float) -> Any:
    if value is None:
        return default
    if type(value) is not int:
        raise ValueError(f"a bound {value!r}")
    return value


# ----------------------------------------------------------------------------------------------------------- signature


def _input_spec(value: Json) -> InputSpec:
    kind, content = entry_of(value)
    if kind in _STATE:
        meaning, name = _STATE[kind]
        persistent = bool(content["persistent"]) if kind == "buffer" else None
        return InputSpec(meaning, TensorArgument(identifier_of(content["arg"]["name"])), path_of(content[name]),
                         persistent)
    if kind == "constant_input":
        constant = read_argument(content["value"], _no_node)
        return InputSpec(InputKind.USER_INPUT, ConstantArgument(identifier_of(content["name"]), constant), None)
    if kind == "user_input":
        return InputSpec(InputKind.USER_INPUT, _argument_spec(content["arg"]), None)
    raise SerializationError("export.load", f"an input of kind {kind!r}", "inputs are parameters, buffers, constants, "
                             "tensors, numbers and texts", "export the program without objects of its own classes")


def _argument_spec(value: Json) -> ArgumentSpec:
    kind, content = entry_of(value)
    if kind == "as_tensor":
        return TensorArgument(identifier_of(content["name"]))
    if kind in _SYMBOLIC and "as_name" in content:
        made: ArgumentSpec = _SYMBOLIC[kind](identifier_of(content["as_name"]))
        return made
    return ConstantArgument("", read_argument(value, _no_node))


def _no_node(name: str) -> Any:
    raise ValueError(f"{name[:80]!r} in place of a constant")


def _output_spec(value: Json, reader: GraphReader) -> OutputSpec:
    kind, content = entry_of(value)
    if kind == "user_output":
        arg = _argument_spec(content["arg"])
        if not isinstance(arg, ConstantArgument):
            arg.name = reader.node(arg.name).name
        return OutputSpec(OutputKind.USER_OUTPUT, arg, None)
    if kind not in _WRITES:
        raise SerializationError("export.load", f"an output of kind {kind!r}", "outputs are results, or writes to "
                                 "buffers, parameters and arguments", "export the forward pass alone")
    meaning, name = _WRITES[kind]
    return OutputSpec(meaning, TensorArgument(reader.node(content["arg"]["name"]).name), path_of(content[name]))


# ---------------------------------------------------------------------------------------------------------- structures


def read_structure(text: str) -> Any:
    """Return a structure of containers. Its classes are registered ones, and no module is imported.

    Raises:
        ValueError: It names another function or class.
    """
    def check(spec: Any) -> None:
        _check_context(spec["context"])
        for child in spec["children_spec"]:
            check(child)

    check(parse_json(b"{" + b'"spec":' + text.encode() + b"}")["spec"][1])
    return treespec_loads(text)


def _check_context(context: Any) -> None:
    """Check the functions and classes that the context of a structure names.

    Raises:
        ValueError: One is not a container, a number or an enumeration that the program knows.
    """
    if isinstance(context, str) and context[:1] in ("{", "[") and "__enum__" in context:
        context = parse_json(b'{"context":' + context.encode() + b"}")["context"]
    if isinstance(context, list):
        for item in context:
            _check_context(item)
    if not isinstance(context, dict):
        return
    for item in context.values():
        _check_context(item)
    if "default_factory_module" in context and (
            f"{context['default_factory_module']}.{context['default_factory_name']}" not in _FACTORIES):
        raise ValueError("a defaultdict whose factory is not a container or a number")
    if "__enum__" in context:
        module, _, name = str(context["fqn"]).partition(":")
        kind: Any = sys.modules.get(module)
        for part in name.split("."):
            kind = getattr(kind, part, None)
        if not isinstance(kind, EnumMeta):
            raise ValueError(f"an enumeration {context['fqn']!r} that the program does not know")


def _call_entry(value: Json) -> ModuleCallEntry:
    signature = value.get("signature")
    if signature is None:
        return ModuleCallEntry(str(value["fqn"]))
    in_spec, out_spec = read_structure(signature["in_spec"]), read_structure(signature["out_spec"])
    for key in in_spec.children()[1].context:
        identifier_of(key)
    return ModuleCallEntry(str(value["fqn"]), ModuleCallSignature(
        [_argument_spec(x) for x in signature["inputs"]], [_argument_spec(x) for x in signature["outputs"]],
        in_spec, out_spec))


def _sources(in_spec: Any, names: list[str]) -> list[str]:
    """Return how messages call the inputs: ``x['a'][0]``."""
    found = []
    for (which, first, *rest), _ in tree_flatten_with_path(in_spec.unflatten(range(in_spec.num_leaves)))[0]:
        at = getattr(first, "idx", None)
        named = str(first.key) if which.idx else names[at] if at is not None and at < len(names) else f"args_{at}"
        found.append(named + "".join(map(str, rest)))
    return found
