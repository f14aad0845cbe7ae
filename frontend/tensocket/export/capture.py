"""Capturing a module: runs with several sizes, merged into one list of calls."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from tensocket.errors import ExportError
from tensocket_core.pytree import tree_flatten, tree_unflatten
from tensocket_operators import Tensor

from .dynamic_shapes import leaves_of
from .guards import ConstraintViolation, is_needed, reads_inputs_only, sizes_in_roots, specialized
from .merging import Merger
from .module_calls import ModuleCalls
from .recorder import Call, ExportRecorder, Run, Slot
from .sizes import Root, SizePlan
from .state import undone
from .symbols import COMPARISONS, Comparison, SizeOf, sizes_in, substitute


@dataclass(slots=True)
class Source:
    """A tensor that the module holds.

    Attributes:
        path: Its path.
        kind: ``p`` for parameters, ``b`` for buffers.
        tensor: The tensor.
        persistent: Whether it is in the state dict.
    """

    path: str
    kind: str
    tensor: Any
    persistent: bool | None = None


@dataclass(slots=True)
class Captured:
    """A captured module.

    Attributes:
        plan: The inputs and their sizes.
        sources: Parameters and buffers; the inputs follow them in the numbering of tensors.
        merger: The runs and the merged calls.
        leaves: The merged leaves of the result.
        assigned: Slots of the tensors that the run assigns to buffers, by path.
        guards: Comparisons of sizes of inputs that calls must check.
        asserts: Comparisons of other sizes, which are nodes of the graph.
        in_spec: Structure of the arguments.
        out_spec: Structure of the result.
        names: Names of the arguments.
    """

    plan: SizePlan
    sources: list[Source]
    merger: Merger
    leaves: list[Any]
    assigned: dict[str, Slot]
    guards: list[Comparison]
    asserts: list[Comparison]
    in_spec: Any
    out_spec: Any
    names: list[str]

    @property
    def calls(self) -> list[Call]:
        """The merged calls."""
        return self.merger.calls

    @property
    def run(self) -> Run:
        """The first run."""
        return self.merger.runs[0]

    def root_expression(self, size: SizeOf) -> Any:
        """Return the expression of an input's dynamic size in those of roots; None for other sizes."""
        return self.plan.sizes.get((size.tensor - len(self.sources), size.dim))


def capture(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any,
            modules: ModuleCalls | None = None, recorder: type[ExportRecorder] | Any = ExportRecorder) -> Captured:
    """Record a module.

    Args:
        module: The module.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        dynamic_shapes: As for ``export``.
        modules: Notes of the calls of modules; None if there are none.
        recorder: Makes the recorder of a run.

    Raises:
        ExportError: It has no graph that is right for all inputs.
    """
    arguments = named_arguments(module, args, kwargs)
    plan = SizePlan(leaves_of(arguments, dynamic_shapes))
    while True:
        try:
            return _captured(module, args, kwargs, plan, [name for name, _ in arguments], modules, recorder)
        except ConstraintViolation as error:
            hints = [root for root in error.roots if root.kind == "AUTO"]
            equal = [root for root in error.roots if root.kind == "DYNAMIC" and root.given == error.roots[0].given]
            if hints:
                plan.settle(hints)
            elif len(equal) > 1 and not equal[0].unified:
                plan.unify(equal)  # they must change together, but may change
            else:
                raise


