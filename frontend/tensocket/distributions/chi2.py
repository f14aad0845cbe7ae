"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any, ClassVar

from . import constraints
from .gamma import Gamma


class Chi2(Gamma):
    """The sum of ``df`` squares of standard normal numbers.

    Args:
        df: Degrees of freedom.
        validate_args: Whether parameters and values are checked.
    """

    arg_constraints: ClassVar[dict[str, Any]] = {"df": constraints.positive}
    _expanded: ClassVar[dict[str, int]] = {"concentration": 0, "rate": 0}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Any:
        """Degrees of freedom."""
        return self.concentration * 2
