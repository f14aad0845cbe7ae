"""Write ``programs.zip``: programs that PyTorch 2.13 exported and saved, with arguments, results and buffers of calls.

Run it where PyTorch is installed: ``python make_programs.py``.
"""

import io
import json
import zipfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim, export, save

BATCH = Dim("batch", min=1, max=64)
FLOATS = torch.float32


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(-1))

    def forward(self, x):
        return self.net(x)


class Cnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                                 nn.Conv2d(4, 4, 3, groups=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))

    def forward(self, x):
        return self.net(x)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return y[:, -1], h.mean(0), c


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.rnn = nn.GRU(3, 4), nn.RNN(4, 4)

    def forward(self, x, h):
        y, last = self.gru(x, h)
        return self.rnn(y)[0], last


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.n, self.g = nn.Linear(4, 8), nn.LayerNorm(8), nn.GroupNorm(2, 8)

    def forward(self, x):
        return F.gelu(self.n(self.a(x))), F.silu(self.g(self.a(x))), F.log_softmax(x.flatten(0), 0).std()


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.q, self.o = nn.Embedding(11, 8), nn.Linear(8, 24), nn.Linear(8, 11, bias=False)

    def forward(self, i):
        b, t = i.shape
        x = self.e(i) + torch.arange(t, dtype=torch.float32)[:, None] * 0.1
        q, k, v = self.q(x).view(b, t, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        mask = torch.tril(torch.ones(t, t)) == 0
        z = (q @ k.transpose(-2, -1)).masked_fill(mask, float("-inf")).softmax(-1) @ v
        return self.o((y + z).transpose(1, 2).reshape(b, t, 8))


class Containers(nn.Module):
    def forward(self, batch, pair, *, scale):
        x, y = pair
        return {"sum": batch["a"] + batch["b"] * scale, "parts": [x.chunk(2, 1)[1], y[..., ::2]], "n": x.shape[0]}


class Constants(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.arange(4.0)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("hidden", torch.ones(4), persistent=False)
        self.register_buffer("rough", torch.ones(4, dtype=torch.bfloat16))

    def forward(self, x):
        self.calls += 1
        t = torch.tensor([1.0, 2.0, 3.0, 4.0])
        t[0] = 5.0
        return x * self.w + t + self.hidden + self.rough.float(), x > 0, torch.full((2,), float("inf")), self.calls * 2


class Scalars(nn.Module):
    def forward(self, x, n, scale, flag, name, nothing=None):
        return (x * scale)[:n] if flag and name == "a" and nothing is None else x


class Sizes(nn.Module):
    def forward(self, x, y):
        n = x.shape[0]
        z = torch.cat([x, y.view(2, n, -1).mean(0)])
        return z.reshape(n, 2, -1), x.new_zeros(n * 2, 1), y[n:], n // 2 + 1


class Modes(nn.Module):
    def __init__(self):
        super().__init__()
        self.l, self.m = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        with torch.no_grad():
            y = self.l(x).sigmoid()
        return self.m(x) * y, torch.where(x > 0, x, y).topk(2).values


class Training(nn.Module):
    def __init__(self):
        super().__init__()
        self.c, self.b = nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3)

    def forward(self, x):
        return self.b(self.c(x)).tanh()


def draw(*shape):
    return torch.randn(*shape).mul(8).round().div(8)


def cases():
    """Name, module, arguments, keyword arguments, dynamic shapes, and the arguments of further calls."""
    yield "mlp", Mlp().eval(), (draw(2, 4),), {}, ({0: BATCH},), [(draw(5, 4),), (draw(1, 4),)]
    yield "cnn", Cnn().eval(), (draw(2, 2, 8, 8),), {}, ({0: BATCH},), [(draw(3, 2, 8, 8),)]
    yield "lstm", Lstm().eval(), (draw(2, 3, 3),), {}, ({0: BATCH},), [(draw(4, 3, 3),)]
    yield "gru", Gru().eval(), (draw(3, 2, 3), draw(1, 2, 4)), {}, ({1: BATCH}, {1: BATCH}), [
        (draw(3, 4, 3), draw(1, 4, 4))]
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    yield "transformer", layer.train(), (draw(2, 3, 8),), {}, None, [(draw(2, 3, 8),)]
    yield "transformer_eval", layer.eval(), (draw(2, 3, 8),), {}, None, [(draw(2, 3, 8),)]
    yield "norms", Norms().eval(), (draw(2, 4),), {}, ({0: BATCH},), [(draw(4, 4),)]
    tokens = torch.arange(10).view(2, 5)
    yield "attention", Attention().eval(), (tokens,), {}, ({0: BATCH},), [(torch.arange(15).view(3, 5) % 11,)]
    yield "containers", Containers(), ({"a": draw(2, 4), "b": draw(2, 4)}, [draw(2, 4), draw(2, 4)]), {
        "scale": draw(4)}, {"batch": {"a": {0: BATCH}, "b": {0: BATCH}}, "pair": [{0: BATCH}, {0: BATCH}],
                            "scale": None}, [
            ({"a": draw(3, 4), "b": draw(3, 4)}, [draw(3, 4), draw(3, 4)])]
    yield "constants", Constants(), (draw(2, 4),), {}, ({0: BATCH},), [(draw(3, 4),)]
    yield "scalars", Scalars(), (draw(4, 3), 2, 1.5, True, "a", None), {}, None, []
    yield "sizes", Sizes(), (draw(4, 3), draw(8, 3)), {}, ({0: BATCH}, {0: 2 * BATCH}), [(draw(6, 3), draw(12, 3))]
    yield "modes", Modes(), (draw(2, 3),), {}, ({0: BATCH},), [(draw(4, 3),)]
    yield "training", Training().train(), (draw(4, 2, 5),), {}, ({0: Dim("batch", min=2)},), [(draw(3, 2, 5),)]


def described(value):
    """A value as JSON: tensors by dtype, shape and elements."""
    if isinstance(value, torch.Tensor):
        data = value.detach()
        data = data.float() if data.dtype is torch.bfloat16 else data
        return {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape),
                "data": [round(x, 7) if isinstance(x, float) else x for x in data.flatten().tolist()]}
    if isinstance(value, (list, tuple)):
        return [described(x) for x in value]
    if isinstance(value, dict):
        return {"dict": {key: described(x) for key, x in value.items()}}
    return value


def main():
    target = Path(__file__).with_name("programs.zip")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        torch.manual_seed(0)
        for name, module, args, kwargs, shapes, further in cases():
            programs = {name: export(module, args, kwargs, dynamic_shapes=shapes)}
            if name in ("training", "cnn", "norms"):
                programs[f"{name}_decomposed"] = programs[name].run_decompositions()
            for key, program in programs.items():
                stream = io.BytesIO()
                save(program, stream, extra_files={"note.txt": name})
                run, calls = program.module(), []
                for given, named in [(args, kwargs), *[(x, kwargs) for x in further]]:
                    result = run(*given, **named)
                    calls.append({"args": described(given), "kwargs": described(named), "result": described(result),
                                  "state": described(dict(run.named_buffers()))})
                info = zipfile.ZipInfo(f"{key}.pt2")
                archive.writestr(info, stream.getvalue(), zipfile.ZIP_DEFLATED, 9)
                archive.writestr(zipfile.ZipInfo(f"{key}.json"), json.dumps({"calls": calls}), zipfile.ZIP_DEFLATED, 9)


if __name__ == "__main__":
    main()
