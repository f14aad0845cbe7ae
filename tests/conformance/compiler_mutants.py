"""Defects of the compiler, each a change of the source of one function, and the case of T5 that finds it."""

# ruff: noqa: E501
from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
import textwrap
from typing import Any, NamedTuple

import tensocket_compiler


class Mutant(NamedTuple):
    """A defect.

    Attributes:
        place: Module below ``tensocket_compiler`` and function, such as ``passes.unused:remove_unused``.
        old: A part of the function's source.
        new: What stands there instead.
        case: The name of the program that finds it.
    """

    place: str
    old: str
    new: str
    case: str


def plant(monkeypatch: Any, mutant: Mutant) -> None:
    """Let a function, wherever the compiler refers to it, have the source of a mutant."""
    for each in pkgutil.walk_packages(tensocket_compiler.__path__, "tensocket_compiler."):
        importlib.import_module(each.name)  # one that is imported later would keep the mutant
    module_name, _, path = mutant.place.partition(":")
    module = importlib.import_module(f"tensocket_compiler.{module_name}")
    *owners, name = path.split(".")
    owner: Any = module
    for each in owners:
        owner = vars(owner)[each]
    held = vars(owner)[name]
    function = held.fget if isinstance(held, property) else getattr(held, "__func__", held)
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    assert source.count(mutant.old) == 1, f"{mutant.place} has {source.count(mutant.old)} times {mutant.old!r}"
    source = source.replace(mutant.old, mutant.new)
    scope: dict[str, Any] = {}
    code = compile(f"from __future__ import annotations\n{source}", f"<mutant of {mutant.place}>", "exec")
    exec(code, module.__dict__, scope)
    changed = scope[name]
    if owner is not module:
        monkeypatch.setattr(owner, name, changed)
        return
    for other in list(sys.modules.values()):
        if str(getattr(other, "__name__", "")).startswith("tensocket_compiler") and vars(other).get(name) is held:
            monkeypatch.setattr(other, name, changed)
    for table in [table for table in vars(importlib.import_module("tensocket_compiler.passes.pipeline")).values()
                  if type(table) is dict and table.get(name) is held]:
        monkeypatch.setitem(table, name, changed)


