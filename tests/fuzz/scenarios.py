"""Processes in odd situations, each a child: how they end, that they fork, and that threads share tensors.

A case draws a plan (``exits``, ``forks``, ``races``), and a child process plays it under ``faulthandler``. Its work has
known results (``work.py``); its status, and that it says nothing else, is what counts. Most children are forked from a
process that has worked for a while, because a new one needs seconds until its operators are native.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

TESTS: Final = Path(__file__).resolve().parent.parent
#: Seconds after which a child has hung.
SLOW: Final = 60
#: Share of the cases that are new processes.
NEW: Final = 0.15
#: Pieces of work that a process does before others are forked from it.
WARM: Final = 40


def _kinds() -> dict[str, Any]:
    from fuzz import exits, forks, races

    return {"exits": exits, "forks": forks, "races": races}


def fuzz(campaign: Any) -> None:
    """Random scenarios; options are kinds."""
    kinds = _kinds()
    names = [name for name in kinds if not campaign.options or name in campaign.options]
    nursery = Nursery(campaign.seed)
    try:
        for number, rng in campaign.each():
            plan = kinds[names[int(rng.integers(len(names)))]].draw(rng)
            plan = {**plan, "seed": [campaign.seed, number], "new": bool(rng.random() < NEW)}
            said = _played(campaign, plan, nursery)
            if said:
                campaign.differ(f"{plan}\n    {said}")
    finally:
        nursery.close()


class Nursery:
    """Starts children: new processes, or forks of one that has worked already."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._warm: Any = None

    def play(self, plan: dict[str, Any], folder: str) -> int | str:
        """The status of a child that played a plan."""
        text = json.dumps({**plan, "folder": folder})
        if plan["new"]:
            child = subprocess.Popen([sys.executable, "-X", "faulthandler", __file__, text])
            try:
                return child.wait(SLOW)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGABRT)
                child.wait(SLOW)
                return "hung"
        if self._warm is None:
            self._warm = subprocess.Popen([sys.executable, "-X", "faulthandler", __file__, "warm", str(self.seed)],
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._warm.stdin.write(text + "\n")
        self._warm.stdin.flush()
        return json.loads(self._warm.stdout.readline())  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the process that others are forked from."""
        if self._warm is not None:
            self._warm.communicate()


def _played(campaign: Any, plan: dict[str, Any], nursery: Nursery) -> str:
    """Play a plan in a child; what was wrong with it."""
    with tempfile.TemporaryDirectory() as folder:
        status = nursery.play(plan, folder)
        calls, said = Path(folder) / "calls", Path(folder) / "said"
        campaign.called(int(calls.read_text() or 0) if calls.exists() else 0)
        text = said.read_text(errors="replace") if said.exists() else ""
    if status != plan["status"]:
        return f"status {status}, not {plan['status']}\n{text[-4000:]}"
    alarming = "Fatal Python error" in text or ("Exception ignored" in text and not plan.get("loud"))
    return text[-4000:] if alarming or (text.strip() and not plan.get("loud")) else ""


# -------------------------------------------------------------------------------------------------------- in children


def _play(plan: dict[str, Any]) -> None:
    """Play a plan in this process, which says what it says into a file."""
    os.setsid()
    folder, count = Path(plan["folder"]), [0]
    said = os.open(folder / "said", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    faulthandler.enable()

    def report(number: int) -> None:
        count[0] += number
        (folder / "calls").write_text(str(count[0]))

    _kinds()[plan["kind"]].play(plan, np.random.default_rng(plan["seed"]), report)


def _serve(seed: int) -> dict[str, Any] | None:
    """Fork a child for each line; a child gets its plan, and the parent None at the end."""
    from fuzz.work import do

    _kinds()
    do(np.random.default_rng(seed), WARM)
    out = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        child = os.fork()
        if not child:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            return json.loads(line)  # type: ignore[no-any-return]
        print(json.dumps(_waited(child)), file=out, flush=True)
    return None


def _waited(child: int) -> int | str:
    end = time.monotonic() + SLOW
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.killpg(child, signal.SIGABRT)  # all of its processes say where they are
    os.waitpid(child, 0)
    return "hung"


if __name__ == "__main__":
    sys.path[0] = str(TESTS)
    given = _serve(int(sys.argv[2])) if sys.argv[1] == "warm" else json.loads(sys.argv[1])
    if given is not None:
        _play(given)
