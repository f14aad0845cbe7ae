"""Measure the front end's own cost per call beside PyTorch's: small arguments, in one process, by turns.

    python benchmarks/frontend.py                             # needs torch in the same environment
    python benchmarks/frontend.py --only 'index*' --repetitions 400
    python benchmarks/frontend.py --json out.json --below 1.0  # exit with 1 if a row's ratio is lower

The ratio is PyTorch's time over tensocket's: above 1, tensocket is faster. Every short run counts the least time, which
other programs on the machine hardly affect.
"""

from __future__ import annotations

import sys
from typing import Final

from by_turns import main

#: The variables of all rows; ``T`` is the library.
SETUP: Final = """
import numpy as np
nn, F = T.nn, T.nn.functional
T.set_num_threads(1)
array = np.ones((3, 5), np.float32)
x, y, v = T.randn(3, 5), T.randn(3, 5), T.randn(5)
one, four, image = T.ones(1), T.randn(1, 4), T.randn(2, 3, 8, 8)
target = T.tensor([1, 0, 4])
wanting = T.randn(3, 5, requires_grad=True)
mask, index, i, j = x > 0, T.tensor([2, 0]), 1, 2
weight, bias = T.randn(4, 5), T.randn(4)

class Empty(nn.Module):
    def forward(self, x):
        return x

empty, linear, sequence = Empty(), nn.Linear(4, 4), nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)])
mlp = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(50)])
for model in (mlp, layers):
    for p in model.parameters():
        p.grad = T.ones_like(p) * 0.01

def square():
    loss = (wanting * wanting).sum()
    loss.backward()

def square_grad():
    loss = (wanting * wanting).sum()
    T.autograd.grad(loss, wanting)

def clear(model):
    for p in model.parameters():
        p.grad = p.data
optimizers = {
    "sgd": lambda p: T.optim.SGD(p, lr=1e-6), "momentum": lambda p: T.optim.SGD(p, lr=1e-6, momentum=0.9),
    "adam": lambda p: T.optim.Adam(p, lr=1e-6), "adamw": lambda p: T.optim.AdamW(p, lr=1e-6)}
few = {name: make(mlp.parameters()) for name, make in optimizers.items()}
many = {name: make(layers.parameters()) for name, make in optimizers.items()}
from importlib import import_module
data = import_module(T.__name__ + ".utils.data")
loader = data.DataLoader(data.TensorDataset(T.randn(64, 4), T.randn(64)), batch_size=8)
parameters = list(mlp.parameters())
"""

#: Row: statement.
ROWS: Final[dict[str, str]] = {
    "module, empty": "empty(x)",
    "module, linear 1×4": "linear(four)",
    "module, sequential of 4": "sequence(four)",
    "attribute, parameter": "linear.weight",
    "attribute, submodule": "mlp.training; sequence[0]",
    "list of parameters": "list(mlp.parameters())",
    "relu": "F.relu(x)",
    "linear": "F.linear(x, weight, bias)",
    "cross_entropy": "F.cross_entropy(x, target)",
    "layer_norm": "F.layer_norm(x, (5,))",
    "dropout, evaluation": "F.dropout(x, 0.5, False)",
    "gelu": "F.gelu(x)",
    "softmax": "F.softmax(x, dim=-1)",
    "mse_loss": "F.mse_loss(x, y)",
    **{f"step, {name}, {count}": f"{group}['{name}'].step()" for name in ("sgd", "momentum", "adam", "adamw")
       for count, group in ((6, "few"), (100, "many"))},
    "zero_grad, 6": "clear(mlp); few['sgd'].zero_grad()",
    "zero_grad, 100": "clear(layers); many['sgd'].zero_grad()",
    "loader, 64 rows": "list(loader)",
    "tensor of a list": "T.tensor([1., 2., 3.])",
    "tensor of a number": "T.tensor(3.)",
    "zeros": "T.zeros(3, 5)",
    "ones": "T.ones(3, 5)",
    "empty": "T.empty(3, 5)",
    "randn": "T.randn(3, 5)",
    "arange": "T.arange(5)",
    "full": "T.full((3, 5), 2.0)",
    "zeros_like": "T.zeros_like(x)",
    "item": "one.item()",
    "numpy": "x.numpy()",
    "from_numpy": "T.from_numpy(array)",
    "tolist": "x.tolist()",
    "to dtype": "x.to(T.float64)",
    "to the same": "x.to(T.float32)",
    "to the same device": "x.to('cpu')",
    "float": "x.float()",
    "detach": "x.detach()",
    "clone": "x.clone()",
    "index, x[0]": "x[0]",
    "index, x[1:3]": "x[1:3]",
    "index, x[:, None]": "x[:, None]",
    "index, x[..., 0]": "x[..., 0]",
    "index, x[0, 1]": "x[0, 1]",
    "index, x[mask]": "x[mask]",
    "index, x[index]": "x[index]",
    "index, x[:, index]": "x[:, index]",
    "assign, x[i, j] = number": "x[i, j] = 1.0",
    "assign, x[mask] = 0": "x[mask] = 0",
    "assign, x[0] = v": "x[0] = v",
    "assign, x[1:3] = 0": "x[1:3] = 0",
    "shape": "x.shape",
    "size": "x.size()",
    "size of a dimension": "x.size(0)",
    "len": "len(x)",
    "dtype": "x.dtype",
    "device": "x.device",
    "dim": "x.dim()",
    "iteration": "for row in x: pass",
    "view": "x.view(15)",
    "reshape": "x.reshape(5, 3)",
    "permute": "x.permute(1, 0)",
    "backward": "square()",
    "grad": "square_grad()",
    "no_grad block": "with T.no_grad(): pass",
    "clip_grad_norm_": "nn.utils.clip_grad_norm_(parameters, 1e9)",
    "state_dict": "mlp.state_dict()",
    "load_state_dict": "mlp.load_state_dict(mlp.state_dict())",
    "repr": "repr(x)",
    "equal": "T.equal(x, y)",
    "x == y": "x == y",
    "x + 1": "x + 1",
    "x += 1": "global x; x += 1e-9",
    "bool": "bool(one)",
    "stack of 4": "T.stack([x, x, x, x])",
    "cat of 4": "T.cat([x, x, x, x])",
}


if __name__ == "__main__":
    sys.exit(main(__doc__, SETUP, ROWS))