def named_arguments(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the arguments with the names of parameters."""
    try:
        parameters = list(inspect.signature(module.forward).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    more = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
    named = list(zip(plain, args, strict=False))
    rest = args[len(plain):]
    return [*named, *([(more, rest)] if rest else []), *kwargs.items()]


def _captured(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], plan: SizePlan,
              names: list[str], modules: ModuleCalls | None, recorder: Any) -> Captured:
    sources = sources_of(module)
    in_spec = tree_flatten((args, kwargs))[1]
    base = plan.base()
    if modules is not None:
        modules.begin()
    runs = [_run(module, in_spec, plan, base, sources, recorder, modules)]
    for sizes in plan.others():
        try:
            runs.append(_run(module, in_spec, plan, sizes, sources, recorder))
        except ExportError:
            raise
        except Exception as error:
            raise _blame(module, in_spec, plan, sources, sizes, error) from error
    known = [SizeOf(len(sources) + at, k) for at, k in plan.sizes]
    merger = Merger(runs, known)
    made = Captured(plan, sources, merger, [], {}, [], [], in_spec, None, names)
    _sort_guards(made)
    merger.merge()
    flat = [tree_flatten(run.result) for run in runs]
    made.out_spec = flat[0][1]
    if any(spec != made.out_spec for _, spec in flat[1:]):
        raise ExportError("export", "a program whose result has another structure for other sizes",
                          "the structure of the result is the same in all calls", "return the same containers")
    made.leaves = [merger.result(list(values), "") for values in zip(*[leaves for leaves, _ in flat], strict=True)]
    made.assigned = dict(runs[0].assigned)
    return made


def sources_of(module: Any) -> list[Source]:
    """Return the parameters and buffers of a module, in PyTorch's order."""
    persistent = {name for path, m in module.named_modules(remove_duplicate=False)
                  for name in [f"{path}.{x}" if path else x for x in m._non_persistent_buffers_set]}
    found = [Source(path, "p", x) for path, x in module.named_parameters(remove_duplicate=False)]
    return found + [Source(path, "b", x, path not in persistent)
                    for path, x in module.named_buffers(remove_duplicate=False)]


def _run(module: Any, in_spec: Any, plan: SizePlan, sizes: dict[Root, int], sources: list[Source],
         make_recorder: Any = ExportRecorder, modules: ModuleCalls | None = None) -> Run:
    """Record one run, and undo what it does to the module; the first one notes calls of modules, too."""
    leaves = [_resized(leaf.value, plan.shape(at, sizes)) for at, leaf in enumerate(plan.leaves)]
    tensors = [source.tensor for source in sources]
    with undone(module) as state:
        inputs = [leaf if isinstance(leaf, Tensor) else None for leaf in leaves]
        recorder = make_recorder([*tensors, *inputs], len(tensors), state.preserve, symbolic=bool(plan.roots),
                                 traces=modules is not None, modules=modules)
        args, kwargs = tree_unflatten(leaves, in_spec)
        with recorder.recording():
            result = module(*args, **kwargs)
        run: Run = recorder.run
        leaves, spec = tree_flatten(result)
        run.mutated = recorder.mutations()
        assigned = state.assigned(recorder.has_used, warns=modules is not None)
        run.assigned = {path: recorder.slot(x) for path, x in assigned.items() if x is not None}
        _check_result(leaves)
        run.result = tree_unflatten([recorder.slot(x) if isinstance(x, Tensor) else x for x in leaves], spec)
    return run


def _check_result(leaves: list[Any]) -> None:
    for leaf in leaves:
        if not isinstance(leaf, (Tensor, bool, int, float, str, type(None))):
            raise ExportError("export", f"a program that returns a {type(leaf).__name__}", "results are tensors, "
                              "numbers, str, None, and containers of these", "register the class with "
                              "torch.export.register_dataclass or torch.utils._pytree.register_pytree_node")


def _resized(value: Any, shape: list[int]) -> Any:
    """Return a copy of an input with another shape; its elements are those of the input, repeated."""
    from tensocket import arange, no_grad

    if not isinstance(value, Tensor):
        return value
    with no_grad():
        made = value.detach()
        for k, (size, wanted) in enumerate(zip(value.shape, shape, strict=True)):
            if size == wanted:
                continue
            if not size:
                made = made.new_zeros([*made.shape[:k], wanted, *made.shape[k + 1:]])
            else:
                made = made.index_select(k, arange(wanted, device=made.device) % size)
        made = made.clone()
    return made.requires_grad_(value.requires_grad) if value.requires_grad else made


def _blame(module: Any, in_spec: Any, plan: SizePlan, sources: list[Source], sizes: dict[Root, int],
           error: Exception) -> ConstraintViolation:
    """Return the error for a program that fails for some sizes: find the sizes, one by one."""
    guilty = []
    for root in plan.roots:
        try:
            _run(module, in_spec, plan, {**plan.base(), root: sizes[root]}, sources)
        except Exception:
            guilty.append(root)
    guilty = guilty or list(plan.roots)
    given = (f"a program that fails for {', '.join([f'{root.label}={sizes[root]}' for root in guilty])} "
             f"({str(error).splitlines()[0] if str(error) else type(error).__name__})")
    same = [root for root in guilty if root.base == guilty[0].base]
    if len(guilty) > 1 and len(same) == len(guilty):
        try:
            _run(module, in_spec, plan, {**sizes, **dict.fromkeys(guilty, sizes[guilty[0]])}, sources)
        except Exception:
            return specialized(guilty, given)
        first, *rest = guilty
        others = ", ".join([f"{x.label} = {x.source}" for x in rest])
        return ConstraintViolation(
            guilty, given, f"The values of {others} and {first.label} = {first.source} must always be equal",
            "Suggested fixes: " + ", ".join([f"{x.label} = {first.label}" for x in rest]))
    return specialized(guilty, given)


def _sort_guards(made: Captured) -> None:
    """Find the comparisons of sizes that calls must check.

    Raises:
        ConstraintViolation: One does not hold for a part of the ranges.
    """
    table = {SizeOf(len(made.sources) + at, k): e for (at, k), e in made.plan.sizes.items()}
    for guard in made.run.notes.comparisons.values():
        left, right = made.merger.simplified(guard.left), made.merger.simplified(guard.right)
        plain = Comparison(guard.name, left, right, guard.place)
        if not [*sizes_in(left), *sizes_in(right)]:
            continue
        if reads_inputs_only(plain, table):
            rooted = Comparison(guard.name, substitute(left, table.__getitem__), substitute(right, table.__getitem__),
                                guard.place)
            if is_needed(rooted):
                _check_others(made, plain, sizes_in_roots(rooted.left) + sizes_in_roots(rooted.right))
                made.guards.append(rooted)
        else:
            _check_others(made, plain, list(made.plan.roots))
            made.asserts.append(plain)


def _check_others(made: Captured, guard: Comparison, roots: list[Root]) -> None:
    """Check that a comparison held in the runs with other sizes, too."""
    lefts, rights = made.merger.values_of(guard.left), made.merger.values_of(guard.right)
    if lefts is not None and rights is not None and not all(
            COMPARISONS[guard.name][0](a, b) for a, b in zip(lefts, rights, strict=True)):
        unique = list(dict.fromkeys(roots))
        if guard.name == "eq" and len(unique) == 2:
            one, other = unique
            raise ConstraintViolation(unique, f"a program that compares sizes{guard.place}",
                                      f"The values of {other.label} = {other.source} and {one.label} = {one.source} "
                                      "must always be equal", f"Suggested fixes: {other.label} = {one.label}")
        raise specialized(unique, f"a program that compares sizes{guard.place}")
