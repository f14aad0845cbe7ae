"""Elements and parts of values of scripts: reading, and writing."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Final

from tensocket.jit.compiler.sugared import SliceValue, Sugared, SugaredDict, SugaredTuple, Zipped
from tensocket.jit.frontend import Place, ScriptError
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.ir import Value

if TYPE_CHECKING:
    from tensocket.jit.compiler.compiler import Compiler

#: The end of a slice without one.
_END: Final = 9223372036854775807


class Indexing:
    """The compiler's methods for elements."""

    def items_of(self: Compiler, thing: Any, place: Place, count: int | None = None) -> list[Any] | None:
        """Return the elements of a value whose length the compiler knows; None for others.

        Args:
            thing: The value.
            place: Where it is used.
            count: The number that the program expects of a list, if it unpacks one.
        """
        if isinstance(thing, Sugared):
            return thing.items(self, place)
        kind = thing.kind
        if isinstance(kind, t.TupleType):
            if thing.owner.op == "prim::TupleConstruct":
                return list(thing.owner.inputs_)
            made = self.add("prim::TupleUnpack", [thing], place)
            return [made.add_output(item) for item in kind.items]
        if isinstance(kind, t.ClassType) and kind.details is not None:
            return self.module_items(thing, place)
        if count is not None and (isinstance(kind, t.ListType) or kind is t.TENSOR):
            made = self.add("prim::ListUnpack", [thing], place)
            return [made.add_output(kind.element if isinstance(kind, t.ListType) else t.TENSOR) for _ in range(count)]
        return None

    def subscript(self: Compiler, node: ast.Subscript) -> Any:
        """Compile ``value[...]``."""
        place = self.place(node)
        owner = self.expression(node.value)
        if isinstance(owner, (SugaredTuple, Zipped)):
            return self._of_known(owner.items(self, place) or [], node.slice, place)
        if isinstance(owner, SugaredDict):
            wanted = self.value(self.expression(node.slice), place).toIValue()
            return owner.values[[key.toIValue() for key in owner.keys].index(wanted)]
        if isinstance(owner, Sugared):
            owner = self.value(owner, place) if not hasattr(owner, "subscript") else owner
        if isinstance(owner.kind, t.ClassType):
            return self._of_object(owner, node.slice, place)
        if owner.kind is t.TENSOR:
            return self._of_tensor(owner, node.slice, place)
        if isinstance(node.slice, ast.Slice):
            return self._part(owner, node.slice, place)
        index = self.expression(node.slice)
        if isinstance(index, SliceValue):
            return self._part(owner, index, place)
        return self.index(owner, self.value(index, place), place)

    def _of_object(self: Compiler, owner: Value, index: ast.expr, place: Place) -> Any:
        assert isinstance(owner.kind, t.ClassType)
        if owner.kind.details is not None and owner.kind.details.container:
            return self.container_item(owner, index, place)
        return self.call_method(owner, "__getitem__", [self.expression(index)], {}, place)

    def _of_known(self: Compiler, parts: list[Any], index: ast.expr, place: Place) -> Any:
        if isinstance(index, ast.Slice):
            return SugaredTuple(parts[slice(*(self.known_int(b, place) for b in (index.lower, index.upper,
                                                                                 index.step)))])
        position = self.known_int(index, place)
        if position is None or not -len(parts) <= position < len(parts):
            raise ScriptError(f"index {position} of {len(parts)} elements", "list index out of range", "use an index "
                              "below the length", place)
        return parts[position]

    def known_int(self: Compiler, node: ast.expr | None, place: Place) -> int | None:
        """Return an index that the compiler has to know.

        Raises:
            ScriptError: It is not a constant.
        """
        if node is None:
            return None
        value = self.value(self.expression(node), place).toIValue()
        if not isinstance(value, int):
            raise ScriptError(f"index {ast.unparse(node)}", "Expected integer literal for index: elements have several "
                              "types", "use a number, or loop over the modules", place)
        return value

    def index(self: Compiler, owner: Value, index: Value, place: Place) -> Value:
        """Return an element.

        Raises:
            ScriptError: The value has no elements, or the index is of the wrong type.
        """
        kind = owner.kind
        if isinstance(kind, t.TupleType):
            return self._of_tuple(owner, index, place)
        if isinstance(kind, t.DictType):
            key = self.convert(index, kind.key, place)
            if not t.is_subtype(key.kind, kind.key):
                raise ScriptError(f"a key of type {index.kind} for {kind}", "Arguments for call are not valid: keys "
                                  "are "
                                  "of the dict's type", "convert the key", place)
            return self.node("aten::__getitem__", [owner, key], kind.value, place)
        element = kind.element if isinstance(kind, t.ListType) else {t.STRING: t.STRING, t.TENSOR: t.TENSOR}.get(kind)
        if element is None:
            raise ScriptError(f"an index of a value of type {kind}", f"'{kind}' object is not subscriptable",
                              "index a list, tuple, dict, tensor or str", place)
        if kind is t.TENSOR:
            zero = self.constant(0, t.INT, place)
            return self.node("aten::select", [owner, zero, index], t.TENSOR, place)
        number = self.convert(index, t.INT, place)
        if number.kind not in (t.INT, t.BOOL, t.ANY):
            raise ScriptError(f"an index of type {index.kind}", "positions are int", "convert it with int()", place)
        return self.node("aten::__getitem__", [owner, number], element, place)

    def _of_tuple(self: Compiler, owner: Value, index: Value, place: Place) -> Value:
        assert isinstance(owner.kind, t.TupleType)
        items, position = owner.kind.items, index.toIValue()
        if isinstance(position, int):
            if not -len(items) <= position < len(items):
                raise ScriptError(f"index {position} of a tuple of {len(items)}", "Tuple index out of range",
                                  "use an index below the length", place)
            if owner.owner.op == "prim::TupleConstruct":
                return owner.owner.inputs_[position]
            return self.node("prim::TupleIndex", [owner, index], items[position], place)
        kind = t.unify_all(list(items)) if items else None
        if kind is None or index.kind is not t.INT:
            raise ScriptError(f"a tuple index of type {index.kind}", "tuple index must be a compile time constant: the "
                              "elements have several types", "use a number", place)
        return self.node("prim::TupleIndex", [owner, index], kind, place)

    def _part(self: Compiler, owner: Value, index: ast.Slice | SliceValue, place: Place) -> Any:
        """Return a slice of a list, tuple or str."""
        if isinstance(owner.kind, t.TupleType):
            bounds = ([v.toIValue() for v in index.bounds] if isinstance(index, SliceValue) else
                      [self.known_int(b, place) for b in (index.lower, index.upper, index.step)])
            return self.tuple_of([self.value(p, place) for p in (self.items_of(owner, place) or [])[slice(*bounds)]],
                                 place)
        if not (isinstance(owner.kind, t.ListType) or owner.kind is t.STRING):
            raise ScriptError(f"a slice of a value of type {owner.kind}", "slices are of lists, tuples, str and "
                              "tensors",
                              "index it", place)
        return self.node("aten::slice", [owner, *self._bounds(index, place)], owner.kind, place)

    def _bounds(self: Compiler, index: ast.Slice | SliceValue, place: Place) -> list[Value]:
        bounds = []
        if isinstance(index, SliceValue):
            step = index.bounds[2]
            return [*index.bounds[:2], self.constant(1, t.INT, place) if step.kind is t.NONE else step]
        for given, default in ((index.lower, None), (index.upper, None), (index.step, 1)):
            value = self.constant(default, None, place) if given is None else self.value(self.expression(given), place)
            value = self.convert(value, t.INT, place) if value.kind is not t.NONE else value
            if value.kind not in (t.INT, t.NONE) and not t.is_optional(value.kind):
                raise ScriptError(f"a slice with a bound of type {value.kind}", "bounds are int or None", "convert it",
                                  place)
            bounds.append(value)
        return bounds

    # ---- tensors

    def _of_tensor(self: Compiler, owner: Value, index: ast.expr, place: Place) -> Value:
        view, tensors = self._views(owner, index, place)
        if not tensors:
            return view
        return self.node("aten::index", [view, self._index_list(tensors, place)], t.TENSOR, place)

    def _index_list(self: Compiler, tensors: dict[int, Value], place: Place) -> Value:
        none = [tensors.get(k) or self.constant(None, t.NONE, place) for k in range(max(tensors) + 1)]
        return self.list_of(none, place, t.optional(t.TENSOR))

    def _views(self: Compiler, owner: Value, index: ast.expr, place: Place) -> tuple[Value, dict[int, Value]]:
        """Return the view that numbers, slices and None select, and the tensors that index its dimensions."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        expanded: list[Any] = []
        for part in parts:
            if isinstance(part, ast.Name) and part.id == "Ellipsis" and self.scope.find("Ellipsis") is None:
                part = ast.copy_location(ast.Constant(...), part)
            if isinstance(part, ast.Slice) or (isinstance(part, ast.Constant) and part.value is ...):
                expanded.append(part)
                continue
            value = self.expression(part)
            if isinstance(value, SugaredTuple) or (isinstance(value, Value) and isinstance(value.kind, t.TupleType)):
                expanded += self.items_of(value, place) or []
            else:
                expanded.append(value)
        dots = [k for k, part in enumerate(expanded) if isinstance(part, ast.Constant)]
        if len(dots) > 1:
            raise ScriptError("two ellipses", "An index can only have a single ellipsis ('...')", "keep one", place)
        return self._apply(owner, expanded, place)

    def _apply(self: Compiler, view: Value, parts: list[Any], place: Place) -> tuple[Value, dict[int, Value]]:
        dim, from_end = 0, False
        tensors: dict[int, Value] = {}
        for k, part in enumerate(parts):
            if isinstance(part, ast.Constant):  # an ellipsis: the rest counts from the end
                rest = [p for p in parts[k + 1:] if not (isinstance(p, Value) and p.kind is t.NONE)]
                dim, from_end = -len(rest), True
                continue
            place_of_dim = self.constant(dim, t.INT, place)
            if isinstance(part, (ast.Slice, SliceValue)):
                if isinstance(part,
                              SliceValue) or part.lower is not None or part.upper is not None or part.step is not None:
                    bounds = self._bounds(part, place)
                    view = self.node("aten::slice", [view, place_of_dim, *bounds], t.TENSOR, place)
                dim += 1
                continue
            value = self.value(part, place)
            if value.kind is t.NONE:
                at = dim - 1 if from_end else dim
                view = self.node("aten::unsqueeze", [view, self.constant(at, t.INT, place)], t.TENSOR, place)
                dim += 0 if from_end else 1
                tensors = {d - 1 if from_end and d < 0 else d: index for d, index in tensors.items()}
            elif value.kind is t.INT:
                view = self.node("aten::select", [view, place_of_dim, value], t.TENSOR, place)
                dim += 1 if from_end else 0
                tensors = {d + 1 if from_end and d < 0 else d: index for d, index in tensors.items()}
            else:
                tensors[dim] = self._as_index(value, place)
                dim += 1
        if tensors and min(tensors) < 0:
            return self._from_the_end(view, tensors, place), {}
        return view, tensors

    def _from_the_end(self: Compiler, view: Value, tensors: dict[int, Value], place: Place) -> Value:
        """Index dimensions that count from the end."""
        dims = self.constant(sorted(tensors), t.ListType(t.INT), place)
        parts = self.list_of([tensors[k] for k in sorted(tensors)], place, t.optional(t.TENSOR))
        return self.node("prim::index_last", [view, dims, parts], t.TENSOR, place)

    def _as_index(self: Compiler, value: Value, place: Place) -> Value:
        if value.kind in (t.TENSOR, t.BOOL) or value.kind == t.optional(t.TENSOR):
            if value.kind is t.BOOL:
                return self.node("prim::NumToTensor", [value], t.TENSOR, place)
            return value
        if (isinstance(value.kind, t.ListType) and value.kind.element in (t.INT, t.BOOL, t.FLOAT)) or \
                isinstance(value.kind, t.ListType):
            return self.node("aten::tensor", [value], t.TENSOR, place)
        raise ScriptError(f"an index of type {value.kind}", "Unsupported operation: indexing tensor with unsupported "
                          "index "
                          f"type '{value.kind}'. Only ints, slices, lists and tensors are supported", "use one of "
                          "these",
                          place)

    # ---- writing

    def set_item(self: Compiler, target: ast.Subscript, thing: Any, place: Place) -> None:
        """Compile ``value[...] = thing``."""
        owner = self.value(self.expression(target.value), place)
        if owner.kind is t.TENSOR:
            self._write_tensor(owner, target.slice, self.value(thing, place), place)
            return
        if isinstance(owner.kind, t.ClassType):
            self.call_method(owner, "__setitem__", [self.expression(target.slice), thing], {}, place)
            return
        value = self.value(thing, place)
        if isinstance(target.slice, ast.Slice):
            raise ScriptError("an assignment to a slice", "slices of lists are not assigned", "assign the elements",
                              place)
        index = self.value(self.expression(target.slice), place)
        if isinstance(owner.kind, t.ListType):
            sides = (t.INT, owner.kind.element)
        elif isinstance(owner.kind, t.DictType):
            sides = (owner.kind.key, owner.kind.value)
        else:
            raise ScriptError(f"an element of {owner.kind} as a target", f"'{owner.kind}' object does not support item "
                              "assignment", "assign to elements of lists, dicts and tensors", place)
        index, value = self.convert(index, sides[0], place), self.convert(value, sides[1], place)
        if not t.is_subtype(index.kind, sides[0]) or not t.is_subtype(value.kind, sides[1]):
            raise ScriptError(f"an element of type {value.kind} at an index of type {index.kind}", "Arguments for call "
                              f"are not valid: {owner.kind} takes {sides[1]} at {sides[0]}", "convert them", place)
        self.add("aten::_set_item", [owner, index, value], place)

    def _write_tensor(self: Compiler, owner: Value, index: ast.expr, value: Value, place: Place) -> None:
        view, tensors = self._views(owner, index, place)
        if tensors:
            if value.kind is not t.TENSOR:
                value = self.node("prim::tensor_like", [value, view], t.TENSOR, place)
            self.node("aten::index_put_", [view, self._index_list(tensors, place), value], t.TENSOR, place)
            return
        if value.kind is t.TENSOR:
            self.node("prim::assign_view", [view, value], t.TENSOR, place)
        else:
            self.node("aten::fill_", [view, value], t.TENSOR, place)

    def augment_item(self: Compiler, node: ast.AugAssign, name: str, place: Place) -> None:
        """Compile ``value[...] += other``."""
        target = node.target
        assert isinstance(target, ast.Subscript)
        owner = self.expression(target.value)
        if isinstance(owner, Value) and owner.kind is t.TENSOR:
            view, tensors = self._views(owner, target.slice, place)
            other = self.value(self.expression(node.value), place)
            if not tensors:
                self.inplace(view, name, other, place)
                return
            indices = self._index_list(tensors, place)
            before = self.node("aten::index", [view, indices], t.TENSOR, place)
            self.node("aten::index_put_", [view, indices, self.binary(name, before, other, place)], t.TENSOR, place)
            return
        before = self.subscript(ast.copy_location(ast.Subscript(target.value, target.slice, ast.Load()), target))
        self.set_item(target, self.binary(name, before, self.expression(node.value), place), place)
