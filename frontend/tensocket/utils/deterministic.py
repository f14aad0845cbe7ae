"""``tensocket.utils.deterministic.fill_uninitialized_memory``: whether ``empty`` and similar functions fill memory
while ``use_deterministic_algorithms`` is on; True by default.
"""

from __future__ import annotations

import sys
from types import ModuleType

from tensocket_operators.deterministic import SETTING, set_fill_uninitialized_memory


class _Deterministic(ModuleType):
    """The class of this module, whose attribute is core's setting."""

    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether uninitialised memory is filled with NaN, the largest integer or True."""
        return SETTING.fill

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, value: bool) -> None:
        set_fill_uninitialized_memory(value)


sys.modules[__name__].__class__ = _Deterministic
