"""Nodes of small host arrays, run on NumPy arrays instead of tensors.

On a few elements, the cost of a gradient is making tensors and finding kernels. This fast path avoids both.
Guard: the pass records nothing, no mode is on, no kernel is replaced, and the node's derivative states how it runs on
arrays. Any other case (hooks, large arrays, other dtypes) takes the engine's general path, which computes the same.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.kit.host_kernels_quiet import quiet

from ..device import BY_KEY, DeviceState
from ..dispatch.derivative import ARRAYS, Derivative
from ..keys import AUTOGRAD, DEVICE_MASK, DIM0, DTYPE_MASK, DTYPE_OF, LAZY, OPTIONS, WRAPPER
from ..launch import host_kernels
from ..tensor import Tensor, wrap
from .accumulate import LOCKS, SOLE_REFERENCE
from .node import Node

_Array = np.ndarray
_PARTS: Final = AUTOGRAD | LAZY | WRAPPER
Rule = Callable[..., Any]
Plan = tuple[tuple[int, Rule, tuple[tuple[int, bool], ...]], ...]


class HostRules:
    """One dtype on one host-resident device.

    Attributes:
        options: Key bits of dtype and device.
        dtype: The NumPy dtype.
        numbers: Python numbers as arrays, ``host_kernels.NUMBERS``.
        total: ``total(x, dims, keepdim)`` sums along dimensions.
        plans: By derivative: for every argument with a gradient its position, the function on arrays, and for each of
            that function's saved values its position and whether it is an operand, which may be a number; None for a
            derivative without such functions.
    """

    __slots__ = ("_device_state", "_kind", "dtype", "numbers", "options", "plans", "total")

    def __init__(self, options: int, device_state: DeviceState, kind: DType, total: Rule) -> None:
        self._device_state = device_state
        self._kind = kind
        self.options = options
        self.dtype = kind.numpy
        self.numbers = host_kernels.NUMBERS[kind]
        self.total = total
        self.plans: dict[Derivative, Plan | None] = {}

    def resolve(self, derivative: Derivative) -> Plan | None:
        """Return the functions of a derivative, with names of kernels replaced by the kernels."""
        plan: list[tuple[int, Rule, tuple[tuple[int, bool], ...]]] | None = [] if derivative.arrays else None
        for position, (rule, picks) in enumerate(zip(derivative.arrays, derivative.picks, strict=False)):
            if isinstance(rule, str):
                kernel = self._device_state.runtime.kernels.find(rule, self._kind.name, direct=True)
                if kernel is None or (kernel.limit or ARRAYS) < ARRAYS:
                    plan = None
                    break
                rule = kernel.run
            if rule is not None and plan is not None:
                saved = tuple([(pick, derivative.saved_positions[pick] in derivative.tensors) for pick in picks])
                plan.append((position, rule, saved))
        found = self.plans[derivative] = None if plan is None else tuple(plan)
        return found

    def number(self, value: Any) -> Any:
        """Return a Python number as an array."""
        try:
            return self.numbers[value]
        except KeyError:
            return host_kernels.number_array(value, self._kind)


#: Host by options, at most one per dtype and device, never cleared; None if this path does not serve them.
_HOSTS: Final[dict[int, HostRules | None]] = {}


def _host(options: int) -> HostRules | None:
    device_state, kind = BY_KEY[options & DEVICE_MASK], DTYPE_OF[options & DTYPE_MASK]
    host = None
    if device_state.runtime.profile.host_resident and device_state.holds_data and kind in (dtypes.float32,
                                                                                           dtypes.float64):
        kernel = device_state.runtime.kernels.find("sum", kind.name, direct=True)
        host = None if kernel is None else HostRules(options, device_state, kind, kernel.run)
    _HOSTS[options] = host
    return host


def _outputs(node: Node, edges: tuple[Any, ...], host: HostRules, array: Any) -> list[Any] | None:
    """Return the gradients of the arguments with an edge; None if the general path must compute them."""
    try:
        plan = host.plans[node.derivative]
    except KeyError:
        plan = host.resolve(node.derivative)
    if plan is None or array.size > ARRAYS or array.dtype is not host.dtype or node.saved is None:
        return None
    outputs = [None] * len(edges)
    saved, versions = node.saved, node.versions
    for position, rule, picks in plan:
        if edges[position] is None:
            continue
        values = [array]
        for pick, is_operand in picks:
            value, version = saved[pick], versions[pick]
            if version >= 0:
                counter = value._version_counter
                if (0 if counter is None else counter[0]) != version or value._key & (LAZY | WRAPPER):
                    return None
                value = value._array
                if value.dtype is not host.dtype:
                    return None
            elif version != -1:
                return None
            elif is_operand and (type(value) is float or type(value) is int):
                value = host.number(value)
            values.append(value)
        output = rule(*values)
        if type(output) is not _Array:
            if output is NotImplemented:
                return None
            output = np.asarray(output)
        outputs[position] = output
    return outputs


@quiet
def run_chain_on_arrays(state: Any, node: Node, grad: Any) -> tuple[Any, Any, int]:
    """Run a node, and then its successors as long as no other node waits.

    Args:
        state: The pass.
        node: A node.
        grad: Its gradient, a tensor on a NumPy array.

    Returns:
        The node at which the general path continues and its gradient, or None twice; and the number of the last node
        that ran, 0 if none did.
    """
    options, sequence = node.options, 0
    try:
        host = _HOSTS[options]
    except KeyError:
        host = _host(options)
    if host is None or grad._key & ~DIM0 != options:
        return node, grad, 0
    array, grad, kept_edges = grad._array, None, state.kept_edges
    while True:
        edges = node.edges if kept_edges is None else kept_edges.get(node.sequence, ())
        outputs = _outputs(node, edges, host, array) if edges else None
        if outputs is None:
            return node, wrap(array, options), sequence
        sequence = node.sequence
        if not state.retain_graph and node.saved and node.derivative.frees:
            node.saved = None
        array = None
        first = edges[0]
        if state.heap or state.held or type(first) is not Node or outputs[0] is None or len(edges) > 2 or (
                len(edges) == 2 and edges[1] is not None):
            _pass_on(state, host, edges, outputs)
            return None, None, sequence
        array, node = outputs[0], first
        if node.extras is not None or node.options != options or array.shape != node.shape:
            return node, wrap(array, options), sequence


def _pass_on(state: Any, host: HostRules, edges: tuple[Any, ...], outputs: list[Any]) -> None:
    for edge in reversed(edges):
        array = outputs.pop()
        if edge is None or array is None:
            continue
        # The count is taken before anything else refers to the array.
        sole = sys.getrefcount(array) == SOLE_REFERENCE
        if isinstance(edge, Tensor) and edge._key & _PARTS == AUTOGRAD and edge._extras is None and (
                edge._key & OPTIONS == host.options):
            if _add_to_leaf(state, edge, host, array, sole):
                continue
        state.give(edge, wrap(array, host.options))


def _add_to_leaf(state: Any, leaf: Any, host: HostRules, array: Any, sole: bool) -> bool:
    """Add to a leaf's gradient, or capture it; False if the general path must do it."""
    own = leaf._array
    if array.shape != own.shape:
        lead = array.ndim - own.ndim
        if not own.ndim or lead < 1 or array.shape[lead:] != own.shape or array.size > ARRAYS:
            return False
        array, sole = host.total(array, tuple(range(lead)), False), True
    if state.captures:
        state.capture((id(leaf), 0), wrap(_owned(array, sole), host.options))
        return True
    if leaf._base is not None:
        return False
    with LOCKS[id(leaf) >> 5 & 15]:
        old = leaf._grad
        if old is None:
            if not own.flags.c_contiguous:
                return False
            leaf._grad = wrap(_owned(array, sole), host.options)
            return True
        held = old._array
        if (old._key & ~DIM0 != host.options or not held.flags.carray or array.shape != held.shape):
            return False
        counter = old._version_counter
        if counter is None:
            old._version_counter = [1]
        else:
            counter[0] += 1
        np.add(held, array, held)
        return True


def _owned(array: Any, sole: bool) -> Any:
    """Return an array for a gradient: a copy of one that others refer to, or of a part of a larger one."""
    flags = array.flags
    return array if sole and flags.owndata and flags.c_contiguous else array.copy()
