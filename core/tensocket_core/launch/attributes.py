"""Attributes of tensors by machine code, where a device compiles it: the getters run no Python frame."""

from __future__ import annotations

from typing import Final

from tensocket_plugins.contract import plans
from tensocket_plugins.contract.errors import KernelError

from ..device import BY_KEY, DeviceState
from ..keys import AUTOGRAD, DEVICE_MASK, DTYPE_MASK, DTYPE_OF
from ..tensor import Size, Tensor

#: The properties in Python, whose getters serve the tensors that machine code declines.
_FORMER: Final[dict[str, property]] = {}


def quicken_attributes(state: DeviceState, wrapper: plans.WrapperLayout) -> None:
    """Replace the getters by a device's compiled ones; devices that open later are left to the former getters."""
    compiled: dict[str, plans.Plan] = {
        "shape": plans.SizesPlan(wrapper, Size),
        "dtype": plans.BitsPlan(wrapper, "_key", DTYPE_MASK, DTYPE_OF),
        "device": plans.BitsPlan(wrapper, "_key", DEVICE_MASK, {k: s.device for k, s in list(BY_KEY.items())}),
        "requires_grad": plans.BitsPlan(wrapper, "_key", AUTOGRAD, {0: False, AUTOGRAD: True})}
    for name, plan in compiled.items():
        former = _FORMER.setdefault(name, vars(Tensor)[name])
        assert former.fget is not None
        try:
            made = state.runtime.compile_plan(plan, former.fget)
        except KernelError:  # the first entry fails for the same reason, and that is recorded
            return
        if made is not None:
            setattr(Tensor, name, property(made, former.fset, doc=former.__doc__))
    Tensor._sizes = Tensor.shape
