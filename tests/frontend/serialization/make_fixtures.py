"""Writes the checkpoints in ``fixtures/``: ``python make_fixtures.py`` with PyTorch 2.13.

The values are such that a test can write them down without PyTorch.
"""

from __future__ import annotations

import collections
from pathlib import Path

import numpy as np
import torch
from torch import nn

FOLDER = Path(__file__).with_name("fixtures")
DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"]


def save(name: str, value: object, **options: object) -> None:
    """One fixture."""
    torch.save(value, FOLDER / name, **options)


def tensors() -> dict[str, object]:
    """Geometry, sharing and place in autograd."""
    base = torch.arange(12.0).reshape(3, 4)
    tagged = torch.ones(2)
    tagged.note = "kept"
    return {
        "row": base[1], "column": base[:, 2], "turned": base.t(), "base": base, "bits": torch.tensor([1.0, -0.0]),
        "expanded": torch.ones(1).expand(3), "scalar": torch.tensor(7), "empty": torch.empty(0, 3),
        "leaf": torch.ones(2, requires_grad=True), "parameter": nn.Parameter(torch.tensor([1.0, 2.0])),
        "frozen": nn.Parameter(torch.ones(1), requires_grad=False),
        "buffer": nn.Buffer(torch.ones(1), persistent=False),
        "conjugated": torch.tensor([1 + 2j]).conj(), "imaginary": torch.tensor([1 + 2j]).conj().imag,
        "meta": torch.empty(2, 3, device="meta"), "tagged": tagged,
        "coo": torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 0]]), torch.tensor([1.0, 2.0]), (2, 3)),
        "csr": torch.eye(2).to_sparse_csr(),
    }


def nested() -> dict[str, object]:
    """Containers and the values that restricted files may hold."""
    return {
        "numbers": [1, -1, 255, 65535, 2**31, -(2**63), 2**100, 1.5, float("inf"), True, None],
        "text": "ä\n", "bytes": b"a\xff", "array": bytearray(b"x"), "set": {1, 2}, "complex": 1 - 2j,
        "ordered": collections.OrderedDict(b=1, a=(2, (3,), [[]])), "counter": collections.Counter("aab"),
        "types": [torch.float32, torch.bfloat16, torch.device("cpu"), torch.device("cuda", 1), torch.Size([1, 2]),
                  torch.strided],
        "keys": {1: "one", (1, "a"): 2, None: 3, torch.float16: 4},
    }


def training() -> dict[str, object]:
    """A model and its optimizer after a step."""
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        model[0].bias.zero_()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5)
    model(torch.tensor([[1.0, 0.0], [0.0, 1.0]])).sum().backward()
    model[0].weight.grad = torch.ones(2, 2)
    optimizer.step()
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}


def main() -> None:
    """All fixtures."""
    FOLDER.mkdir(exist_ok=True)
    save("dtypes.pt", {name: torch.tensor([0, 1, 3]).to(getattr(torch, name)) for name in DTYPES})
    save("tensors.pt", tensors())
    save("nested.pt", nested())
    save("training.pt", training())
    layer = nn.Linear(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0]]))
        layer.bias.fill_(3.0)
    save("module.pt", nn.Sequential(layer, nn.ReLU()))
    base = torch.arange(6.0)
    save("legacy.pt", {"a": base[1:4], "b": base, "c": [torch.tensor([True, False]), "x"]},
         _use_new_zipfile_serialization=False)
    save("protocol4.pt", {"a": torch.ones(2), "b": (1, "x", {2}, frozenset([3]), b"y", 2**70)}, pickle_protocol=4)
    save("numpy.pt", {"scalar": np.float64(1.5)})
    torch.serialization.set_crc32_options(False)
    save("unchecked.pt", [torch.ones(2)])


if __name__ == "__main__":
    main()
