"""The parts of the package tensorboard that writers use, imported at their first use."""

from __future__ import annotations

import importlib
from typing import Any, Final

from ...errors import MissingPackage

#: Modules of messages that belong to plugins; all others belong to the format itself.
_PLUGINS: Final = {
    "plugin_hparams": "plugins.hparams.plugin_data_pb2", "api": "plugins.hparams.api_pb2",
    "plugin_text": "plugins.text.plugin_data_pb2", "plugin_pr_curve": "plugins.pr_curve.plugin_data_pb2",
    "layout": "plugins.custom_scalar.layout_pb2", "projector": "plugins.projector.projector_config_pb2",
}  # fmt: skip


def module(name: str) -> Any:
    """Return a module of tensorboard, ``compat.proto.summary_pb2``.

    Raises:
        MissingPackage: tensorboard is not installed.
    """
    try:
        return importlib.import_module(f"tensorboard.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "tensorboard":
            raise
        raise MissingPackage("SummaryWriter", "an environment without tensorboard",
                             "logs are written in the format of the package tensorboard",
                             "pip install tensorboard") from None


def proto(name: str, kind: str, /, **fields: Any) -> Any:
    """Return a message of tensorboard: ``proto("summary", "Summary", value=[...])``."""
    return getattr(module(_PLUGINS.get(name) or f"compat.proto.{name}_pb2"), kind)(**fields)
