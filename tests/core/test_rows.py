"""Row operators where there is no native entry."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tensocket_core.execute import rows
from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.contract.kernels import Kernel


def test_numpy_serves_where_no_kernel_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(program: Any) -> Any:
        raise KernelError("softmax", "program p", "the compiler refuses it", "report it")

    monkeypatch.setattr(rows, "scheduled", lambda *_: None)
    kernel = Kernel(np.negative, True, None)
    entry: Any = SimpleNamespace(runtime=SimpleNamespace(target=object(), compile_ir=refuse))
    assert rows._compiled(entry, kernel, lambda: (None, None)) is kernel  # type: ignore[arg-type,return-value]
    entry.runtime.target = None
    assert rows._compiled(entry, kernel, lambda: (None, None)) is kernel  # type: ignore[arg-type,return-value]
