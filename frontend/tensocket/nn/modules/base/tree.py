"""Members of a module - parameters, buffers, submodules - and traversal of the tree that they form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Self, cast

from tensocket.errors import ArgumentError, ArgumentTypeError, MemberNameError, ModuleAttributeError
from tensocket.nn.parameter import Buffer, Parameter
from tensocket_operators import Tensor

from .hooks import GLOBAL_REGISTRATION, run_registration

if TYPE_CHECKING:
    from ..module import Module


class ModuleTree:
    """The container part of ``Module``: assigning a parameter, buffer or module to an attribute registers it."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _non_persistent_buffers_set: set[str]

    # ---- registering members

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None if this instance has no such parameter.

        Raises:
            MemberNameError: The name is taken, empty or has a dot.
            ArgumentTypeError: ``param`` is not a parameter.
            ArgumentError: ``param`` is the result of a differentiable computation.
        """
        self._check_new("parameter", name, "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise ArgumentTypeError("register_parameter", f"a {type(param).__name__} as {name!r}", "a parameter is a "
                                    "nn.Parameter or None", "wrap the tensor in nn.Parameter(...)")
        if param is not None and param.grad_fn is not None:
            raise ArgumentError("register_parameter", f"{name!r}, which was computed from other tensors", "a parameter "
                                "is a leaf of the gradient graph", "compute the value in forward() instead")
        self._parameters[name] = self._registered("_parameters", name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that belongs to the module's state but is not trained.

        Args:
            name: Its attribute name.
            tensor: Its value, or None if this instance has no such buffer.
            persistent: Whether it is part of ``state_dict``.

        Raises:
            MemberNameError: The name is taken, empty or has a dot.
            ArgumentTypeError: ``tensor`` is not a tensor.
        """
        self._check_new("buffer", name, "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise ArgumentTypeError("register_buffer", f"a {type(tensor).__name__} as {name!r}", "a buffer is a tensor "
                                    "or None", "convert the value with tensocket.tensor(...)")
        self._buffers[name] = self._registered("_buffers", name, tensor)
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule, reachable as the attribute ``name``.

        Raises:
            MemberNameError: The name is taken, empty or has a dot.
            ArgumentTypeError: ``module`` is not a module.
        """
        self._check_new("submodule", name, "_modules")
        self._hold_module(name, module)

    def _hold_module(self, name: str, module: Module | None) -> None:
        if module is not None and not isinstance(module, ModuleTree):
            raise ArgumentTypeError("add_module", f"a {type(module).__name__} as {name!r}", "a submodule is a "
                                    "nn.Module or None", "derive its class from nn.Module")
        self._modules[name] = self._registered("_modules", name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """Do the same as ``add_module``."""
        self.add_module(name, module)

    def _registered(self, table: str, name: str, value: Any) -> Any:
        return run_registration(table, self, name, value) if GLOBAL_REGISTRATION[table] else value

    def _check_name(self, kind: str, name: str) -> None:
        if "_parameters" not in self.__dict__:
            raise ModuleAttributeError(type(self).__name__, f"{kind} {name!r} before Module.__init__()", "members are "
                                       "registered in an initialised module", "call super().__init__() first")
        if not isinstance(name, str):
            raise ArgumentTypeError(type(self).__name__, f"{name!r} as name of a {kind}", "names are strings",
                                    "pass a string")
        if not name or "." in name:
            raise MemberNameError(type(self).__name__, f"{kind} {name!r}", "names are not empty and have no '.'",
                                  "choose another name")

    def _check_new(self, kind: str, name: str, table: str) -> None:
        self._check_name(kind, name)
        if name not in self.__dict__[table] and hasattr(self, name):
            raise MemberNameError(type(self).__name__, f"{kind} {name!r}", "an attribute of this name exists",
                                  "choose another name or delete the attribute first")

    # ---- attributes

    def __getattr__(self, name: str) -> Any:
        # Called only for names outside of __dict__ and the class. Parameters are first: every forward pass reads them.
        tables = self.__dict__
        if "_parameters" in tables:
            if name in (members := tables["_parameters"]):
                return members[name]
            if name in (members := tables["_modules"]):
                return members[name]
            if name in (members := tables["_buffers"]):
                return members[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (Parameter, ModuleTree, Buffer)):
            self._set_member(name, value)
            return
        tables = self.__dict__
        for table, kind, allowed in _SLOTS:
            members = tables.get(table)
            if members is not None and name in members:
                if value is not None and not isinstance(value, allowed):
                    raise ArgumentTypeError(type(self).__name__, f"a {type(value).__name__} as {kind} {name!r}",
                                            f"a {kind} is a {allowed.__name__} or None",
                                            f"assign a {allowed.__name__}, or delete the attribute first")
                members[name] = value
                return
        object.__setattr__(self, name, value)

    def _set_member(self, name: str, value: Parameter | ModuleTree | Buffer) -> None:
        table = "_modules" if isinstance(value, ModuleTree) else "_parameters"
        table = "_buffers" if isinstance(value, Buffer) else table
        for other in ("_parameters", "_buffers", "_modules"):
            if other != table:
                self.__dict__.get(other, {}).pop(name, None)
        self.__dict__.pop(name, None)
        if isinstance(value, ModuleTree):
            # Only methods check that the name is free: a class may answer it otherwise until then.
            self._check_name("submodule", name)
            self._hold_module(name, cast("Module", value))
        elif isinstance(value, Parameter):
            self.register_parameter(name, value)
        else:
            self.register_buffer(name, value, value.persistent)

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._buffers, *self._modules})

    # ---- walking the tree

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield direct submodules with their names, each once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Yield direct submodules, each once."""
        return (module for _, module in self.named_children())

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield this module and all below it, with dotted names, parents first.

        Args:
            memo: Modules that were visited already.
            prefix: Prefix of all names.
            remove_duplicate: Whether a module that appears twice is yielded once.
        """
        memo = set() if memo is None else memo
        this = cast("Module", self)
        if this in memo:
            return
        if remove_duplicate:
            memo.add(this)
        yield prefix, this
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and all below it, each once unless ``remove_duplicate`` is False."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield parameters of this module (and, if ``recurse``, of all below it) with dotted names."""
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield parameters of this module (and, if ``recurse``, of all below it), each once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield buffers of this module (and, if ``recurse``, of all below it) with dotted names."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield buffers of this module (and, if ``recurse``, of all below it), each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """Yield the members that ``get_members_fn`` finds in each module, with dotted names."""
        seen: set[int] = set()
        alone = [(prefix, cast("Module", self))]
        owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else alone
        for path, module in owners:
            for name, member in get_members_fn(module):
                if member is None or (remove_duplicate and id(member) in seen):
                    continue
                seen.add(id(member))
                yield (f"{path}.{name}" if path else name), member

    def get_submodule(self, target: str) -> Module:
        """Return the submodule with the dotted name ``target``; the module itself for an empty name.

        Raises:
            ModuleAttributeError: It does not exist.
        """
        module: Any = self
        for name in target.split(".") if target else ():
            owner, module = module, getattr(module, name, None)
            if not isinstance(module, ModuleTree):
                raise self._missing("submodule", target, owner, name)
        return cast("Module", module)

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Set the submodule with the dotted name ``target``.

        Args:
            target: The name; the modules before its last part exist.
            module: The new submodule.
            strict: Whether a submodule of that name must exist already.

        Raises:
            ArgumentError: The name is empty, or ``module`` is not a module.
            ModuleAttributeError: A parent module, or with ``strict`` the submodule, does not exist.
        """
        path, _, name = target.rpartition(".")
        if not name:
            raise ArgumentError("set_submodule", f"{target!r}", "Cannot set the submodule without a target name",
                                "pass the name of a submodule")
        if not isinstance(module, ModuleTree):
            raise ArgumentError("set_submodule", f"a {type(module).__name__}", "a submodule is an nn.Module",
                                "derive its class from nn.Module")
        owner = self.get_submodule(path)
        if strict and not hasattr(owner, name):
            raise self._missing("submodule", target, owner, name)
        if hasattr(owner, name) and not isinstance(getattr(owner, name), ModuleTree):
            raise ModuleAttributeError("set_submodule", f"{target!r} in {type(self).__name__}",
                                       "what a submodule replaces is a submodule", "choose another name")
        setattr(owner, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter with the dotted name ``target``.

        Raises:
            ModuleAttributeError: It does not exist.
        """
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        parameter = getattr(owner, name, None)
        if not isinstance(parameter, Parameter):
            raise self._missing("parameter", target, owner, name)
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer with the dotted name ``target``.

        Raises:
            ModuleAttributeError: It does not exist.
        """
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        buffer = owner._buffers.get(name)
        if buffer is None:
            raise self._missing("buffer", target, owner, name)
        return buffer

    def _replicate_for_data_parallel(self) -> Self:
        """Return a module of this class with the same attributes, its own tables of members, and no parameters.

        ``nn.parallel.replicate`` copies modules as a whole; libraries override and call this method.
        """
        made = self.__new__(type(self))
        made.__dict__.update(self.__dict__, _parameters={}, _buffers=self._buffers.copy(),
                             _modules=self._modules.copy(), _is_replica=True)
        return made

    def _missing(self, kind: str, target: str, owner: Any, name: str) -> ModuleAttributeError:
        """Return the error for a part that another module, or this one, lacks or that is of another kind."""
        fact = f"`{name}` is not {_KINDS[kind]}" if hasattr(owner, name) else (
            f"{type(owner).__name__} has no attribute `{name}`")
        return ModuleAttributeError(f"get_{kind}", f"{target!r} in {type(self).__name__}",
                                    fact, f"named_{kind.removeprefix('sub')}s() lists them")


#: By kind, the classes of the parts of modules, in words.
_KINDS: Final = {"submodule": "an nn.Module", "parameter": "an nn.Parameter", "buffer": "a buffer"}
#: The tables of members, with the kind and class of their members.
_SLOTS: Final = (
    ("_parameters", "parameter", Parameter),
    ("_buffers", "buffer", Tensor),
    ("_modules", "submodule", ModuleTree),
)
