"""Signatures of exported graphs: which input is a parameter, a buffer, a constant or an argument; so for outputs."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class TensorArgument:
    """A tensor, by the name of its node."""

    name: str


@dataclass
class SymIntArgument:
    """An integer that follows from sizes, by the name of its node."""

    name: str


@dataclass
class SymFloatArgument:
    """A float that follows from sizes, by the name of its node."""

    name: str


@dataclass
class SymBoolArgument:
    """A truth value that follows from sizes, by the name of its node."""

    name: str


@dataclass
class TokenArgument:
    """A token of an effect."""

    name: str


@dataclass
class CustomObjArgument:
    """An object of a program's class."""

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclass
class ConstantArgument:
    """A constant: an argument other than a tensor, or a result that is the same in each call."""

    name: str
    value: int | float | bool | str | None


ArgumentSpec = (TensorArgument | SymIntArgument | SymFloatArgument | SymBoolArgument | ConstantArgument
                | CustomObjArgument | TokenArgument)


class InputKind(enum.Enum):
    """Kinds of inputs."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()
    CONSTANT_TENSOR = enum.auto()
    CUSTOM_OBJ = enum.auto()
    TOKEN = enum.auto()


class OutputKind(enum.Enum):
    """Kinds of outputs."""

    USER_OUTPUT = enum.auto()
    LOSS_OUTPUT = enum.auto()
    BUFFER_MUTATION = enum.auto()
    PARAMETER_MUTATION = enum.auto()
    GRADIENT_TO_PARAMETER = enum.auto()
    GRADIENT_TO_USER_INPUT = enum.auto()
    USER_INPUT_MUTATION = enum.auto()
    TOKEN = enum.auto()


@dataclass
class InputSpec:
    """An input of the graph.

    Attributes:
        kind: Its kind.
        arg: Its node.
        target: The path of a parameter, buffer or constant in the module.
        persistent: Whether a buffer is in the state dict.
    """

    kind: InputKind
    arg: ArgumentSpec
    target: str | None
    persistent: bool | None = None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclass
class OutputSpec:
    """An output of the graph.

    Attributes:
        kind: Its kind.
        arg: Its node, or the constant.
        target: The path of what it writes to.
    """

    kind: OutputKind
    arg: ArgumentSpec
    target: str | None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target='{self.target}'"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclass
class ExportBackwardSignature:
    """Gradients among the outputs."""

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclass
class ExportGraphSignature:
    """The inputs and outputs of an exported graph, in order."""

    input_specs: list[InputSpec] = field(default_factory=list)
    output_specs: list[OutputSpec] = field(default_factory=list)

    def _targets(self, kind: InputKind) -> tuple[str, ...]:
        return tuple([x.target for x in self.input_specs if x.kind is kind and x.target is not None])

    def _by_node(self, kind: InputKind) -> Mapping[str, str]:
        return {x.arg.name: x.target for x in self.input_specs if x.kind is kind and x.target is not None}

    def _written(self, kind: OutputKind) -> Mapping[str, str]:
        return {x.arg.name: x.target for x in self.output_specs if x.kind is kind and x.target is not None}

    @property
    def parameters(self) -> tuple[str, ...]:
        """Paths of the parameters."""
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> tuple[str, ...]:
        """Paths of the buffers."""
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """Paths of the buffers that the state dict leaves out."""
        return tuple([x.target for x in self.input_specs if x.persistent is False and x.target is not None])

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """Paths of the constants."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def lifted_custom_objs(self) -> tuple[str, ...]:
        """Paths of objects of programs' classes: none."""
        return self._targets(InputKind.CUSTOM_OBJ)

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """Nodes of the arguments; constants themselves."""
        return tuple([x.arg.value if isinstance(x.arg, ConstantArgument) else x.arg.name
                      for x in self.input_specs if x.kind is InputKind.USER_INPUT])

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """Nodes of the results; constants themselves."""
        return tuple([x.arg.value if isinstance(x.arg, ConstantArgument) else x.arg.name
                      for x in self.output_specs if x.kind is OutputKind.USER_OUTPUT])

    @property
    def inputs_to_parameters(self) -> Mapping[str, str]:
        """Paths of parameters by node."""
        return self._by_node(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> Mapping[str, str]:
        """Paths of buffers by node."""
        return self._by_node(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> Mapping[str, str]:
        """Paths of constants by node."""
        return self._by_node(InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self) -> Mapping[str, str]:
        """Paths of objects by node: none."""
        return self._by_node(InputKind.CUSTOM_OBJ)

    @property
    def buffers_to_mutate(self) -> Mapping[str, str]:
        """Paths of the buffers that outputs are written to, by node."""
        return self._written(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> Mapping[str, str]:
        """Paths of the parameters that outputs are written to, by node."""
        return self._written(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> Mapping[str, str]:
        """Arguments that outputs are written to, by node."""
        return self._written(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """The gradients among the outputs: none."""
        return None

    @property
    def assertion_dep_token(self) -> None:
        """The token of assertions: none."""
        return

    def replace_all_uses(self, old: str, new: str) -> None:
        """Give the inputs and outputs of one node to another."""
        for arg in [*[x.arg for x in self.input_specs], *[x.arg for x in self.output_specs]]:
            if arg.name == old:
                arg.name = new

    def __str__(self) -> str:
        inputs, outputs = "\n".join(map(str, self.input_specs)), "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"


__all__ = ["ArgumentSpec", "ConstantArgument", "CustomObjArgument", "ExportBackwardSignature", "ExportGraphSignature",
           "InputKind", "InputSpec", "OutputKind", "OutputSpec", "SymBoolArgument", "SymFloatArgument",
           "SymIntArgument", "TensorArgument", "TokenArgument"]
