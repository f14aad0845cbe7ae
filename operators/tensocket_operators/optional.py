"""Optional packages: extras of the distribution, which are imported at their first use."""

from __future__ import annotations

import importlib
from typing import Any

from tensocket_plugins.contract.errors import MissingPackage


def require(module: str, operator: str) -> Any:
    """Import a module of an optional package whose name is also that of core's extra.

    Args:
        module: Full name of the module, for example ``scipy.linalg``.
        operator: Operator that needs the module, for the message.

    Raises:
        MissingPackage: The package is not installed.
    """
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise MissingPackage(operator, f"an environment without {package}", "this operator needs an optional package",
                             f'pip install "tensocket-core[{package}]"') from None
