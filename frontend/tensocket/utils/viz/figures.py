"""Drawing without a window: matplotlib figures, written to files."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any, Final

from ...errors import ArgumentError, MissingPackage

#: File extensions of pictures.
ENDINGS: Final = ("svg", "png", "pdf", "html")


def new_figure(function: str, width: float, height: float) -> Any:
    """Return a figure of this size in inches.

    Raises:
        MissingPackage: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise MissingPackage(function, "an environment without matplotlib", "pictures are drawn by matplotlib",
                             'pip install "tensocket[viz]"') from None
    return Figure(figsize=(width, height), layout="constrained")


def ending_of(function: str, path: Any) -> str:
    """Return the format of a path's extension.

    Raises:
        ArgumentError: The extension is not one of a picture.
    """
    ending = Path(path).suffix.removeprefix(".").lower()
    if ending not in ENDINGS:
        raise ArgumentError(function, f"path {str(path)!r}", "the path ends with the format of a picture",
                            f"end it with one of {', '.join('.' + name for name in ENDINGS)}")
    return ending


def write_figure(function: str, figure: Any, path: Any) -> None:
    """Write a figure in the format of the path's extension; HTML embeds it as PNG."""
    ending = ending_of(function, path)
    if ending != "html":
        # Without a date, equal pictures are equal files.
        figure.savefig(path, format=ending, metadata={"Date": None} if ending == "svg" else None)
        return
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    picture = base64.b64encode(buffer.getvalue()).decode()
    page = f'<!doctype html><meta charset="utf-8"><img src="data:image/png;base64,{picture}">\n'
    Path(path).write_text(page, "utf-8")
