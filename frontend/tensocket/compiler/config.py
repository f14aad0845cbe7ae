"""The settings of ``torch.compiler``. Programs can set any name; these are the ones that they may read first."""

from __future__ import annotations

import sys

from tensocket.backends.flags import Flags

Flags.module(sys.modules[__name__], cache_key_tag="", dynamic_sources="", force_disable_caches=False, job_id=None,
             recompile_limit=8, unbacked_sources="")
