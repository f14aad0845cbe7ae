"""``vmap``: turns a function of one example into a function of a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, NamedTuple

from tensocket_plugins.contract.errors import ArgumentError, DimensionError

from .. import functions
from ..autograd.differentiate import BATCHED
from ..pytree import TreeSpec, broadcast_to_and_flatten, tree_flatten, tree_leaves, tree_structure, tree_unflatten
from .batching import Batching

_IS_DIM = (int, type(None))


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
         chunk_size: int | None = None) -> Callable[..., Any]:
    """Return a function of batches that computes ``func`` for every example, with one call of each operator.

    Args:
        func: A function of examples: trees of tensors in, a tree of tensors out.
        in_dims: The batch dimension of an argument; None for arguments that all examples share. An int for all, or a
            tuple with one entry (or tree of entries) per positional argument. All examples share keyword arguments.
        out_dims: The batch dimension of results; an int for all or a tree like the result. None for results that are
            the same for all examples.
        randomness: Whether examples draw ``different`` or the ``same`` random numbers, or whether drawing is an
            ``error``.
        chunk_size: Examples per call; None for all at once.

    Raises:
        ArgumentError: ``randomness`` or ``chunk_size`` is invalid. When the function is called: dims do not fit the
            arguments or results, sizes differ, no argument is batched, or a result is not a tensor.
        TransformError: When the function is called: its control flow or shapes depend on data.

    >>> import tensocket_core as tc
    >>> vmap(lambda x, y: (x * y).sum(), in_dims=(0, None))(tc.ones(2, 3), tc.arange(3.0)).tolist()
    [3.0, 3.0]
    """
    _check_randomness(randomness)
    if chunk_size is not None and chunk_size <= 0:
        raise ArgumentError("vmap", f"chunk_size={chunk_size!r}", "vmap: chunk_size should be None or greater than 0.",
                            "pass a positive number, or None")

    @wraps(func, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        batch = _batched(func, in_dims, args, out_dims)
        if chunk_size is None or chunk_size >= batch.size:
            return _run(func, batch, kwargs, out_dims, randomness)
        return _in_chunks(func, batch, kwargs, out_dims, randomness, chunk_size)

    return mapped


def chunk_vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error",
               chunks: int = 2) -> Callable[..., Any]:
    """Do the same as ``vmap``, in ``chunks`` parts of the batch, one after the other.

    >>> import tensocket_core as tc
    >>> chunk_vmap(lambda x: x * 2, chunks=2)(tc.arange(3)).tolist()
    [0, 2, 4]
    """
    _check_randomness(randomness)
    if chunks == 1:
        return vmap(func, in_dims, out_dims, randomness)

    @wraps(func, updated=())
    def mapped(*args: Any, **kwargs: Any) -> Any:
        batch = _batched(func, in_dims, args, out_dims)
        return _in_chunks(func, batch, kwargs, out_dims, randomness, max(1, -(-batch.size // chunks)))

    return mapped


def restore_vmap(func: Callable[..., Any], in_dims: Any, batch_size: int, randomness: str) -> Callable[..., Any]:
    """Do the same as ``vmap``, for any arguments and results, also without a batch among them.

    Returns:
        A function that returns the results of ``func``, with batches in place of examples, and a tree with the batch
        dimension of every leaf, or None.
    """

    def mapped(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        leaves, spec = tree_flatten(args)
        dims = broadcast_to_and_flatten(in_dims, spec, lambda x: isinstance(x, _IS_DIM))
        if dims is None:
            raise _incompatible(func, in_dims, spec)
        transform = Batching("vmap", batch_size, randomness)
        with transform:
            given = [x if d is None else transform.wrap(_to_front(x, d)) for x, d in zip(leaves, dims, strict=True)]
            result = func(*tree_unflatten(given, spec), **kwargs)
        outputs, out_spec = tree_flatten(result)
        owned = [hasattr(x, "_key") and transform.owns(x) for x in outputs]
        values = [x._value if there else x for x, there in zip(outputs, owned, strict=True)]
        return (tree_unflatten(values, out_spec),
                tree_unflatten([0 if there else None for there in owned], out_spec))

    return mapped


def _check_randomness(randomness: str) -> None:
    if randomness not in ("error", "different", "same"):
        raise ArgumentError("vmap", f"randomness={randomness!r}", "Only allowed values for randomness are 'error', "
                            "'different', or 'same'", "pass one of these")


def named(func: Any) -> str:
    """Return the name of a function for errors."""
    if isinstance(func, partial):
        return f"functools.partial({named(func.func)}, ...)"
    return str(getattr(func, "__name__", None) or repr(func))


class _Batch(NamedTuple):
    """Positional arguments of a batched call."""

    #: Leaves, batched ones with the batch in front.
    leaves: list[Any]
    #: The original batch dimension of every leaf, or None.
    dims: list[Any]
    spec: TreeSpec
    #: Number of examples.
    size: int


def _incompatible(func: Any, in_dims: Any, spec: TreeSpec) -> ArgumentError:
    return ArgumentError(
        "vmap", f"in_dims={in_dims!r} for {named(func)}", f"in_dims is not compatible with the structure of `inputs`: "
        f"in_dims has structure {tree_structure(in_dims).brief()} but inputs has structure {spec.brief()}",
        "pass one entry per argument, or a prefix of their structure")


def _batched(func: Any, in_dims: Any, args: tuple[Any, ...], out_dims: Any) -> _Batch:
    if not isinstance(out_dims, _IS_DIM):
        for dim in tree_leaves(out_dims):
            if not isinstance(dim, _IS_DIM):
                raise ArgumentError("vmap", f"out_dims={out_dims!r} for {named(func)}", "`out_dims` must be an int, "
                                    "None or a python collection of ints representing where in the outputs the "
                                    "vmapped dimension should appear", "pass one entry per result")
    if not isinstance(in_dims, (int, tuple)):
        raise ArgumentError("vmap", f"in_dims={in_dims!r} of type {type(in_dims).__name__} for {named(func)}",
                            "expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
                            "inputs", "pass for example (0, None)")
    if not args:
        raise ArgumentError("vmap", f"no positional arguments for {named(func)}", f"vmap({named(func)})(<inputs>): "
                            "got no inputs; a batched function has batches among its positional arguments",
                            "pass batches, or call the function itself")
    leaves, spec = tree_flatten(args)
    dims = broadcast_to_and_flatten(in_dims, spec, lambda x: isinstance(x, _IS_DIM))
    if dims is None:
        raise _incompatible(func, in_dims, spec)
    leaves = [_front(func, x, d) for x, d in zip(leaves, dims, strict=True)]
    sizes = [int(x.shape[0]) for x, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise ArgumentError("vmap", f"in_dims={in_dims!r} for {named(func)}",
                            "vmap: Expected at least one Tensor to vmap over",
                            "pass the dimension that counts examples")
    if len(set(sizes)) > 1:
        raise ArgumentError("vmap", f"arguments for {named(func)}", "vmap: Expected all tensors to have the same size "
                            f"in the mapped dimension, got sizes {sizes} for the mapped dimension", "check in_dims")
    return _Batch(leaves, dims, spec, sizes[0])


def _front(func: Any, value: Any, dim: Any) -> Any:
    """Return an argument with its batch in front."""
    if dim is None:
        return value
    if not isinstance(dim, int):
        raise ArgumentError("vmap", f"arguments for {named(func)}", f"Got in_dim={dim!r} for an input but in_dim must "
                            "be either an integer dimension or None", "pass one of these")
    if not hasattr(value, "_key"):
        raise ArgumentError("vmap", f"arguments for {named(func)}", f"Got in_dim={dim} for an input but the input is "
                            f"of type {type(value)}; only tensors are batched", "pass None for other arguments")
    if not -value.ndim <= dim < value.ndim:
        raise ArgumentError("vmap", f"arguments for {named(func)}", f"Got in_dim={dim} for some input, but that input "
                            f"is a Tensor of dimensionality {value.ndim} so expected in_dim to satisfy -{value.ndim} "
                            f"<= in_dim < {value.ndim}", "pass a dim of the tensor")
    return _to_front(value, dim)


def _to_front(value: Any, dim: int) -> Any:
    return value if dim == 0 or dim == -value.ndim else value.movedim(dim, 0)


def _run(func: Callable[..., Any], batch: _Batch, kwargs: dict[str, Any], out_dims: Any, randomness: str,
         functional: bool = True) -> Any:
    transform = Batching("vmap", batch.size, randomness)
    transform.functional = functional
    with transform:
        args = tree_unflatten([x if d is None else transform.wrap(x)
                               for x, d in zip(batch.leaves, batch.dims, strict=True)], batch.spec)
        result = func(*args, **kwargs)
    outputs, out_spec = tree_flatten(result)
    wanted = _out_dims(func, out_dims, out_spec)
    return tree_unflatten([_output(func, transform, x, d) for x, d in zip(outputs, wanted, strict=True)], out_spec)


def _out_dims(func: Any, out_dims: Any, spec: TreeSpec) -> list[Any]:
    if spec.is_leaf() and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    dims = broadcast_to_and_flatten(out_dims, spec, lambda x: isinstance(x, _IS_DIM))
    if dims is None and isinstance(out_dims, (tuple, list)):
        # As in PyTorch, a list may stand for a tuple here, and the other way round.
        other = tuple(out_dims) if isinstance(out_dims, list) else list(out_dims)
        dims = broadcast_to_and_flatten(other, spec, lambda x: isinstance(x, _IS_DIM))
    if dims is None:
        raise ArgumentError(
            "vmap", f"out_dims={out_dims!r} for {named(func)}", "out_dims is not compatible with the structure of "
            f"`outputs`: out_dims has structure {tree_structure(out_dims).brief()} but outputs has structure "
            f"{spec.brief()}",
            "pass one entry per result, or a prefix of their structure")
    return dims


def _output(func: Any, transform: Batching, value: Any, dim: Any) -> Any:
    """Return a result with its batch dimension in the wanted position."""
    if dim is None:
        if hasattr(value, "_key") and transform.owns(value):
            raise ArgumentError("vmap", f"out_dims=None for a result of {named(func)}",
                                f"`{named(func)}` can not return a BatchedTensor when out_dim is None",
                                "pass a dimension")
        return value
    if not hasattr(value, "_key"):
        raise ArgumentError("vmap", f"a result of {named(func)}", f"`{named(func)}` must only return Tensors, got type "
                            f"{type(value)}", "return a tensor, or pass out_dims=None for it")
    if transform.owns(value):
        value = value._value
    else:
        value = value.expand((transform.batch_size, *value.shape))
    if not -value.ndim <= dim < value.ndim:
        raise DimensionError("vmap", f"out_dim {dim} for a result of {value.ndim} dimensions of {named(func)}",
                             f"Dimension out of range (expected to be in range of [{-value.ndim}, {value.ndim - 1}], "
                             f"but got {dim})", "pass a dim of the result")
    return value if dim == 0 else value.movedim(0, dim)


def _in_chunks(func: Callable[..., Any], batch: _Batch, kwargs: dict[str, Any], out_dims: Any, randomness: str,
               chunk_size: int) -> Any:
    """Call the function per chunk and join the results; with the same draws, each chunk restarts the generator."""
    parts: list[list[Any]] = []
    out_spec = batch.spec
    states = functions.positions() if randomness == "same" else {}
    for start in range(0, batch.size, chunk_size):
        count = min(chunk_size, batch.size - start)
        chunk = [x if d is None else x.narrow(0, start, count) for x, d in zip(batch.leaves, batch.dims, strict=True)]
        functions.restore_positions(states)
        outputs, out_spec = tree_flatten(
            _run(func, _Batch(chunk, batch.dims, batch.spec, count), kwargs, out_dims, randomness))
        parts.append(outputs)
    wanted = _out_dims(func, out_dims, out_spec)
    joined = [column[0] if dim is None else functions.cat(list(column), dim)
              for column, dim in zip(zip(*parts, strict=True), wanted, strict=True)]
    return tree_unflatten(joined, out_spec)


def _batch_passes(func: Callable[..., Any]) -> Callable[..., Any]:
    """Batch one of the runtime's own functions: gradients for many cotangents at once are a batch of passes."""

    def mapped(*args: Any) -> Any:
        return _run(func, _batched(func, 0, args, 0), {}, 0, "error", functional=False)

    return mapped


BATCHED.append(_batch_passes)
