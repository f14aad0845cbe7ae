"""Sequences of several lengths in one tensor: padded, or packed without padding."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tensocket.errors import ArgumentError, ArgumentTypeError, ShapeError
from tensocket_operators import Tensor, arange, as_tensor, empty_like, functions, int64
from tensocket_operators import tensor as make_tensor


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """Sequences of several lengths without padding: all their first elements, then all their second ones, ...

    Attributes:
        data: (elements of all sequences, *).
        batch_sizes: The number of sequences that have an element at each step; int64 on the host.
        sorted_indices: The permutation that sorted the sequences by length, longest first; None if they were sorted.
        unsorted_indices: The inverse permutation.
    """

    __slots__ = ()

    def __new__(
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None, unsorted_indices: Any = None
    ) -> PackedSequence:
        """Store the fields; compute ``unsorted_indices`` from ``sorted_indices`` if they are not given."""
        if isinstance(data, tuple) and batch_sizes is None:
            data, batch_sizes = data
        if batch_sizes.device.type != "cpu":
            raise ArgumentError("PackedSequence", f"batch_sizes on {batch_sizes.device}", "batch_sizes are on the CPU",
                                "move them with .cpu()")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return the same sequences on another device or of another dtype, as ``Tensor.to``."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        orders = [None if order is None else order.to(data.device) for order in self[2:]]
        return type(self)(data, self.batch_sizes, *orders)

    def cpu(self) -> PackedSequence:
        """Return the same sequences on the CPU."""
        return self.to("cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return the same sequences on a CUDA device."""
        return self.to(*(args or ("cuda",)), **kwargs)

    def double(self) -> PackedSequence:
        """Return the same sequences as float64."""
        return self._with(self.data.double())

    def float(self) -> PackedSequence:
        """Return the same sequences as float32."""
        return self._with(self.data.float())

    def half(self) -> PackedSequence:
        """Return the same sequences as float16."""
        return self._with(self.data.half())

    def long(self) -> PackedSequence:
        """Return the same sequences as int64."""
        return self._with(self.data.long())

    def int(self) -> PackedSequence:
        """Return the same sequences as int32."""
        return self._with(self.data.int())

    def short(self) -> PackedSequence:
        """Return the same sequences as int16."""
        return self._with(self.data.short())

    def char(self) -> PackedSequence:
        """Return the same sequences as int8."""
        return self._with(self.data.char())

    def byte(self) -> PackedSequence:
        """Return the same sequences as uint8."""
        return self._with(self.data.byte())

    def _with(self, data: Tensor) -> PackedSequence:
        return type(self)(data, *self[1:])

    def pin_memory(self) -> PackedSequence:
        """Return the same sequences in memory from which copies to a device are fast."""
        return self._with(self.data.pin_memory())

    def is_pinned(self) -> bool:
        """Whether they are in such memory."""
        return bool(self.data.is_pinned())

    @property
    def is_cuda(self) -> bool:
        """Whether they are on a CUDA device."""
        return bool(self.data.is_cuda)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the permutation that undoes another."""
    if permutation is None:
        return None
    result: Tensor = empty_like(permutation)
    result[permutation] = arange(permutation.numel(), device=permutation.device, dtype=permutation.dtype)
    return result


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Remove the padding from a batch of sequences.

    Args:
        input: (longest length, sequences, *), or (sequences, longest length, *) with ``batch_first``.
        lengths: Length of each sequence, on the host.
        batch_first: Whether the sequences are the first dimension.
        enforce_sorted: Whether the lengths must be given longest first; otherwise the sequences are sorted here.

    Raises:
        ArgumentError: Lengths are not positive or, with ``enforce_sorted``, not sorted.
        ShapeError: The input has fewer than two dimensions, or the numbers of lengths and sequences differ.
    """
    sizes = as_tensor(lengths, dtype=int64).cpu()
    order = None
    if not enforce_sorted:
        sizes, order = sizes.sort(descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    if input.dim() < 2:
        raise ShapeError("pack_padded_sequence", f"input of shape {tuple(input.shape)}", "the input has a dimension of "
                         "steps and one of sequences", "add the missing one with unsqueeze")
    padded = input.transpose(0, 1) if batch_first else input
    counts = sizes.tolist()
    _check_lengths(counts, padded)
    batch_sizes = [sum(length > step for length in counts) for step in range(counts[0])]
    data = functions.cat([padded[step, :size] for step, size in enumerate(batch_sizes)])
    return PackedSequence(data, make_tensor(batch_sizes, dtype=int64, device="cpu"), order, None)


def _check_lengths(lengths: list[int], padded: Tensor) -> None:
    if len(lengths) != padded.shape[1]:
        raise ShapeError("pack_padded_sequence", f"{len(lengths)} lengths for {padded.shape[1]} sequences",
                         "every sequence has a length", "pass one length for each")
    if min(lengths, default=0) <= 0:
        raise ArgumentError("pack_padded_sequence", f"lengths {lengths}", "lengths are positive",
                            "leave empty sequences out")
    if any(first < second for first, second in pairwise(lengths)):
        raise ArgumentError("pack_padded_sequence", f"lengths {lengths}", "`lengths` must be sorted in decreasing "
                            "order when `enforce_sorted` is True", "pass enforce_sorted=False")
    if lengths[0] > padded.shape[0]:
        raise ArgumentError("pack_padded_sequence", f"length {lengths[0]} for {padded.shape[0]} steps",
                            "no length is above the number of steps", "check batch_first")


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Add padding to packed sequences.

    Args:
        sequence: The sequences.
        batch_first: Whether the sequences are the first dimension of the result.
        padding_value: Value at the end of shorter sequences.
        total_length: Number of steps; that of the longest sequence by default.

    Returns:
        The (steps, sequences, *) tensor and the int64 lengths, in the order in which the sequences were packed.

    Raises:
        ArgumentError: ``total_length`` is less than the longest length.
    """
    sizes = sequence.batch_sizes.tolist()
    steps = len(sizes)
    if total_length is not None:
        if total_length < steps:
            raise ArgumentError("pad_packed_sequence", f"total_length={total_length} for sequences of {steps} steps",
                                "total_length is at least the longest length", "pass a larger one")
        steps = total_length
    padded: Any = sequence.data.new_full((steps, sizes[0], *sequence.data.shape[1:]), padding_value)
    start = 0
    for step, size in enumerate(sizes):
        padded[step, :size] = sequence.data[start : start + size]
        start += size
    lengths: Any = make_tensor([sum(size > place for size in sizes) for place in range(sizes[0])], device="cpu")
    if batch_first:
        padded = padded.transpose(0, 1)
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: Tensor | Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Pad sequences (length, *) to one (longest length, sequences, *) tensor, or transposed with ``batch_first``.

    Args:
        sequences: The sequences.
        batch_first: Whether the sequences are the first dimension of the result.
        padding_value: Value that fills shorter sequences.
        padding_side: Whether the padding is on their ``right`` or ``left``.

    Raises:
        ArgumentError: ``sequences`` is not iterable or is empty, or the side is unknown.
        ArgumentTypeError: A sequence is not a tensor.
    """
    if not isinstance(sequences, Tensor) and not hasattr(sequences, "__iter__"):
        raise ArgumentError("pad_sequence", f"a {type(sequences).__name__}", "sequences come from an iterable",
                            "pass a list of tensors")
    given = list(sequences.unbind(0)) if isinstance(sequences, Tensor) else list(sequences)
    if not given:
        raise ArgumentError("pad_sequence", "no sequences", "there is at least one sequence", "pass some")
    if padding_side not in ("left", "right"):
        raise ArgumentError("pad_sequence", f"padding_side={padding_side!r}", "padding_side is 'left' or 'right'",
                            "pass one of the two")
    for sequence in given:
        if not isinstance(sequence, Tensor):
            raise ArgumentTypeError("pad_sequence", f"a sequence of type {type(sequence).__name__}",
                                    "sequences are tensors", "convert it with tensocket.tensor(...)")
    steps = max(sequence.shape[0] for sequence in given)
    result: Tensor = given[0].new_full((len(given), steps, *given[0].shape[1:]), padding_value)
    for row, sequence in enumerate(given):
        size = sequence.shape[0]
        result[row, slice(0, size) if padding_side == "right" else slice(steps - size, steps)] = sequence
    return result if batch_first else result.transpose(0, 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """Return the sequences of a padded tensor, without their padding."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [rows[row, :length] for row, length in enumerate(as_tensor(lengths).tolist())]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (length, *) of several lengths; longest first, unless ``enforce_sorted`` is False."""
    lengths = [sequence.shape[0] for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return the sequences that were packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]
