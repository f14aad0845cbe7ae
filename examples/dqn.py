"""Deep Q-learning (Mnih and others, 2015) for a car that learns to climb out of a valley by swinging.

    python examples/dqn.py --device opencl

This file contains the environment: a car between two hills, whose engine is too weak for the steep one.
"""

from __future__ import annotations

import math
import random
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensocket as torch
from tensocket import Tensor, nn
from tensocket.nn import functional as F

from common import picture, settings, train

State = tuple[float, float]
#: Position and speed, action, reward, position and speed after the action, and whether it was the last.
Experience = tuple[State, int, float, State, bool]


@dataclass
class Valley:
    """A car at ``place`` in a valley, with the top of the hill at 0.5.

    Attributes:
        place: The position, from -1.2 to 0.5.
        speed: The speed, from -0.07 to 0.07.
        left: The remaining steps of the attempt.
    """

    place: float = -0.5
    speed: float = 0.0
    left: int = 200

    def reset(self) -> State:
        """Start at a random place near the bottom, and return the state."""
        self.place, self.speed, self.left = random.uniform(-0.6, -0.4), 0.0, 200
        return self.place, self.speed

    def step(self, action: int) -> tuple[State, float, bool]:
        """Push to the left (0), not at all (1) or to the right (2).

        Returns:
            The state, a reward for gained energy and for reaching the top, and whether the attempt is over.
        """
        before = self.energy()
        self.speed = max(-0.07, min(0.07, self.speed + (action - 1) * 0.001 - 0.0025 * math.cos(3 * self.place)))
        self.place = max(-1.2, min(0.5, self.place + self.speed))
        if self.place == -1.2:
            self.speed = 0.0
        self.left -= 1
        top = self.place >= 0.5
        return (self.place, self.speed), 2000 * (self.energy() - before) + 10.0 * top, top or self.left == 0

    def energy(self) -> float:
        """Return the sum of potential and kinetic energy."""
        return 0.0025 / 3 * math.sin(3 * self.place) + self.speed**2 / 2


def to_tensor(states: Sequence[State], device: str) -> Tensor:
    """Return scaled places and speeds, (n, 2)."""
    return torch.tensor([(place / 0.5, speed / 0.07) for place, speed in states], device=device)


def learn(network: nn.Module, target: nn.Module, batch: Sequence[Experience], device: str) -> Tensor:
    """Return the loss between the values of actions and the rewards plus the best values afterwards."""
    states, actions, rewards, after, last = zip(*batch, strict=True)
    values = network(to_tensor(states, device)).gather(1, torch.tensor(actions, device=device).unsqueeze(1)).squeeze(1)
    with torch.no_grad():
        best = network(to_tensor(after, device)).argmax(1, keepdim=True)
        future = target(to_tensor(after, device)).gather(1, best).squeeze(1)
        goal = torch.tensor(rewards, device=device) + 0.99 * future * (1 - torch.tensor(last, device=device).float())
    return F.smooth_l1_loss(values, goal)


def main(argv: Sequence[str] | None = None) -> int:
    """Train, drive once, and save the picture."""
    chosen = settings(__doc__, argv, steps=6000, tiny_steps=20)
    random.seed(torch.initial_seed())
    width, batch = (8, 8) if chosen.tiny else (64, 64)
    network, target = (nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                     nn.Linear(width, 3)).to(chosen.device) for _ in range(2))
    target.load_state_dict(network.state_dict())
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    memory: deque[Experience] = deque(maxlen=20000)
    valley, lengths = Valley(), list[int]()
    state = valley.reset()

    def act(greedy: float) -> int:
        if random.random() > greedy:
            return random.randrange(3)
        with torch.no_grad():
            return int(network(to_tensor([state], chosen.device)).argmax())

    def step(index: int) -> float:
        nonlocal state
        action = act(min(0.95, 2 * index / chosen.steps))
        after, reward, over = valley.step(action)
        memory.append((state, action, reward, after, over))
        state = after
        if over:
            lengths.append(200 - valley.left)
            state = valley.reset()
        if len(memory) < batch:
            return 0.0
        loss = learn(network, target, random.sample(memory, batch), chosen.device)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if index % 200 == 0:
            target.load_state_dict(network.state_dict())
        return loss.item()

    losses = train(chosen, step, "dqn")

    def draw(axes: Any) -> None:
        axes.plot(lengths, ".-")
        axes.set(xlabel="attempt", ylabel="steps to the top", ylim=(0, 210), title="200 steps: the top was not reached")

    picture(chosen, "dqn", losses, draw)
    return 0


if __name__ == "__main__":
    sys.exit(main())
