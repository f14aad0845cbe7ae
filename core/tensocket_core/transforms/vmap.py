"""``vmap``: a function of one example as a function of many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_plugins.contract.errors import ArgumentError, DimensionError

from .._generated import functions
from ..autograd.differentiate import BATCHED
from ..pytree import TreeSpec, broadcast_to_and_flatten, tree_flatten, tree_unflatten
from .batching import Batching

_IS_DIM = (int, type(None))


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
         chunk_size: int | None = None) -> Callable[..., Any]:
    """A function of batches that gives what ``func`` gives for every example, by one call of each operator.

    Args:
        func: A function of examples: trees of tensors in, a tree of tensors out.
        in_dims: Which dimension of an argument counts examples; None for arguments that all share. An int for all, or
            a tuple with one entry (or tree of entries) per positional argument. Keyword arguments count examples in
            dimension 0.
        out_dims: Where results count examples; an int for all or a tree like the result. None for results that are
            the same for all examples.
        randomness: Whether examples draw ``different`` or the ``same`` random numbers, or whether drawing is an
            ``error``.
        chunk_size: Examples per call; None for all at once.

    Raises:
        ArgumentError: ``randomness`` or ``chunk_size`` is not one of these. When the function is called: dims do not
            fit the arguments or results, sizes differ, there is no batched argument, or a result is no tensor.
        TransformError: When it is called: the function's control flow or shapes depend on data.

    >>> import tensocket_core as tc
    >>> vmap(lambda x, y: (x * y).sum(), in_dims=(0, None))(tc.ones(2, 3), tc.arange(3.0)).tolist()
    [3.0, 3.0]
    """
    if randomness not in ("error", "different", "same"):
        raise ArgumentError("vmap", f"randomness={randomness!r}", "randomness is 'error', 'different' or 'same'",
                            "pass one of these")
    if chunk_size is not None and chunk_size <= 0:
        raise ArgumentError("vmap", f"chunk_size={chunk_size!r}", "a chunk has at least one example",
                            "pass a positive number, or None")
    name = getattr(func, "__name__", type(func).__name__)

    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, dims, spec, size = _batched(name, in_dims, args, kwargs)
        if chunk_size is None or chunk_size >= size:
            return _run(name, func, leaves, dims, spec, size, out_dims, randomness)
        return _in_chunks(name, func, (leaves, dims, spec, size), out_dims, randomness, chunk_size)

    mapped.__name__ = name
    mapped.__doc__ = getattr(func, "__doc__", None)
    return mapped


def _batched(name: str, in_dims: Any, args: tuple[Any, ...],
             kwargs: dict[str, Any]) -> tuple[list[Any], list[Any], TreeSpec, int]:
    """Leaves of the arguments with the batch in front, where it was, their structure, and the number of examples."""
    if not isinstance(in_dims, (int, tuple, list)):
        raise ArgumentError("vmap", f"in_dims={in_dims!r} for {name}", "in_dims is an int or a tuple, one per argument",
                            "pass for example (0, None)")
    if not args and not kwargs:
        raise ArgumentError("vmap", f"no arguments for {name}", "a batched function has arguments",
                            "pass batches, or call the function itself")
    leaves, spec = tree_flatten(args)
    given = in_dims if isinstance(in_dims, int) else tuple(in_dims)
    dims = broadcast_to_and_flatten(given, spec, lambda x: isinstance(x, _IS_DIM))
    if dims is None:
        raise ArgumentError("vmap", f"in_dims={in_dims!r} for arguments {spec!r} of {name}",
                            "in_dims has the structure of the arguments, or of a prefix", "pass one entry per argument")
    named, named_spec = tree_flatten(kwargs)
    dims += [0 if hasattr(x, "_key") else None for x in named]
    leaves = [_front(name, x, d) for x, d in zip([*leaves, *named], dims, strict=True)]
    sizes = [int(x.shape[0]) for x, d in zip(leaves, dims, strict=True) if d is not None]
    if not sizes:
        raise ArgumentError("vmap", f"in_dims={in_dims!r} for {name}", "at least one argument is batched",
                            "pass the dimension that counts examples")
    if len(set(sizes)) > 1:
        raise ArgumentError("vmap", f"batched dimensions of sizes {sizes} for {name}",
                            "all batched arguments have as many examples", "check in_dims")
    return leaves, dims, TreeSpec(tuple, None, (spec, named_spec)), sizes[0]


def _front(name: str, value: Any, dim: Any) -> Any:
    """An argument with its batch in front."""
    if dim is None:
        return value
    if not isinstance(dim, int):
        raise ArgumentError("vmap", f"in_dim {dim!r} for {name}", "an in_dim is an int or None", "pass one of these")
    if not hasattr(value, "_key"):
        raise ArgumentError("vmap", f"in_dim {dim} for an argument of type {type(value).__name__} of {name}",
                            "only tensors are batched", "pass None for other arguments")
    if not -value.ndim <= dim < value.ndim:
        raise ArgumentError("vmap", f"in_dim {dim} for a {value.ndim}-dimensional argument of {name}",
                            f"an in_dim lies between {-value.ndim} and {value.ndim - 1}", "pass a dim of the tensor")
    return value if dim == 0 or dim == -value.ndim else value.movedim(dim, 0)


def _run(name: str, func: Callable[..., Any], leaves: list[Any], dims: list[Any], spec: TreeSpec, size: int,
         out_dims: Any, randomness: str) -> Any:
    transform = Batching("vmap", size, randomness)
    with transform:
        args, kwargs = tree_unflatten([x if d is None else transform.wrap(x)
                                       for x, d in zip(leaves, dims, strict=True)], spec)
        result = func(*args, **kwargs)
    outputs, out_spec = tree_flatten(result)
    wanted = _out_dims(name, out_dims, out_spec)
    return tree_unflatten([_output(name, transform, x, d) for x, d in zip(outputs, wanted, strict=True)], out_spec)


def _out_dims(name: str, out_dims: Any, spec: TreeSpec) -> list[Any]:
    if spec.is_leaf() and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    dims = broadcast_to_and_flatten(out_dims, spec, lambda x: isinstance(x, _IS_DIM))
    if dims is None and isinstance(out_dims, (tuple, list)):
        # As PyTorch does, a list stands for a tuple here and the other way round.
        other = tuple(out_dims) if isinstance(out_dims, list) else list(out_dims)
        dims = broadcast_to_and_flatten(other, spec, lambda x: isinstance(x, _IS_DIM))
    if dims is None or not all(isinstance(d, _IS_DIM) for d in dims):
        raise ArgumentError("vmap", f"out_dims={out_dims!r} for results {spec!r} of {name}",
                            "out_dims are ints or None in the structure of the result, or of a prefix",
                            "pass one entry per result")
    return dims


def _output(name: str, transform: Batching, value: Any, dim: Any) -> Any:
    """A result with its batch where it is wanted."""
    if dim is None:
        if hasattr(value, "_key") and transform.owns(value):
            raise ArgumentError("vmap", f"out_dim None for a batched result of {name}",
                                "only results that all examples share have none", "pass a dimension")
        return value
    if not hasattr(value, "_key"):
        raise ArgumentError("vmap", f"a result of type {type(value).__name__} of {name}",
                            "batched functions return tensors", "return a tensor, or pass out_dims=None for it")
    if transform.owns(value):
        value = value._value
    else:
        value = value.expand((transform.batch_size, *value.shape))
    if not -value.ndim <= dim < value.ndim:
        raise DimensionError("vmap", f"out_dim {dim} for a result of {value.ndim} dimensions of {name}",
                             f"an out_dim lies between {-value.ndim} and {value.ndim - 1}", "pass a dim of the result")
    return value if dim == 0 else value.movedim(0, dim)


def _in_chunks(name: str, func: Callable[..., Any], batch: tuple[list[Any], list[Any], TreeSpec, int], out_dims: Any,
               randomness: str, chunk_size: int) -> Any:
    leaves, dims, spec, size = batch
    parts: list[list[Any]] = []
    out_spec = spec
    for start in range(0, size, chunk_size):
        count = min(chunk_size, size - start)
        chunk = [x if d is None else x.narrow(0, start, count) for x, d in zip(leaves, dims, strict=True)]
        outputs, out_spec = tree_flatten(_run(name, func, chunk, dims, spec, count, out_dims, randomness))
        parts.append(outputs)
    wanted = _out_dims(name, out_dims, out_spec)
    joined = [column[0] if dim is None else functions.cat(list(column), dim)
              for column, dim in zip(zip(*parts, strict=True), wanted, strict=True)]
    return tree_unflatten(joined, out_spec)


# Gradients for many cotangents at once are a batch of backward passes.
BATCHED.append(vmap)
