"""The same calls in a process that keeps to Python and NumPy (``TENSOCKET_NATIVE=0``), by their numbers."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).resolve().parent.parent


class Plain:
    """Asks a child process for outcomes of a campaign's cases."""

    def __init__(self, campaign: Any) -> None:
        environment = {**os.environ, "TENSOCKET_NATIVE": "0", "PYTHONWARNINGS": "ignore"}
        self._child = subprocess.Popen([sys.executable, __file__], env=environment, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE)
        self._asked: list[int] = []

    def outcome(self, campaign: Any) -> Any:
        """Return the outcome of the current case's call there; None if the process is gone."""
        child: Any = self._child
        try:
            while self._asked and self._asked[0] != campaign.number:
                self._read()
            self._ask(campaign, campaign.number)
            self._ask(campaign, campaign.number + 1)  # which it computes meanwhile
            child.stdin.flush()
            return self._read()
        except (OSError, EOFError):
            campaign.differ("the process without native code ended")
            self.close()
            self.__init__(campaign)  # type: ignore[misc]
            return None

    def _ask(self, campaign: Any, number: int) -> None:
        if number not in self._asked:
            self._asked.append(number)
            question = {"seed": campaign.seed, "number": number, "options": campaign.options}
            self._child.stdin.write(json.dumps(question).encode() + b"\n")  # type: ignore[union-attr]

    def _read(self) -> Any:
        child: Any = self._child
        data = child.stdout.read(int.from_bytes(child.stdout.read(8), "little"))
        self._asked.pop(0)
        return pickle.loads(data)

    def close(self) -> None:
        """End the process."""
        self._child.kill()
        self._child.communicate()


def answer() -> None:
    """Answer questions until there are none."""
    sys.path[0] = str(TESTS)
    from fuzz.calls import draw_call
    from fuzz.operators import prepared, run

    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # operators print to another stream
    with prepared():
        for line in sys.stdin:
            question = json.loads(line)
            call = draw_call(np.random.default_rng([question["seed"], question["number"]]), question["options"])
            data = pickle.dumps(None if call is None else run(call))
            out.write(len(data).to_bytes(8, "little") + data)
            out.flush()


if __name__ == "__main__":
    answer()
