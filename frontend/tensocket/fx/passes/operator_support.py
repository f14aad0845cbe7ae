"""Which nodes a backend supports: tests that can be combined."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any

from tensocket.nn import Module
from tensocket_plugins.contract.dtypes import DType

from ..node import Node
from .shape_prop import TensorMetadata
from .tools_common import CALLABLE_NODE_OPS, get_node_target

#: Dtypes of positional and keyword arguments, or None for any arguments.
SupportDict = Mapping[str, Any]
Test = Callable[[Mapping[str, Module], Node], bool]


class OperatorSupportBase(abc.ABC):
    """A test of nodes."""

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Whether a node is supported.

        Args:
            submodules: Modules by path.
            node: The node.
        """


class OperatorSupport(OperatorSupportBase):
    """A test by a table of targets, with the dtypes that the arguments may have.

    Args:
        support_dict: Target to None, or to a pair: lists of dtypes by position, and dict of lists by keyword.
    """

    _support_dict: SupportDict

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Whether a node's target is in the table, with these dtypes."""
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        wanted = self._support_dict[target]
        if wanted is None:
            return True
        positional, named = wanted
        return (all(self._get_arg_dtype(node.args[at]) in dtypes for at, dtypes in enumerate(positional)
                    if at < len(node.args) and isinstance(node.args[at], Node))
                and all(self._get_arg_dtype(node.kwargs[name]) in dtypes for name, dtypes in named.items()
                        if isinstance(node.kwargs.get(name), Node)))

    @staticmethod
    def _get_arg_dtype(arg: Any) -> DType | None:
        meta = arg.meta.get("tensor_meta")
        return meta.dtype if isinstance(meta, TensorMetadata) else arg.meta.get("type")


class FunctionalOperatorSupport(OperatorSupportBase):
    """A test that a function makes."""

    def __init__(self, is_node_supported: Test) -> None:
        self._test = is_node_supported

    def is_node_supported(self, submodules: Mapping[str, Module], node: Node) -> bool:
        """Whether the function says so."""
        return self._test(submodules, node)


def create_op_support(is_node_supported: Test) -> OperatorSupportBase:
    """Return the test that a function makes."""
    return FunctionalOperatorSupport(is_node_supported)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Return a test that all tests pass."""
    return create_op_support(lambda submodules, node: all(
        test.is_node_supported(submodules, node) for test in op_support))


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Return a test that one of the tests passes."""
    return create_op_support(lambda submodules, node: any(
        test.is_node_supported(submodules, node) for test in op_support))


def _dtypes_of(node: Node) -> set[DType]:
    metas = [operand.meta.get("tensor_meta") for operand in node.all_input_nodes]
    return {meta.dtype for meta in metas if isinstance(meta, TensorMetadata)}


class OpSupports:
    """Tests that splitters often need."""

    @classmethod
    def decline_if_input_dtype(cls, dtype: DType) -> OperatorSupportBase:
        """Return a test that fails for nodes with an operand of a dtype."""
        return create_op_support(lambda submodules, node: dtype not in _dtypes_of(node))

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Return a test that fails for nodes with these names."""
        return create_op_support(lambda submodules, node: node.name not in disallow_set)


__all__ = ["FunctionalOperatorSupport", "OpSupports", "OperatorSupport", "OperatorSupportBase", "any_chain",
           "chain", "create_op_support"]
