"""An LSTM that learns to write Python, character by character, from the standard library's own source.

python examples/lstm_text.py --device opencl
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import tensocket as torch
from tensocket import Tensor, nn
from tensocket.nn import functional as F

from common import picture, settings, show_text, train
from texts import standard_library

State = tuple[Tensor, Tensor]


class Writer(nn.Module):
    """A network that scores the next character and carries a state from the characters before."""

    def __init__(self, letters: int, width: int, layers: int) -> None:
        super().__init__()
        self.letter = nn.Embedding(letters, width)
        self.memory = nn.LSTM(width, width, layers, batch_first=True)
        self.score = nn.Linear(width, letters)

    def forward(self, codes: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        """Map int64 (batch, length) to scores (batch, length, letters), and the state after the last character."""
        outputs, state = self.memory(self.letter(codes), state)
        return self.score(outputs), state

    @torch.no_grad()
    def write(self, code: Tensor, count: int, temperature: float = 0.8) -> list[Tensor]:
        """Draw ``count`` characters after int64 (1, 1), each from the last character and the state alone."""
        written, state = [code], None
        for _ in range(count):
            scores, state = self(written[-1], state)
            written.append(torch.multinomial((scores[:, -1] / temperature).softmax(-1), 1))
        return written


def main(argv: Sequence[str] | None = None) -> int:
    """Train, write some text, and save the picture."""
    chosen = settings(__doc__, argv, steps=400)
    text = standard_library(chosen.tiny)
    width, layers, length, batch = (16, 1, 8, 4) if chosen.tiny else (128, 2, 48, 24)
    model = Writer(len(text.letters), width, layers).to(chosen.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)

    def step(index: int) -> float:
        inputs, targets = text.batch(batch, length, chosen.device)
        scores, _ = model(inputs)
        loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    losses = train(chosen, step, "lstm_text")
    start = text.codes[:1].reshape(1, 1).to(chosen.device)
    written = text.decode(torch.cat(model.write(start, 10 if chosen.tiny else 400), 1)[0])
    picture(chosen, "lstm_text", losses, show_text("what it writes", written))
    return 0


if __name__ == "__main__":
    sys.exit(main())
