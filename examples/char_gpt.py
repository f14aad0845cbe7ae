"""A small GPT that learns to write Python, character by character, from the standard library's own source.

python examples/char_gpt.py --device opencl
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import tensocket as torch
from tensocket import Tensor, nn
from tensocket.nn import functional as F

from common import picture, settings, show_text, train
from texts import standard_library


class Block(nn.Module):
    """Attention to earlier characters, then a network for each character; both have a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_network = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, length, width) to the same shape."""
        batch, length, width = x.shape
        parts = self.project(self.before_attention(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.join(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.network(self.before_network(x))


class GPT(nn.Module):
    """A model that scores the next character at every position of int64 (batch, length)."""

    def __init__(self, letters: int, length: int, width: int, heads: int, depth: int) -> None:
        super().__init__()
        self.length = length
        self.letter, self.place = nn.Embedding(letters, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.score = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, letters))

    def forward(self, codes: Tensor) -> Tensor:
        """Map (batch, length) to scores (batch, length, letters)."""
        place = torch.arange(codes.shape[1], device=codes.device)
        return self.score(self.blocks(self.letter(codes) + self.place(place)))

    @torch.no_grad()
    def write(self, start: Tensor, count: int) -> Tensor:
        """Continue int64 (1, length) with ``count`` drawn characters."""
        text = start
        for _ in range(count):
            scores = self(text[:, -self.length:])[:, -1]
            text = torch.cat([text, torch.multinomial(scores.softmax(-1), 1)], 1)
        return text


def main(argv: Sequence[str] | None = None) -> int:
    """Train, write some text, and save the picture."""
    chosen = settings(__doc__, argv, steps=600)
    text = standard_library(chosen.tiny)
    width, heads, depth, length, batch = (16, 2, 1, 16, 4) if chosen.tiny else (96, 4, 3, 64, 16)
    model = GPT(len(text.letters), length, width, heads, depth).to(chosen.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def step(index: int) -> float:
        inputs, targets = text.batch(batch, length, chosen.device)
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    losses = train(chosen, step, "char_gpt")
    model.eval()
    start = text.codes[:1].reshape(1, 1).to(chosen.device)
    written = text.decode(model.write(start, 10 if chosen.tiny else 400)[0])
    picture(chosen, "char_gpt", losses, show_text("what it writes", written))
    return 0


if __name__ == "__main__":
    sys.exit(main())
