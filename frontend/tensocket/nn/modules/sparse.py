"""Layers whose input are indices."""

from __future__ import annotations

from typing import Any

from tensocket.errors import ArgumentError, ShapeError
from tensocket.nn import functional as F
from tensocket.nn import init
from tensocket.nn.modules.module import Module
from tensocket.nn.parameter import Parameter
from tensocket_core import Tensor, empty, no_grad


class Embedding(Module):
    """A table of vectors, looked up by integer indices.

    Args:
        num_embeddings: Rows of the table.
        embedding_dim: Length of a row.
        padding_idx: A row that stays zero: it starts as zero and gets no gradient.
        device: Where the table lives.
        dtype: Its dtype.

    Rows start as standard normal values.
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _checked_padding(padding_idx, num_embeddings)
        self.weight = Parameter(empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None) -> Embedding:
        """An embedding with the given (num_embeddings, embedding_dim) table, trained only if not ``freeze``.

        Raises:
            ShapeError: The table is not two-dimensional.
        """
        if embeddings.dim() != 2:
            raise ShapeError("Embedding.from_pretrained", f"a table of shape {tuple(embeddings.shape)}", "the table "
                             "has two dimensions", "pass (num_embeddings, embedding_dim)")
        rows, columns = embeddings.shape
        module = cls(0, columns, device=embeddings.device, dtype=embeddings.dtype)
        module.num_embeddings = rows
        module.padding_idx = _checked_padding(padding_idx, rows)
        module.weight = Parameter(embeddings, requires_grad=not freeze)
        return module

    def forward(self, input: Tensor) -> Tensor:
        """Indices of any shape to vectors of shape (*input.shape, embedding_dim)."""
        return F.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """Size of the table."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


def _checked_padding(index: int | None, rows: int) -> int | None:
    if index is None:
        return None
    if not -rows <= index < rows:
        raise ArgumentError("Embedding", f"padding_idx={index} for {rows} rows", "padding_idx is one of the rows",
                            f"pass an index from {-rows} to {rows - 1}")
    return index % rows
