"""The operators in the namespace ``torchvision``, as ``ops.load_library`` defines them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tensocket_core.dispatch.registry import OPERATORS
from tensocket_operators.namespaces import ops
from tensocket_operators.vision import register


@pytest.fixture(scope="module")
def vision() -> Iterator[Any]:
    if "torchvision::nms" in OPERATORS:
        yield ops.torchvision
        return
    library = register()
    yield ops.torchvision
    library._destroy()
