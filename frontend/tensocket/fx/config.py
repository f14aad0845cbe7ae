"""Settings of this package."""

from __future__ import annotations

#: Whether shape propagation may not use fake tensors; accepted for programs, since fake tensors are exact here.
disable_progress: bool = True
#: Whether progress of transformers is shown in verbose mode.
verbose_progress: bool = False