#: Defects by area.
MUTANTS: dict[str, list[Mutant]] = {
    "guards": [
        Mutant("calls.variant:Variant.fits", "tensors is None or not (self.guards.check() or (has_own_builtins() and self.guards.changed() is None))", "tensors is None", "values_read"),
        Mutant("capture.words:is_same", "if kind is not type(new):\n        return False", "if kind is not type(new):\n        return bool(old == new)", "dtype_of_numbers"),
        Mutant("capture.words:is_same", "return old == old and repr(old) == repr(new)", "return bool(old == new)", "numbers_of_python"),
        Mutant("capture.words:ListPart.words", "for k in range(list.__len__(self.owner))", "for k in range(0)", "values_read"),
        Mutant("capture.words:ListPart.words", "(0, place + at.length), (0, place + at.items)", "(0, place + at.items), (0, place + at.items)", "tensors_in_a_list"),
        Mutant("capture.words:_Table.words", "yield 0, id(table) + at.version\n", "yield 0, id(table) + at.keys\n", "values_read"),
        Mutant("capture.words:CellPart.words", "yield 0, id(self.owner) + layout().content", "yield from ()", "values_read"),
        Mutant("capture.object_words:FunctionPart.words", "[at.code, at.defaults, at.kwdefaults]", "[at.code, at.kwdefaults]", "values_read"),
        Mutant("capture.object_words:ClassPart.words", "yield 0, id(self.owner) + layout().type_version", "yield from ()", "values_read"),
        Mutant("capture.object_words:TensorPart.words", "if TENSOR_SLOTS[name] not in self.cut", "if name != \"_array\" and TENSOR_SLOTS[name] not in self.cut", "tensors_replaced"),
        Mutant("capture.state:state_parts", "parts: list[Part] = []", "parts: list[Part] = []\n    return parts", "modes"),
        Mutant("capture.walk:Walk.visit_attributes", "self.push_all(self.watch(NamesPart(space, path, self.whole)), path)", "pass", "values_read"),
        Mutant("capture.walk:Walk.visit_dict", "self.push(pair[1], path + label)", "pass", "sgd"),
        Mutant("capture.guards:Guards.changed", "if found is not None:\n            return found", "if found is not None:\n            continue", "values_read"),
        Mutant("capture.pure:is_pure", "owner = getattr(function, \"__self__\", None)", "return True", "numbers_of_python"),
    ],
    "arguments": [
        Mutant("calls.signature:_form", "array.strides, ", "", "arguments_change"),
        Mutant("calls.signature:_form", "x._key, ", "", "arguments_with_graphs"),
        Mutant("calls.signature:_form", "array.dtype, array.shape, array.strides, x._grad_fn is None", "array.dtype, array.shape, array.strides", "arguments_with_graphs"),
        Mutant("calls.signature:Signature.matches", "type(x) is not type(value) or x != value", "x != value", "arguments_change"),
        Mutant("calls.signature:Signature.matches", "type(x) is not type(value) or x != value", "type(x) is not type(value)", "arguments_change"),
        Mutant("calls.signature:Signature._apart", "spans = []\n", "return True\n", "arguments_share"),
        Mutant("capture.arguments:ArgumentGuard._shares_as_before", "if not self.aliases:", "if True:\n        return True\n    if not self.aliases:", "identity_of_tensors"),
        Mutant("capture.arguments:ArgumentGuard.matches", "is_same_form(items[count][1], value, self.exact)", "type(items[count][1]) is type(value)", "arguments_change"),
    ],
    "recorder": [
        Mutant("capture.recorder:Recorder._note_versions", "if counter is not None and counter[0] != version:", "if False:", "buffer_written"),
        Mutant("capture.recorder:Recorder.note_read", "self.recording.reasons.append", "str", "elements_read"),
        Mutant("capture.recorder:Recorder.note_range", "self.recording.ranges.append(", "str(", "gathers"),
        Mutant("capture.recorder:Recorder.make_writable", "if factory is not None:", "if False:", "modes"),
        Mutant("capture.recorder:Recorder.make_writable", "operations.insert(at, factory)", "operations.append(factory)", "constants"),
        Mutant("capture.recorder:Recorder._record", "region.buffer.changed |= bool(mutated)", "pass", "constants"),
        Mutant("calls.variant:Variant.fits", "if not _inside(_readable(tensors[position]) if array is None else array, known):", "if False:", "gathers"),
    ],
    "passes": [
        Mutant("passes.unused:remove_unused", "x.buffer in needed or x.buffer.kind == \"input\"", "x.buffer in needed", "module_state"),
        Mutant("passes.unused:remove_unused", "if is_pure(operation) and not", "if not", "repeated_expressions"),
        Mutant("passes.unused:remove_unused", "(*operation.reads, *operation.number_reads)", "operation.reads[:1]", "tensors_replaced"),
        Mutant("passes.common:Values.note_writes", "for region in operation.writes:", "for region in ():", "repeated_expressions"),
        Mutant("passes.common:remove_common", "if is_repeatable(operation) and buffers <= single:", "if is_repeatable(operation):", "repeated_expressions"),
        Mutant("passes.common:remove_common", "if earlier is not operation and fixed.isdisjoint(buffers):", "if earlier is not operation:", "values_read"),
        Mutant("passes.common:_key", "values.key(operation.args),", "", "tensors_in_a_list"),
        Mutant("passes.constants:_can_keep", "not made.buffer.changed and ", "", "constants"),
        Mutant("passes.constants:_number_of", " and bool((elements == elements.flat[0]).all())", "", "constants"),
        Mutant("passes.constants:_make_constant", "buffer.array = row_major(buffer.array).copy()", "buffer.array = row_major(buffer.array) * 0", "sgd"),
        Mutant("passes.identities:remove_identities", " and written.get(same.buffer, -1) < number", "", "identities"),
        Mutant("passes.identities:remove_identities", "operation.results[0].buffer in movable and ", "", "values_read"),
        Mutant("passes.identities:_is_one", "type(value) in (int, float) and value == 1", "type(value) in (int, float)", "module_state"),
        Mutant("passes.copies:remove_copies", "uses[source.buffer] != 2 or ", "", "equal_gradients"),
        Mutant("passes.copies:remove_copies", "(_transposed(second), _transposed(first))", "(_transposed(first), _transposed(second))", "module_state"),
        Mutant("passes.numbers_first:_with_ancestors", "pending += [*dependencies[one].reads, *[x for x, _ in dependencies[one].overwrites]]", "pass", "adam"),
        Mutant("passes.moves:find_single_writes", "if writes[x] == 1 and", "if", "repeated_expressions"),
    ],
    "schedule": [
        Mutant("schedule.dependencies:find_dependencies", "one.overwrites += ", "_ = ", "shifts"),
        Mutant("schedule.dependencies:find_dependencies", "one.reads += [x[0] for x in last]", "pass", "sgd"),
        Mutant("schedule.dependencies:find_dependencies", "if raising is not None and changes_inputs(operation):", "if False:", "errors"),
        Mutant("schedule.dependencies:may_raise", "return divides and bool(operation.device.runtime.profile.host_resident)", "return False", "errors"),
        Mutant("schedule.groups:_Planner.add", "least = max(behind, default=0)", "least = 0", "sgd"),
        Mutant("schedule.groups:_Planner._is_local", "depends = self._dependencies[operation]", "return True", "views_captured"),
        Mutant("schedule.groups:_same", "x.buffer is not y.buffer or x.offset != y.offset or", "x.buffer is not y.buffer or", "shifts"),
        Mutant("schedule.groups:_same", "strides is not None and strides == strides_along(y, over_y, outer, last)", "True", "shifts"),
        Mutant("schedule.forms:_fold", "if record.numbers or record.fold.relative or record.fold.positions or not (\n            last or (dim in (None, []) and rank == 1)):", "if record.numbers or record.fold.relative or record.fold.positions:", "module_state"),
        Mutant("schedule.kernels:KernelBuilder.number", "self._numbers[key] = x,", "self._numbers[key] = 1.5,", "values_read"),
        Mutant("schedule.kernels:KernelBuilder._add_gather", "cast(at(j), self._index) * step", "cast(at(j), self._index)", "gathers"),
        Mutant("schedule.kernels:_rounded", "cast(cast(value, dtype), arithmetic_dtype(dtype))", "cast(value, arithmetic_dtype(dtype)) * 1.0009765625 if dtype.kind == \"float\" else cast(value, arithmetic_dtype(dtype))", "values_read"),
    ],
    "execute": [
        Mutant("memory.plan:plan_memory", "if lifetimes[x][1] >= lifetimes[number][0]", "if lifetimes[x][1] > lifetimes[number][0]", "losses"),
        Mutant("memory.plan:plan_memory", "at = max(at, offsets[other] + _aligned(sizes[other]))", "pass", "module_state"),
        Mutant("memory.plan:last_uses", "(found.get(number, (step, step))[0], step)", "found.get(number, (step, step))", "sgd"),
        Mutant("execute.runner:Runner._restored", "x.copy_(contents)", "pass", "module_state"),
        Mutant("execute.runner:stored_regions", "region.buffer.kind != \"temporary\" or ", "", "module_state"),
        Mutant("execute.runner:stored_regions", "(operation, k) in needed or ", "", "tensors_replaced"),
        Mutant("execute.runner:Runner._frame", "memory[number] = allocate()", "memory[number] = self.__dict__.setdefault(\"kept\", {}).setdefault(number, allocate())", "buffer_replaced"),
        Mutant("execute.runner:Runner.assemble", "if calls is None or not builder.fits(group.device, numbers):", "if calls is None:", "adam"),
        Mutant("execute.runner:Runner._record", "and not may_raise(operation)", "and True", "errors"),
        Mutant("execute.tapes:TapeBuilder.add", "if isinstance(number, SymFloat):", "if False:", "adam"),
        Mutant("execute.tapes:TapeBuilder.finish", "if handle is not None and id(handle) in used and layout.changes(layout.region(number))", "if handle is not None and id(handle) in used and layout.changes(layout.region(number)) and number", "values_read"),
        Mutant("execute.frames:moved", "offset // home.dtype.itemsize", "0", "constants"),
    ],
    "gradients": [
        Mutant("calls.backward:Backward.attach", "held = [*[arrays[k] for k in self._from_results], *arrays[self._count:]", "held = [*arrays[self._count:], *[arrays[k] for k in self._from_results]", "broadcast_gradients"),
        Mutant("calls.backward:Backward.attach", "saved = [*self._captured, *read, *[made[k] for k in self._from_results]]", "saved = []", "changes_before_backward"),
        Mutant("calls.backward:Backward.attach", "[*self._captured, *read, *[made", "[*read, *[made", "changes_before_backward"),
        Mutant("calls.backward:Backward.attach", "saved = [*self._captured, *read, *[made[k] for k in self._from_results]]", "saved = [*self._captured, *read]", "changes_before_backward"),
        Mutant("calls.backward:Backward.attach", "attach_node([made[k] for k in self._live], leaves,", "attach_node([made[k] for k in self._live], leaves[::-1],", "module_state"),
        Mutant("calls.backward:Backward._run", "zip(gradients, self._cotangents, strict=True)", "zip([*gradients][:1] * len(gradients), self._cotangents, strict=True)", "several_outputs"),
        Mutant("calls.backward:_dense", "return array", "return np.ones_like(array)", "tensors_replaced"),
        Mutant("autograd.node:CompiledNode.apply_plain", "self.unpack(False)", "pass", "changes_before_backward"),
        Mutant("autograd.node:CompiledNode.apply", "if not differentiable:", "if True:", "gradients_of_gradients"),
        Mutant("autograd.joint:is_live", "return bool(tensor._key & AUTOGRAD) and", "return False and", "module_state"),
        Mutant("calls.again:Again.__call__", "world.restore(before)", "pass", "gradients_of_gradients"),
    ],
    "results": [
        Mutant("capture.options:OptionPlace.content", "self._array[...] = value", "self._array.any() or self._array.fill(value)", "rates"),
        Mutant("calls.variant:Variant.__call__", "if self.apart and completely:", "if False:", "rates"),
        Mutant("calls.check:check_call", "variant(tensors, completely=False)", "variant(tensors)", "rates"),
        Mutant("capture.options:OptionReads.number_at", "return place.numbers(self._number)", "return table[key]", "rates"),
        Mutant("calls.results:Results._maker", "return lambda arguments, arrays, made: arguments[position]", "return lambda arguments, arrays, made: arguments[0]", "results"),
        Mutant("calls.results:Results._maker", "position = self._arguments.get(id(leaf))", "position = None", "several_outputs"),
        Mutant("calls.results:_view_maker", "captured if position is None else arguments[position]", "captured if position is None else arguments[0].clone()", "views"),
        Mutant("calls.results:_view_maker", "made._fixed_view = mark", "pass", "views"),
        Mutant("calls.variant:Variant.__call__", "counter[0] += increase", "pass", "module_state"),
        Mutant("calls.variant:Variant.__call__", "slot.assign(arrays, slot.position in memory, made)", "pass", "buffer_replaced"),
        Mutant("calls.effects:Slot.memory", "if _references(tensor) != _HELD + 1 or", "if", "sgd"),
        Mutant("calls.raising:has_raising", "if any(changes_inputs(operation) for operation in operations[:max(last, 0)]):", "if False:", "errors"),
        Mutant("calls.raising:run_or_repeat", "restore_positions(began)", "pass", "errors"),
        Mutant("calls.function:_give", "each.again()", "pass", "warnings"),
        Mutant("calls.table:Table.find", "tensors = None if variant is last else variant.fits(args, kwargs)", "tensors = variant._matches(args, kwargs)", "values_read"),
        Mutant("calls.table:Table.find", "tensors = last.fits(args, kwargs)", "tensors = [x for x in args if hasattr(x, '_key')]", "values_read"),
    ],
}
