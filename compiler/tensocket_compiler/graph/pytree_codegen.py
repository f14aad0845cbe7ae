"""Generated code of functions whose arguments and results are trees: lists, dicts and registered classes."""

from __future__ import annotations

from typing import Any, NamedTuple

from tensocket_core.pytree import TreeSpec, tree_flatten, tree_unflatten

from .codegen import CodeGen


class PyTreeInfo(NamedTuple):
    """The trees of a function.

    Attributes:
        orig_args: Names of the parameters.
        in_spec: Structure of the arguments, ``(args, kwargs)`` if some are passed by keyword.
        out_spec: Structure of the result; None if it is returned as it is.
    """

    orig_args: list[str]
    in_spec: TreeSpec
    out_spec: TreeSpec | None


class PyTreeCodeGen(CodeGen):
    """Generates a function that takes its arguments apart into placeholders, and puts its result together.

    The function reads the structures from ``self._in_spec`` and ``self._out_spec``.
    """

    def __init__(self, pytree_info: PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info: Any = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        """Return the leaves of the arguments."""
        return tree_flatten(inputs)[0]

    def process_outputs(self, out: Any) -> Any:
        """Return the result, put together from a list of its leaves."""
        if not self.pytree_info or self.pytree_info.out_spec is None:
            return out
        leaves = out if isinstance(out, (list, tuple)) else [out]
        return tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return the first lines of the function, with the statement that takes the arguments apart."""
        if self.pytree_info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation, expanded_def=expanded_def)
        given = list(self.pytree_info.orig_args)
        takes_self = given[:1] == ["self"]
        head = super().gen_fn_def(given, maybe_return_annotation, expanded_def=expanded_def)
        if takes_self:
            free_vars = ["self", *free_vars]
        return head + self.gen_var_bindings(given, free_vars, expanded_def) if free_vars else head

    def gen_var_bindings(self, fn_args: list[str], free_vars: list[str], expanded_def: bool) -> str:
        """Return the statements that bind the placeholders."""
        names = [text.partition(":")[0].partition("#")[0].partition("=")[0].strip() for text in free_vars]
        annotated = [text.partition("=")[0].partition("#")[0].strip() for text in free_vars if ":" in text]
        notes = f"\n    {'; '.join(annotated)}" if annotated else ""
        return f"{notes}\n    {', '.join(names)}, = fx_pytree.tree_flatten_spec({self._given(fn_args)}, self._in_spec)"

    def _given(self, names: list[str]) -> str:
        spec = self.pytree_info.in_spec
        children = spec.children()
        takes_keywords = (spec.type is tuple and len(children) == 2 and children[0].type is tuple
                          and children[1].type is dict)
        if not takes_keywords:
            return f"[{', '.join(names)}]"
        count = children[0].num_children
        keywords = ", ".join(f"'{key}': {key}" for key in children[1].context)
        return f"([{', '.join(names[:count])}], {{{keywords}}})"

    def generate_output(self, output_args: Any) -> str:
        """Return the statement that puts the result together and returns it."""
        if not self.pytree_info or self.pytree_info.out_spec is None:
            return super().generate_output(output_args)
        return f"return pytree.tree_unflatten({self._text_of(output_args)}, self._out_spec)"
