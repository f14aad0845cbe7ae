"""Names of checkpoints in parts, which several processes write together."""

from __future__ import annotations

from typing import Any, NoReturn

from tensocket.errors import UnsupportedOperator


def _refuse(name: str) -> NoReturn:
    raise UnsupportedOperator(name, "a checkpoint in parts", "one process has whole tensors, and writes one file",
                              "save the state dict with tensocket.save, and read it with tensocket.load")


class _Refused:
    """A class of which there are no objects.

    Raises:
        UnsupportedOperator: Always.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse(type(self).__name__)


class FileSystemReader(_Refused):
    """Reads checkpoints from a folder: not supported."""


class FileSystemWriter(_Refused):
    """Writes checkpoints to a folder: not supported."""


class HuggingFaceStorageReader(_Refused):
    """Reads checkpoints from a folder of safetensors: not supported."""


class HuggingFaceStorageWriter(_Refused):
    """Writes checkpoints to a folder of safetensors: not supported."""


class DefaultLoadPlanner(_Refused):
    """Decides what each process reads: not supported."""


class DefaultSavePlanner(_Refused):
    """Decides what each process writes: not supported."""


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Decides to read everything: not supported."""


def save(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to write a checkpoint in parts.

    Raises:
        UnsupportedOperator: Always.
    """
    _refuse("distributed.checkpoint.save")


def load(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse to read a checkpoint in parts.

    Raises:
        UnsupportedOperator: Always.
    """
    _refuse("distributed.checkpoint.load")


save_state_dict = async_save = save
load_state_dict = _load_state_dict = load_sharded_optimizer_state_dict = load
dcp_to_torch_save = torch_save_to_dcp = load
