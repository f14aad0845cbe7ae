"""The warning for what a trace cannot hold."""

from __future__ import annotations

import warnings


class TracerWarning(Warning):
    """A warning that a traced function read values which the trace keeps as constants."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Ignore the warnings that the library's own code causes."""
        warnings.filterwarnings("ignore", category=TracerWarning, module="tensocket.(?!jit)")
        warnings.filterwarnings("ignore", "torch::jit::fuser::cuda", UserWarning)


__all__ = ["TracerWarning"]
