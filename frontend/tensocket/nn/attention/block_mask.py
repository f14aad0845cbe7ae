"""Masks of attention by blocks of queries and keys, from functions of positions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import tensocket as torch
from tensocket.errors import ArgumentError
from tensocket_operators import Tensor

#: ``mask_mod(batch, head, query, key)``: whether a query sees a key; all four are tensors without dimensions.
MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Any]
_DEFAULT_SPARSE_BLOCK_SIZE: Final = 128
#: Tensors of a mask, in the order of the constructor.
_TENSORS: Final = ("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks", "q_indices",
                   "full_q_num_blocks", "full_q_indices")


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Return True: every query sees every key."""
    made: Tensor = batch.new_ones(size=(), dtype=torch.bool)
    return made


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return the function that is true where one of several is."""
    def either(*positions: Tensor) -> Any:
        result = mask_mods[0](*positions)
        for mod in mask_mods[1:]:
            result = result | mod(*positions)
        return result

    return either


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return the function that is true where all of several are."""
    def both(*positions: Tensor) -> Any:
        result = mask_mods[0](*positions)
        for mod in mask_mods[1:]:
            result = result & mod(*positions)
        return result

    return both


def over_positions(mod: Callable[..., Any], leading: tuple[Any, ...] = ()) -> Callable[..., Any]:
    """Return a function of one position of each kind as one of all positions: batches, heads, queries, keys.

    Args:
        mod: The function; ``leading`` arguments come before the positions.
        leading: For each leading argument, 0: it has all four dimensions.
    """
    for axis in (3, 2, 1, 0):
        positions = tuple(0 if k == axis else None for k in range(4))
        mod = torch.vmap(mod, in_dims=(*leading, *positions))
    return mod


def create_mask(mod_fn: MaskMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
                device: Any = None) -> Tensor:
    """Return a mask with an element for each query and key.

    Args:
        mod_fn: Whether a query sees a key.
        B: The number of batches; None stands for one that all share.
        H: The number of heads, likewise.
        Q_LEN: The number of queries.
        KV_LEN: The number of keys.
        device: Where the mask is made.

    Returns:
        Shape ``(B, H, Q_LEN, KV_LEN)``, bool.
    """
    positions = [torch.arange(0, 1 if n is None else n, device=device) for n in (B, H, Q_LEN, KV_LEN)]
    mask = over_positions(mod_fn)(*positions)
    return mask.to(torch.bool)  # type: ignore[no-any-return]


def _sizes(given: int | tuple[int, int]) -> tuple[int, int]:
    return (given, given) if isinstance(given, int) else (given[0], given[1])


