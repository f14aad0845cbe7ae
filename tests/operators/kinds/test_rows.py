"""Row operators where there is no native entry."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tensocket_operators.kinds import row as rows
from tensocket_plugins.contract.dtypes import float32, int64
from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.ir.build.nest import ProgramBuilder
from tensocket_plugins.ir.nodes import Program, Store, const
from tensocket_plugins.ir.target import Target
from tensocket_plugins.kit.disk_cache import BuildStats


def _program() -> Program:
    nest = ProgramBuilder("p", int64)
    nest.buffer("out", float32, writable=True)
    return nest.program([Store("out", const(0, int64), const(1.0, float32))])


def test_numpy_serves_where_no_kernel_is_compiled() -> None:
    def refuse(program: Any) -> Any:
        raise KernelError("softmax", "program p", "the compiler refuses it", "report it")

    kernel = Kernel(np.negative, True, None)
    runtime = SimpleNamespace(target=Target("cpu"), compile_ir=refuse, compile_plan=lambda plan, compile_part: None,
                              build_stats=BuildStats())
    entry: Any = SimpleNamespace(runtime=runtime, device="cpu", programs={})
    plan: Any = SimpleNamespace(program=_program())
    with pytest.warns(RuntimeWarning, match="the compiler refuses it"):
        assert rows._compiled(entry, kernel, "key", lambda: plan) is kernel
    assert list(runtime.build_stats.failures) == ["p"]
    entry.runtime.target = None
    assert rows._compiled(entry, kernel, "key", lambda: plan) is kernel
