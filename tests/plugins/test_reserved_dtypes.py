"""Element types that programs name, but of which there are no tensors."""

from __future__ import annotations

import pickle

import pytest

from tensocket_plugins.contract.dtypes import BY_NAME, DType
from tensocket_plugins.contract.errors import UnsupportedDtype
from tensocket_plugins.contract.reserved_dtypes import RESERVED, reserved_dtype


@pytest.mark.parametrize("name", RESERVED)
def test_reserved_types_are_types_without_a_place_in_keys(name):
    kind = RESERVED[name]
    assert isinstance(kind, DType)
    assert name not in BY_NAME
    assert pickle.loads(pickle.dumps(kind)) is kind is reserved_dtype(name)
    assert kind.itemsize == (4 if name == "qint32" else 1)
    with pytest.raises(UnsupportedDtype, match=f"dtype {name} — no backend has elements of this type"):
        kind.bit  # noqa: B018
