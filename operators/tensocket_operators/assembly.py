"""The tensor with all its methods: importing this module completes the class.

The class and its slots are in ``tensocket_core.tensor``, in the lowest layer. Every layer above adds its own methods;
this module imports all of these layers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tensocket_core import tensor as tensors
from tensocket_core.autograd.attributes import AutogradAttributes
from tensocket_core.autograd.graph_methods import AutogradMethods
from tensocket_core.autograd.inference import detached
from tensocket_core.dispatch.overrides import OverrideProtocol
from tensocket_core.launch.host_values import HostValues

from . import host_streams as _host_streams  # noqa: F401  lets streams of the host queue operators
from .kinds.view import Custom
from .tensor_methods._methods import OperatorMethods
from .tensor_methods.complex import ComplexAttributes
from .tensor_methods.interop import InteropMethods
from .tensor_methods.printing import Printing
from .tensor_methods.storage import StorageMethods
from .tensor_methods.subclasses import SubclassHooks

if TYPE_CHECKING:
    from collections.abc import Iterator

    class Tensor(SubclassHooks, OverrideProtocol, OperatorMethods, ComplexAttributes, StorageMethods, InteropMethods,
                 AutogradMethods, AutogradAttributes, HostValues, Printing, tensors.Tensor):
        """The tensor for type checkers."""

        __slots__ = ()

        @property
        def grad(self) -> Tensor | None: ...  # noqa: D102  defined by autograd
        @grad.setter
        def grad(self, value: Any) -> None: ...
        @grad.deleter
        def grad(self) -> None: ...
        @property
        def data(self) -> Tensor: ...  # noqa: D102  defined by autograd
        @data.setter
        def data(self, value: Any) -> None: ...
        def _cut(self) -> Tensor: ...
        def __iter__(self) -> Iterator[Tensor]: ...
        def detach(self) -> Tensor: ...  # noqa: D102  defined by autograd
        def detach_(self) -> Tensor: ...  # noqa: D102  defined by autograd
        def requires_grad_(self, requires_grad: bool = True) -> Tensor: ...  # noqa: D102  defined by autograd

else:
    Tensor = tensors.Tensor

_DETACH: Final = Custom(
    "detach(Tensor input) -> Tensor~", "The same memory, cut off from the graph.",
    lambda state, input: detached(tensors.Tensor._cut(input)), function=False, method=False,
)
_DETACH.public = AutogradAttributes.detach
_ITEM: Final = Custom(
    "_local_scalar_dense(Tensor input) -> Scalar", "The only element as a Python number.",
    lambda state, input: HostValues.item(input), function=False, method=False,
)
_ITEM.public = HostValues.item