def _by_blocks(mask: Tensor, block_size: tuple[int, int]) -> Tensor:
    """Return how many elements of each block are set, shape ``(B, H, blocks of queries, blocks of keys)``."""
    batch, heads, queries, keys = mask.shape
    rows, columns = block_size
    padded = torch.nn.functional.pad(mask.to(torch.int32), (0, -keys % columns, 0, -queries % rows))
    counts = padded.view(batch, heads, -1, rows, padded.shape[-1] // columns, columns)
    return counts.sum((3, 5))


def _ordered(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of chosen blocks of each row, and all blocks with the chosen ones first."""
    order = torch.argsort(chosen.to(torch.int32), dim=-1, descending=True, stable=True)
    return chosen.sum(-1).to(torch.int32), order.to(torch.int32).contiguous()


def chosen_blocks(count: Tensor, indices: Tensor, columns: int) -> Tensor:
    """Return which blocks are chosen, int32: the inverse of ``_ordered``."""
    taken = torch.arange(indices.shape[-1], device=indices.device) < count.unsqueeze(-1)
    result = indices.new_zeros((*indices.shape[:-1], columns + 1), dtype=torch.int32)
    places = torch.where(taken, indices.to(torch.int64), columns)
    return result.scatter(-1, places, taken.to(torch.int32))[..., :columns].contiguous()  # type: ignore[no-any-return]


class BlockMask:
    """Which blocks of keys each block of queries sees, wholly or in part.

    Attributes:
        seq_lengths: The numbers of queries and keys.
        kv_num_blocks: For each block of queries, how many blocks of keys it sees in part, shape ``(B, H, rows)``.
        kv_indices: The blocks of keys, those that it sees in part first, shape ``(B, H, rows, columns)``.
        full_kv_num_blocks: The number of blocks that it sees wholly; None if these are among the others.
        full_kv_indices: Those blocks, likewise.
        q_num_blocks: The same four from the view of keys; None if they were not computed.
        q_indices: See above.
        full_q_num_blocks: See above.
        full_q_indices: See above.
        BLOCK_SIZE: The number of queries and of keys in a block.
        mask_mod: Whether a query sees a key, for blocks that are seen in part.
    """

    seq_lengths: tuple[int, int]
    kv_num_blocks: Tensor
    kv_indices: Tensor
    full_kv_num_blocks: Tensor | None
    full_kv_indices: Tensor | None
    q_num_blocks: Tensor | None
    q_indices: Tensor | None
    full_q_num_blocks: Tensor | None
    full_q_indices: Tensor | None

    def __init__(self, seq_lengths: tuple[int, int], kv_num_blocks: Tensor, kv_indices: Tensor,
                 full_kv_num_blocks: Tensor | None, full_kv_indices: Tensor | None, q_num_blocks: Tensor | None,
                 q_indices: Tensor | None, full_q_num_blocks: Tensor | None, full_q_indices: Tensor | None,
                 BLOCK_SIZE: tuple[int, int], mask_mod: MaskMod) -> None:
        if kv_indices.dim() < 2:
            raise ArgumentError("BlockMask", f"kv_indices of {kv_indices.dim()} dimensions", "BlockMask must have at "
                                "least 2 dimensions", "pass blocks of queries times blocks of keys")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise ArgumentError("BlockMask", "one of full_kv_num_blocks and full_kv_indices", "full_kv_num_blocks and "
                                "full_kv_indices must be both provided or omitted", "pass both")
        self.seq_lengths = seq_lengths
        given = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, q_num_blocks, q_indices,
                 full_q_num_blocks, full_q_indices)
        for name, value in zip(_TENSORS, given, strict=True):
            setattr(self, name, value)
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None,
                       full_kv_indices: Tensor | None = None, BLOCK_SIZE: int | tuple[int, int] = 128,
                       mask_mod: MaskMod | None = None, seq_lengths: tuple[int, int] | None = None,
                       compute_q_blocks: bool = True) -> BlockMask:
        """Return a mask from the blocks of keys that blocks of queries see.

        Raises:
            ArgumentError: ``kv_indices`` has fewer than two dimensions, or one of the two tensors for full blocks is
                missing.
        """
        size = _sizes(BLOCK_SIZE)
        if kv_indices.dim() < 2:
            raise ArgumentError("BlockMask", f"kv_indices of {kv_indices.dim()} dimensions", "BlockMask must have at "
                                "least 2 dimensions", "pass blocks of queries times blocks of keys")
        rows, columns = kv_indices.shape[-2:]
        of_keys: list[Any] = [None] * 4
        if compute_q_blocks:
            of_keys[:2] = _ordered(chosen_blocks(kv_num_blocks, kv_indices, columns).transpose(-2, -1))
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                of_keys[2:] = _ordered(chosen_blocks(full_kv_num_blocks, full_kv_indices, columns).transpose(-2, -1))
        lengths = (rows * size[0], columns * size[1]) if seq_lengths is None else seq_lengths
        return cls(lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, of_keys[0],
                   of_keys[1], of_keys[2], of_keys[3], size, noop_mask if mask_mod is None else mask_mod)

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Return the arguments of the constructor; ``flatten``: numbers of pairs one by one."""
        tensors = tuple(getattr(self, name) for name in _TENSORS)
        if flatten:
            return (*self.seq_lengths, *tensors, *self.BLOCK_SIZE, self.mask_mod)
        return (self.seq_lengths, *tensors, self.BLOCK_SIZE, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """Batches, heads, queries and keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Return the number of pairs of a query and a key."""
        count = 1
        for n in self.shape:
            count *= n
        return count

    def sparsity(self) -> float:
        """Return the share of pairs, in percent, that are in no block which is seen."""
        seen = int(self.kv_num_blocks.sum())
        if self.full_kv_num_blocks is not None:
            seen += int(self.full_kv_num_blocks.sum())
        return 100 * (1 - seen * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Tensor:
        """Return which blocks are seen, int32, shape ``(B, H, rows, columns)``."""
        columns = self.kv_indices.shape[-1]
        part = chosen_blocks(self.kv_num_blocks, self.kv_indices, columns)
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return part
        return part | chosen_blocks(self.full_kv_num_blocks, self.full_kv_indices, columns)

    def to(self, device: Any) -> BlockMask:
        """Return the mask on another device."""
        return self._map(lambda x: x.to(device))

    def _map(self, function: Callable[[Tensor], Tensor]) -> BlockMask:
        made = copy.copy(self)
        for name in _TENSORS:
            if (x := getattr(self, name)) is not None:
                setattr(made, name, function(x))
        return made

    def __getitem__(self, index: Any) -> BlockMask:
        """Return the mask of some batches, or of some batches and heads; a number keeps its dimension."""
        chosen = index if isinstance(index, tuple) else (index,)
        places = tuple(slice(i % n, i % n + 1) if isinstance(i, int) else i
                       for i, n in zip(chosen, self.kv_indices.shape, strict=False))
        return self._map(lambda x: x[places])

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """Return a picture of each batch and head, with a sign for each block or group of blocks.

        Args:
            grid_size: The most rows and columns of a picture; -1 for all.
            limit: The most pictures.
        """
        seen = self.to_dense()
        largest = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        places = [(b, h) for b in range(seen.shape[0]) for h in range(seen.shape[1])]
        parts = [f"{place}\n" + _picture(seen[place], largest) for place in places[:limit]]
        if len(places) > limit:
            parts.append("...\nTo print out more, set BlockMask.to_string(limit=N)\nYou can also index "
                         "(BlockMask[batch, head]) to choose a specific batch or head")
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string()}\n)"


def _picture(seen: Tensor, largest: tuple[int, int]) -> str:
    """Return rows of a sign for each group of blocks: ``██`` if all are seen, ``░░`` if some are, and spaces."""
    height, width = (max(1, -(-n // most)) if most > 0 else 1 for n, most in zip(seen.shape, largest, strict=True))
    rows = []
    for i in range(0, seen.shape[0], height):
        groups = [seen[i:i + height, j:j + width] for j in range(0, seen.shape[1], width)]
        rows.append("".join("██" if bool(x.all()) else "░░" if bool(x.any()) else "  " for x in groups))
    return "\n".join(rows)


def create_block_mask(mask_mod: MaskMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
                      device: Any = None, BLOCK_SIZE: int | tuple[int, int] = 128,
                      _compile: bool = False, separate_full_blocks: bool = True) -> BlockMask:
    """Return which blocks of keys each block of queries sees, from a function of positions.

    Args:
        mask_mod: Whether a query sees a key.
        B: The number of batches; None stands for one that all share.
        H: The number of heads, likewise.
        Q_LEN: The number of queries.
        KV_LEN: The number of keys.
        device: Where the mask is made.
        BLOCK_SIZE: The number of queries and of keys in a block, or of both.
        _compile: Accepted as in PyTorch.
        separate_full_blocks: Whether blocks that are seen wholly are told from those that are seen in part.

    >>> import tensocket as torch
    >>> from tensocket.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 8, 8, BLOCK_SIZE=4)
    >>> mask.to_dense().tolist(), mask.sparsity()
    ([[[[1, 0], [1, 1]]]], 25.0)
    """
    size = _sizes(BLOCK_SIZE)
    counts = _by_blocks(create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device), size)
    full = counts == size[0] * size[1]
    seen = counts > 0
    if not separate_full_blocks:
        return BlockMask.from_kv_blocks(*_ordered(seen), BLOCK_SIZE=size, mask_mod=mask_mod,
                                        seq_lengths=(Q_LEN, KV_LEN))
    return BlockMask.from_kv_blocks(*_ordered(seen & ~full), *_ordered(full), BLOCK_SIZE=size, mask_mod=mask_mod,
                                    seq_lengths=(Q_LEN, KV_LEN))


torch.utils._pytree.register_pytree_node(
    BlockMask,
    lambda mask: ([getattr(mask, name) for name in _TENSORS], (mask.seq_lengths, mask.BLOCK_SIZE, mask.mask_mod)),
    lambda tensors, context: BlockMask(*(context[0], *tensors, context[1], context[2])))
