"""The texts that the language models learn, character by character: Python's standard library and documentation."""

from __future__ import annotations

import inspect
import random as standard_random
import string
import textwrap
from dataclasses import dataclass
from pydoc_data.topics import topics

import tensocket as torch
from tensocket import Tensor


@dataclass(frozen=True)
class Text:
    """A text as character codes.

    Attributes:
        codes: The code of each character, int64 (length,).
        letters: The characters, by code.
    """

    codes: Tensor
    letters: str

    def batch(self, count: int, length: int, device: str) -> tuple[Tensor, Tensor]:
        """Return ``count`` random pieces, and the same pieces one character later: int64 (count, length) each."""
        starts = torch.randint(0, len(self.codes) - length - 1, (count, 1))
        places = starts + torch.arange(length + 1)
        pieces = self.codes[places].to(device)
        return pieces[:, :-1], pieces[:, 1:]

    def decode(self, codes: Tensor) -> str:
        """Return the characters of codes int64 (length,)."""
        return "".join(self.letters[code] for code in codes.tolist())


def encode(text: str, letters: str) -> Text:
    """Return a text as codes of ``letters``, without other characters."""
    number = {letter: index for index, letter in enumerate(letters)}
    return Text(torch.tensor([number[letter] for letter in text if letter in number]), letters)


def standard_library(tiny: bool, letters: str | None = None) -> Text:
    """Return the sources of a few modules, or of the smallest if ``tiny``; by default with their own letters."""
    modules = [string] if tiny else [string, textwrap, standard_random]
    text = "\n".join(inspect.getsource(module) for module in modules)
    return encode(text, letters or "".join(sorted(set(text))))


def documentation(tiny: bool, letters: str) -> Text:
    """Return what Python's ``help`` says of its topics, or the beginning if ``tiny``."""
    text = "\n".join(topics.values())
    return encode(text[:10_000] if tiny else text, letters)
