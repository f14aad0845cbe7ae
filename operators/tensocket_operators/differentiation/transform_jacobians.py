"""Jacobians by one batch of pullbacks or pushforwards, and Hessians by both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_core.dispatch.modes import untransformed
from tensocket_core.pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from tensocket_core.transforms.arguments import check_real, chosen, picked, replaced
from tensocket_core.transforms.forward import check_tangent, push_forward
from tensocket_core.transforms.reverse import pull_back
from tensocket_core.transforms.vmap import vmap
from tensocket_plugins.contract.errors import ArgumentError, AutogradError

from ..creation import eye


def _units(tensor: Any) -> Any:
    """Return the unit tensors of a shape, which are 1 at one position and 0 elsewhere, stacked."""
    count = tensor.numel()
    with untransformed():
        return eye(count, dtype=tensor.dtype, device=tensor.device).reshape((count, *tensor.shape))


def jacrev(func: Callable[..., Any], argnums: Any = 0, *, has_aux: bool = False,
           chunk_size: int | None = None) -> Callable[..., Any]:
    """Return a function that returns the Jacobian of ``func`` in reverse mode: one pullback per element of the result.

    Args:
        func: A function of trees of tensors that returns a tree of tensors.
        argnums: Position of the argument to differentiate, or a tuple of positions.
        has_aux: Whether ``func`` returns a pair: the value to differentiate, and an auxiliary value to return as well.
        chunk_size: Pullbacks per batch; None for all.

    Returns:
        A function of the same arguments. It returns the structure of the result, with the structure of the
        differentiated arguments in place of each tensor of shape R, and a tensor of shape [*R, *X] for each argument of
        shape X.

    >>> import tensocket_core as tc
    >>> jacrev(lambda x: x ** 2)(tc.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    if chunk_size is not None and chunk_size <= 0:
        raise ArgumentError("jacrev", f"chunk_size={chunk_size!r}", "jacrev: `chunk_size` should be greater than 0.",
                            "pass a positive number, or None")

    def compute(*args: Any, **kwargs: Any) -> Any:
        check_real("jacrev", "inputs", args)
        result, pull, aux = pull_back("jacrev", func, args, argnums, has_aux, kwargs)
        check_real("jacrev", "outputs", result)
        outputs, spec = tree_flatten(result)

        def block(index: int, output: Any) -> Any:
            rows = vmap(lambda row: pull.of(index, row), chunk_size=chunk_size)(_units(output))
            return tree_map(lambda g: g.reshape((*output.shape, *g.shape[1:])), rows)

        jacobian = tree_unflatten([block(k, output) for k, output in enumerate(outputs)], spec)
        return (jacobian, aux) if has_aux else jacobian

    return compute


def jacfwd(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, *, randomness: str = "error",
           chunk_size: int | None = None) -> Callable[..., Any]:
    """Return a function that returns the Jacobian of ``func`` in forward mode: one pushforward per argument element.

    Args:
        func: A function of trees of tensors that returns a tree of tensors.
        argnums: Position of the argument to differentiate, or a tuple of positions.
        has_aux: Whether ``func`` returns a pair: the value to differentiate, and an auxiliary value to return as well.
        randomness: Behaviour of draws in ``func``; see ``vmap``.
        chunk_size: Pushforwards per batch; None for all.

    Returns:
        A function like that of ``jacrev``.
    """

    def compute(*args: Any) -> Any:
        chosen("jacfwd", args, argnums)
        check_real("jacfwd", "inputs", args)
        leaves, spec = tree_flatten(picked(args, argnums))
        slots = [object() for _ in leaves]
        # The level wraps the other arguments as well, so that the function may modify them.
        places = tree_leaves(replaced(args, argnums, tree_unflatten(slots, spec)))
        seen: list[Any] = []

        def direction(k: int, tangent: Any) -> Any:
            directions = [tangent if place is slots[k] else None for place in places]
            _, derivative, aux = push_forward("jacfwd", func, args, directions, has_aux)
            check_real("jacfwd", "outputs", derivative)
            flat, out_spec = tree_flatten(derivative)
            seen[:] = [out_spec, aux]
            return flat

        def columns(k: int, leaf: Any) -> list[Any]:
            made = vmap(lambda t: direction(k, t), out_dims=-1, randomness=randomness, chunk_size=chunk_size)(
                _units(leaf))
            return [g.reshape((*g.shape[:-1], *leaf.shape)) for g in made]

        blocks = [columns(k, leaf) for k, leaf in enumerate(leaves)]
        if not blocks:
            raise AutogradError("jacfwd", "arguments without tensors", "what is differentiated is a tensor",
                                "choose other argnums")
        jacobian = tree_unflatten([tree_unflatten(row, spec) for row in zip(*blocks, strict=True)], seen[0])
        return (jacobian, seen[1]) if has_aux else jacobian

    return compute


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """Return a function that returns second derivatives of ``func``: forward over reverse mode.

    Args:
        func: A function of trees of tensors that returns a tree of tensors.
        argnums: Position of the argument to differentiate, or a tuple of positions.

    >>> import tensocket_core as tc
    >>> hessian(lambda x: (x ** 3).sum())(tc.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Return the value of a function and its linear part there, which does not run the function again.

    Args:
        func: A function of trees of tensors that returns a tree of floating-point tensors.
        primals: The arguments at which to linearize.

    Returns:
        The result, and a function of a direction (one tree per primal) that returns the derivative in this direction.
    """
    result, pull, _ = pull_back("linearize", func, primals, None, False)
    leaves, spec = tree_flatten(primals)
    zeros = tree_map(lambda x: x.new_zeros(tuple(x.shape)), result)
    _, push, _ = pull_back("linearize", pull, (zeros,), None, False)

    def directional(*tangents: Any) -> Any:
        given, other = tree_flatten(tangents)
        if other != spec:
            raise AutogradError("linearize", f"tangents {other.brief()} for primals {spec.brief()}",
                                "tangents have the structure of the primals", "pass one tangent per primal")
        for primal, tangent in zip(leaves, given, strict=True):
            check_tangent("linearize", primal, tangent)
        return push(tangents)[0]

    return result, directional
