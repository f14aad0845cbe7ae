"""Recording with known shapes: every proxy has a tensor on the device ``meta``."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tensocket.nn import Module
from tensocket_operators import Tensor

from .._patching import _maybe_revert_all_patches
from .._symbolic_trace import Tracer
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_aggregate
from ..proxy import Attribute, Proxy


class MetaProxy(Proxy):
    """A proxy with a tensor that has its shape, dtype and device.

    Attributes:
        tensor_meta: The tensor, without values.
    """

    def install_tensor_meta(self, tensor_meta: Any) -> None:
        """Set the tensor."""
        self._tensor_meta = tensor_meta

    def _meta(self) -> Any:
        return self.__dict__.get("_tensor_meta")

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one dimension; a proxy if it is not known."""
        if self._meta() is not None:
            return self._meta().size(*([] if dim is None else [dim]))
        return self.tracer.create_proxy("call_method", "size", (self, *([] if dim is None else [dim])), {})

    def dim(self) -> Any:
        """Return the number of dimensions; a proxy if it is not known."""
        known = self._meta() is not None
        return self._meta().dim() if known else self.tracer.create_proxy("call_method", "dim", (self,), {})

    @property
    def shape(self) -> Any:
        """The shape; a proxy if it is not known."""
        return self._meta().shape if self._meta() is not None else Attribute(self, "shape")

    @property
    def dtype(self) -> Any:
        """The dtype; a proxy if it is not known."""
        return self._meta().dtype if self._meta() is not None else Attribute(self, "dtype")

    @property
    def device(self) -> Any:
        """The device, which is recorded; calls without values run on ``meta``."""
        return MetaDeviceAttribute(self, "device")


class MetaDeviceAttribute(Attribute):
    """The device of a proxy."""


def proxys_to_metas(v: Any) -> Any:
    """Return the tensor of a proxy, and ``meta`` for its device; other values unchanged.

    Raises:
        AssertionError: The proxy has none.
    """
    if isinstance(v, MetaDeviceAttribute):
        return "meta"
    if isinstance(v, Proxy) and not isinstance(v, MetaProxy):
        raise AssertionError(f"{v} does not have an associated meta")
    if isinstance(v, MetaProxy):
        if v._meta() is None:
            raise AssertionError(f"MetaProxy {v} does not have an associated meta")
        return v._meta()
    return v


class MetaTracer(Tracer):
    """A tracer that runs every call also on tensors without values, and so knows shapes while it records."""

    allow_insert_stateless_mods: bool = True

    def create_proxy(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                     name: str | None = None, type_expr: Any = None,
                     proxy_factory_fn: Callable[[Node], Proxy] | None = None) -> Any:
        """Record an operation, and compute the shape of its result."""
        made = super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)
        if kind == "placeholder" and target in self.meta_args:
            made.install_tensor_meta(self.meta_args[target])
            return made
        if kind in ("placeholder", "output") or not isinstance(made, MetaProxy):
            return made
        try:
            metas = map_aggregate(args, proxys_to_metas), map_aggregate(kwargs, proxys_to_metas)
            with _maybe_revert_all_patches():
                made.install_tensor_meta(self._run(kind, target, *metas))
        except (AssertionError, AttributeError, TypeError, RuntimeError, NotImplementedError):
            return made  # its shape stays unknown
        return made

    def _run(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        if kind == "call_module":
            module = self.root.get_submodule(target)
            return _on_meta(module, args, kwargs)
        if kind == "get_attr":
            value: Any = self.root
            for part in target.split("."):
                value = getattr(value, part)
            return value.to("meta")
        return target(*args, **kwargs)

    def proxy(self, node: Node) -> MetaProxy:
        """Return a proxy that may have a tensor."""
        return MetaProxy(node, self)

    def trace(self, root: Module | Callable[..., Any], meta_args: dict[str, Tensor] | None = None,  # type: ignore[override]
              concrete_args: Any = None) -> Graph:
        """Record a module or function.

        Args:
            root: The module or function.
            meta_args: Tensors on the device ``meta``, by the names of arguments.
            concrete_args: Values of other arguments.
        """
        self.meta_args = dict(meta_args or {})
        graph = super().trace(root, concrete_args)
        graph._tracer_extras = {"meta_args": meta_args}
        return graph


def _on_meta(module: Module, args: Any, kwargs: Any) -> Any:
    """Call a copy of a module without values on tensors without values."""
    return copy.deepcopy(module).to("meta")(*args, **kwargs)


def symbolic_trace(root: Module | Callable[..., Any], meta_args: dict[str, Tensor] | None = None,
                   concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """Record a module or function with known shapes.

    Args:
        root: The module or function.
        meta_args: Tensors on the device ``meta``, by the names of arguments.
        concrete_args: Values of other arguments.
    """
    tracer = MetaTracer()
    graph = tracer.trace(root, meta_args, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", "GraphModule")
    return GraphModule(tracer.root, graph, name)
