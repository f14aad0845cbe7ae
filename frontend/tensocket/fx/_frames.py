"""Frames of the program that is recorded: where a node comes from, and what the program does with a proxy."""

from __future__ import annotations

import dis
import inspect
import traceback
from types import FrameType
from typing import Final


def stack_of_program() -> str:
    """Return the stack of the program that is recorded, without the frames of the recording."""
    frames = [frame for frame in traceback.extract_stack()
              if not frame.filename.replace("\\", "/").endswith(_MACHINERY)]
    return "".join(traceback.StackSummary.from_list(frames).format())


_MACHINERY: Final = ("fx/proxy.py", "fx/_frames.py", "fx/_symbolic_trace.py", "fx/_patching.py", "nn/modules/module.py",
                     "dispatch/overrides.py", "dispatch/protocol.py", "graph/traceback.py")


def _instructions(frame: FrameType) -> list[dis.Instruction]:
    """Return the instructions of a frame from the one that runs on."""
    found = list(dis.get_instructions(frame.f_code))
    at = next((k for k, instruction in enumerate(found) if instruction.offset == frame.f_lasti), len(found))
    return [instruction for instruction in found[at:] if instruction.opname not in ("TO_BOOL", "CACHE")]


def unpacked_count(frame: FrameType) -> int | None:
    """Return how many items the frame's running instruction unpacks; None if it does something else."""
    here = _instructions(frame)
    return here[0].argval if here and here[0].opname == "UNPACK_SEQUENCE" else None


def is_asserting(frame: FrameType) -> bool:
    """Whether the frame's running instruction is the test of an ``assert`` statement."""
    here = _instructions(frame)
    jump = next((k for k, instruction in enumerate(here[:2]) if instruction.opname.startswith("POP_JUMP")
                 and instruction.opname.endswith("IF_TRUE")), None)
    if jump is None or jump + 1 >= len(here):
        return False
    then = here[jump + 1]
    return then.opname == "LOAD_ASSERTION_ERROR" or then.argval == "AssertionError"


def frame_of_program() -> FrameType | None:
    """Return the innermost frame that is not of the recording."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.replace("\\", "/").endswith(_MACHINERY):
        frame = frame.f_back
    return frame
