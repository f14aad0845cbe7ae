"""Row operators where there is no native entry."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tensocket_core.launch import programs
from tensocket_operators.kinds import row as rows
from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.contract.kernels import Kernel
from tensocket_plugins.kit.disk_cache import BuildStats


def test_numpy_serves_where_no_kernel_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(program: Any) -> Any:
        raise KernelError("softmax", "program p", "the compiler refuses it", "report it")

    monkeypatch.setattr(programs, "scheduled", lambda program, *_: program)
    kernel = Kernel(np.negative, True, None)
    runtime = SimpleNamespace(target=object(), compile_ir=refuse, build_stats=BuildStats())
    entry: Any = SimpleNamespace(runtime=runtime, device="cpu", programs={})
    plan: Any = SimpleNamespace(program=SimpleNamespace(name="p"))
    with pytest.warns(RuntimeWarning, match="the compiler refuses it"):
        assert rows._compiled(entry, kernel, "key", lambda: plan) is kernel
    assert list(runtime.build_stats.failures) == ["p"]
    entry.runtime.target = None
    assert rows._compiled(entry, kernel, "key", lambda: plan) is kernel
