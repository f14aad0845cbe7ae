"""Layers whose inputs are indices."""

from __future__ import annotations

from typing import Any

from tensocket.errors import PaddingIndexError, ShapeError
from tensocket.nn import functional as F
from tensocket.nn import init
from tensocket.nn.modules.module import Module
from tensocket.nn.parameter import Parameter
from tensocket_operators import Tensor, empty, no_grad


class _Table(Module):
    """A table of vectors, one of which may stay zero."""

    weight: Parameter

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None, max_norm: float | None,
        norm_type: float, scale_grad_by_freq: bool,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _checked_padding(type(self).__name__, padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq

    def _add_table(self, given: Tensor | None, device: Any, dtype: Any, freeze: bool = False) -> None:
        shape = self.num_embeddings, self.embedding_dim
        if given is None:
            self.weight = Parameter(empty(*shape, device=device, dtype=dtype), requires_grad=not freeze)
            self.reset_parameters()
            return
        if tuple(given.shape) != shape:
            raise ShapeError(type(self).__name__, f"a table of shape {tuple(given.shape)} for {shape}", "Shape of "
                             "weight must match num_embeddings and embedding_dim", "pass one of that shape")
        self.weight = Parameter(given, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def _shown(self, *more: tuple[str, Any, Any]) -> str:
        """Return the size of the table and the arguments that differ from their defaults."""
        optional = (("max_norm", self.max_norm, None), ("norm_type", self.norm_type, 2),
                    ("scale_grad_by_freq", self.scale_grad_by_freq, False), *more)
        shown = [f"{name}={value!r}" for name, value, default in optional if value != default]
        return ", ".join([f"{self.num_embeddings}, {self.embedding_dim}", *shown])


class Embedding(_Table):
    """A table of vectors, looked up by integer indices.

    Args:
        num_embeddings: Rows of the table.
        embedding_dim: Length of a row.
        padding_idx: A row that starts as zero and gets no gradient.
        max_norm: Rows with a larger norm are scaled down to it when they are looked up, in place.
        norm_type: Exponent of that norm.
        scale_grad_by_freq: Whether a row's gradient is divided by the number of its lookups.
        sparse: Whether the gradient is sparse.
        _weight: The table, if it is given.
        _freeze: Whether it is not trained.
        device: Device of the table.
        dtype: Its dtype.

    Rows start as standard normal values.

    Raises:
        PaddingIndexError: ``padding_idx`` is not one of the rows.
        ShapeError: ``_weight`` has another shape.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq)
        self._add_table(_weight, device, dtype, _freeze)
        self.sparse = sparse

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None, max_norm: float | None = None,
        norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
    ) -> Embedding:
        """Return an embedding with the given (num_embeddings, embedding_dim) table, trained only if not ``freeze``.

        Raises:
            ShapeError: The table is not two-dimensional.
        """
        rows, columns = _table_shape("Embedding", embeddings)
        return cls(rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze)

    def forward(self, input: Tensor) -> Tensor:
        """Map indices of any shape to vectors of shape (*input.shape, embedding_dim)."""
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
                           self.scale_grad_by_freq, self.sparse)

    def extra_repr(self) -> str:
        """Return the size of the table and the options that differ from their defaults."""
        shown = self._shown(("sparse", self.sparse, False))
        if self.padding_idx is None:
            return shown
        rows, columns, *rest = shown.split(", ")
        return ", ".join([rows, columns, f"padding_idx={self.padding_idx}", *rest])


class EmbeddingBag(_Table):
    """Sums, means or largest elements of the rows of a table in bags of indices.

    Args:
        num_embeddings: Rows of the table.
        embedding_dim: Length of a row.
        max_norm: Rows with a larger norm are scaled down to it when they are looked up, in place.
        norm_type: Exponent of that norm.
        scale_grad_by_freq: Whether a row's gradient is divided by the number of its lookups.
        mode: ``sum``, ``mean`` or ``max``.
        sparse: Whether the gradient is sparse.
        _weight: The table, if it is given.
        include_last_offset: Whether the last offset is the end of the last bag.
        padding_idx: A row that starts as zero, gets no gradient and is ignored.
        device: Device of the table.
        dtype: Its dtype.

    Raises:
        PaddingIndexError: ``padding_idx`` is not one of the rows.
        ShapeError: ``_weight`` has another shape.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq)
        self._add_table(_weight, device, dtype)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Return bags over the given (num_embeddings, embedding_dim) table, trained only if not ``freeze``.

        Raises:
            ShapeError: The table is not two-dimensional.
        """
        rows, columns = _table_shape("EmbeddingBag", embeddings)
        module = cls(rows, columns, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings,
                     include_last_offset, padding_idx)
        module.weight.requires_grad_(not freeze)
        return module

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Map bags of indices, (B, L) or flat with the start of each in ``offsets``, to (B, embedding_dim).

        Args:
            input: The indices.
            offsets: Where each bag of a flat input starts, (B).
            per_sample_weights: A factor for each index, of the input's shape; for sums only.
        """
        return F.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
                               self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx)

    def extra_repr(self) -> str:
        """Return the size of the table and the options that differ from their defaults."""
        return self._shown(("mode", self.mode, None), ("padding_idx", self.padding_idx, None))


def _table_shape(name: str, table: Tensor) -> tuple[int, int]:
    """Return the numbers of rows and columns.

    Raises:
        ShapeError: The table is not a matrix.
    """
    if table.dim() != 2:
        raise ShapeError(f"{name}.from_pretrained", f"a table of shape {tuple(table.shape)}", "the table has two "
                         "dimensions", "pass (num_embeddings, embedding_dim)")
    rows, columns = table.shape
    return rows, columns


def _checked_padding(name: str, index: int | None, rows: int) -> int | None:
    if index is None:
        return None
    if not -rows <= index < rows:
        raise PaddingIndexError(name, f"padding_idx={index} for {rows} rows", "padding_idx is one of the rows",
                                f"pass an index from {-rows} to {rows - 1}")
    return index % rows


__all__ = ["Embedding", "EmbeddingBag"]
