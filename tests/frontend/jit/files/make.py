"""Write the TorchScript files of pytorch.zip with PyTorch: `python make.py FOLDER`, in an environment that has it."""

import sys
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return F.log_softmax(self.second(self.drop(F.gelu(self.first(x)))), dim=-1)


def cnn():
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(64, 3))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.out = nn.Embedding(11, 4), nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, words):
        states, (last, cell) = self.lstm(self.embed(words))
        return self.out(states), last + cell


class Branches(nn.Module):
    limit: int

    def __init__(self):
        super().__init__()
        self.limit = 3
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor, steps: int = 4, scale: float | None = None) -> Tensor:
        self.calls += 1
        if scale is not None:
            x = x * scale
        for i in range(steps):
            if i == self.limit:
                break
            if bool(x.sum() > 10):
                x = x - i
            else:
                x = x + i
        while x.max() > 8:
            x = x / 2
        return x


class Dicts(nn.Module):
    def forward(self, x: Tensor, names: list[str]) -> dict[str, Tensor]:
        out: dict[str, Tensor] = {}
        for k, name in enumerate(names):
            out[name + "_" + str(k)] = x[:, k]
        out["total"] = x.sum()
        return out


class Pair(NamedTuple):
    high: Tensor
    place: Tensor


class Tuples(nn.Module):
    def forward(self, x: Tensor) -> tuple[Pair, list[Tensor]]:
        values, places = x.max(dim=1)
        return Pair(values, places), x.split(2, dim=1)


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        batch, steps, width = x.shape
        q, k, v = [part(x).view(batch, steps, 2, width // 2).transpose(1, 2) for part in (self.query, self.key,
                                                                                          self.value)]
        weights = torch.softmax(q @ k.transpose(-2, -1) / (width // 2) ** 0.5, dim=-1)
        return self.norm(x + (weights @ v).transpose(1, 2).reshape(batch, steps, width))


class Exported(nn.Module):
    __constants__ = ["factor"]

    def __init__(self):
        super().__init__()
        self.factor = 2.5
        self.parts = nn.ModuleList([nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)])

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return self.scale(x)

    @torch.jit.export
    def scale(self, x):
        return x * self.factor


class Pools(nn.Module):
    def forward(self, x: Tensor, samples: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        values, places = F.adaptive_max_pool2d(x, [2, 3], return_indices=True)
        steps = F.fractional_max_pool2d(x, 2, output_size=[3, 3], _random_samples=samples)
        return values, places, F.adaptive_max_pool3d(x, [1, 2, 2]).relu(), steps.relu()


@torch.jit.script
class Counter:
    def __init__(self, start: int):
        self.count = start

    def step(self, by: int) -> int:
        self.count += by
        return self.count


class Objects(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        counter = Counter(2)
        for _ in range(x.size(0)):
            counter.step(3)
        if x.dim() > 3:
            raise ValueError("too many dimensions")
        return x + counter.count


def main(folder):
    torch.manual_seed(3)
    image, rows, words = torch.randn(2, 1, 8, 8), torch.randn(5, 4), torch.randint(0, 11, (2, 6))
    cases = {
        "mlp": (torch.jit.script(Mlp().eval()), [(rows,), (rows[:2],)]),
        "mlp_traced": (torch.jit.trace(Mlp().eval(), rows), [(rows,), (rows[:2],)]),
        "cnn": (torch.jit.script(cnn().eval()), [(image,)]),
        "cnn_frozen": (torch.jit.freeze(torch.jit.script(cnn().eval())), [(image,)]),
        "tagger": (torch.jit.script(Tagger().eval()), [(words,), (words[:1],)]),
        "branches": (torch.jit.script(Branches()), [(rows,), (rows * 9, 7, 0.5), (rows + 5, 2)]),
        "dicts": (torch.jit.script(Dicts()), [(rows, ["a", "b"])]),
        "tuples": (torch.jit.script(Tuples()), [(rows,)]),
        "attend_traced": (torch.jit.trace(Attend().eval(), torch.randn(2, 3, 6)), [(torch.randn(2, 3, 6),),
                                                                                (torch.randn(4, 5, 6),)]),
        "exported": (torch.jit.script(Exported()), [(torch.randn(2, 3),)]),
        "objects": (torch.jit.script(Objects()), [(torch.randn(2, 3),)]),
        "pools": (torch.jit.script(Pools()), [(image, torch.tensor([[[0.2, 0.7]], [[0.5, 0.1]]]))]),
    }
    for name, (module, calls) in cases.items():
        module.save(str(Path(folder) / f"{name}.ts"))
        again = torch.jit.load(str(Path(folder) / f"{name}.ts"))
        with torch.no_grad():
            results = [(call, again(*call)) for call in calls]
        plain = [(call, tuple(r) if hasattr(r, "_fields") else {**r} if isinstance(r, dict) else r) for call, r
                 in results]
        plain = [(call, ((tuple(r[0]), r[1]) if name == "tuples" else r)) for call, r in plain]
        torch.save(plain, Path(folder) / f"{name}.pt")


if __name__ == "__main__":
    main(sys.argv[1])
