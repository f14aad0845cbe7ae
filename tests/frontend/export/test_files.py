"""Programs in files: what comes back, in this process and in another one, and files that are refused."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import (
    ArgumentTypeError,
    DamagedFileError,
    ExportError,
    SerializationError,
    UnsupportedOperator,
)
from tensocket.export import Dim, export, load, register_dataclass, save
from tensocket.export.graph_signature import ConstantArgument, CustomObjArgument, OutputKind
from tensocket.export.pt2_archive import is_pt2_package, load_pt2, package_pt2

BATCH = Dim("batch", min=2, max=64)


class Sample(nn.Module):
    """A program with parameters, buffers of both kinds, a constant, guards and sizes among its results."""

    def __init__(self):
        super().__init__()
        self.c, self.b, self.l = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4 * 36, 5)
        self.register_buffer("k", torch.ones(5))
        self.register_buffer("hidden", torch.ones(5), persistent=False)
        self.w = torch.randn(5)

    def forward(self, x, pair, *, scale=2.0):
        y = self.b(self.c(x)).relu().view(x.shape[0], -1)
        self.k.add_(1)
        z = torch.cat([pair[0][1:, None], pair[1][..., :1]])
        if pair[1].shape[0] > x.shape[0] * 4:
            z = z * 2
        with torch.no_grad():
            w = self.w.exp()
        return {"a": self.l(y) * scale + self.k + self.hidden + w, "n": x.shape[0] // 2, "z": (z, None, "text")}


def sample():
    torch.manual_seed(0)
    model = Sample().train()
    args = (torch.randn(4, 3, 8, 8), [torch.randn(6), torch.randn(5, 2)])
    return model, export(model, args, {"scale": 3.0}, dynamic_shapes={
        "x": {0: BATCH}, "pair": [{0: BATCH + 2}, {0: Dim("rows", max=9)}], "scale": None})


def saved(program, **options):
    stream = io.BytesIO()
    save(program, stream, **options)
    stream.seek(0)
    return stream


def equal(one, other):
    """Whether two results are equal to the bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other) and one.dtype is other.dtype
    if isinstance(one, dict):
        return list(one) == list(other) and all(equal(x, other[key]) for key, x in one.items())
    if isinstance(one, (tuple, list)):
        return type(one) is type(other) and len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and one == other


def test_everything_comes_back():
    _, program = sample()
    other = load(saved(program))
    assert str(other.graph_signature) == str(program.graph_signature)
    assert str(other.graph) == str(program.graph)
    assert str(other) == str(program)
    assert other.range_constraints == program.range_constraints
    assert [x.fqn for x in other.module_call_graph] == [x.fqn for x in program.module_call_graph]
    assert other.call_spec == program.call_spec
    assert list(other.state_dict) == list(program.state_dict)
    assert all(torch.equal(x, other.state_dict[key]) for key, x in program.state_dict.items())
    assert [type(x) for x in other.state_dict.values()] == [type(x) for x in program.state_dict.values()]
    assert equal(list(other.constants.values()), list(program.constants.values()))
    assert equal(other.example_inputs[0][0], program.example_inputs[0][0])
    for mine, theirs in zip(other.graph.nodes, program.graph.nodes, strict=True):
        assert mine.meta.get("nn_module_stack") == theirs.meta.get("nn_module_stack")
        assert mine.meta.get("stack_trace") == theirs.meta.get("stack_trace")
        assert str(mine.meta.get("val")) == str(theirs.meta.get("val"))


@pytest.mark.parametrize("batch", [2, 5, 64])
def test_results_gradients_and_buffers(batch):
    _, program = sample()
    found = []
    for each in (load(saved(program)), program):
        torch.manual_seed(1)
        run = each.module()
        result = run(torch.randn(batch, 3, 8, 8), [torch.randn(batch + 2), torch.randn(3, 2)], scale=3.0)
        result["a"].square().sum().backward()
        found.append((result, [p.grad for p in run.parameters()], dict(run.named_buffers())))
    assert equal(found[0][0], found[1][0])
    assert equal(found[0][1:], found[1][1:])


def test_guards_come_back():
    _, program = sample()
    run = load(saved(program)).module()
    one = torch.randn(4, 3, 8, 8)
    for args, message in [((one, [torch.ones(7), torch.ones(5, 2)]),
                           r"pair\[0\]\.size\(\)\[0\] == x\.size\(\)\[0\] \+ 2"),
                          ((one[:2], [torch.ones(4), torch.ones(9, 2)]),
                           r"pair\[1\]\.size\(\)\[0\] <= x\.size\(\)\[0\]\*4"),
                          ((one, [torch.ones(6), torch.ones(10, 2)]), r"pair\[1\]\.size\(\)\[0\] <= 9"),
                          ((one[:1], [torch.ones(3), torch.ones(5, 2)]), r"x\.size\(\)\[0\] >= 2")]:
        with pytest.raises(torch.export.GuardError, match=message):
            run(*args, scale=3.0)


def test_shared_memory_stays_shared():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight
            base = torch.arange(6.0)
            self.register_buffer("all", base)
            self.register_buffer("part", base[1::2])
            self.register_buffer("turned", torch.randn(2, 3).t())

        def forward(self, x):
            self.all.add_(1)
            return self.b(self.a(x)) + self.part + self.turned.sum()

    model = Tied()
    stream = saved(export(model, (torch.ones(2, 3),)))
    with zipfile.ZipFile(stream) as archive:
        assert sum("/weights/weight_" in name for name in archive.namelist()) == 5
    other = load(stream)
    assert other.state_dict["a.weight"].data_ptr() == other.state_dict["b.weight"].data_ptr()
    assert other.state_dict["turned"].stride() == (1, 3)
    assert torch.equal(other.module()(torch.ones(2, 3)), model(torch.ones(2, 3)))


def test_dtypes_and_options():
    class Options(nn.Module):
        def forward(self, x):
            y = x.to(torch.float64).add(float("inf")).to(torch.bfloat16)
            z = torch.zeros(2, 2, dtype=torch.complex64, device=x.device).add(1 + 2j)
            return y, z, x.clone(memory_format=torch.channels_last), x[..., None, ::2], torch.full((2,), float("nan"))

    program = export(Options(), (torch.ones(1, 2, 3, 4),))
    one, other = program.module()(torch.ones(1, 2, 3, 4)), load(saved(program)).module()(torch.ones(1, 2, 3, 4))
    assert equal(one[:4], other[:4])
    assert other[2].is_contiguous(memory_format=torch.channels_last)
    assert other[4].isnan().all()


def test_registered_classes():
    @dataclasses.dataclass
    class Pair:
        one: torch.Tensor
        other: torch.Tensor | None = None

    class Swap(nn.Module):
        def forward(self, pair):
            return Pair(pair.one + 1)

    register_dataclass(Pair, serialized_type_name="tests.Pair")
    program = export(Swap(), (Pair(torch.ones(2)),))
    other = load(saved(program))
    result = other.module()(Pair(torch.zeros(2)))
    assert isinstance(result, Pair)
    assert result.one.tolist() == [1.0, 1.0]
    assert isinstance(other.example_inputs[0][0], Pair)


def test_extra_files_and_versions(tmp_path):
    _, program = sample()
    path = tmp_path / "model.pt2"
    save(program, path, extra_files={"a/b.txt": "text", "c": b"more"}, opset_version={"mine": 3})
    extra = {"a/b.txt": ""}
    load(path, extra_files=extra, expected_opset_version={"aten": 10, "mine": 3})
    assert extra == {"a/b.txt": "text", "c": "more"}
    assert is_pt2_package(str(path))
    assert is_pt2_package(path.read_bytes())
    assert not is_pt2_package(b"PK")
    with pytest.raises(SerializationError, match="version 10 of aten — the expected version is 11"):
        load(path, expected_opset_version={"aten": 11})
    with zipfile.ZipFile(path) as archive:
        assert archive.read("model/archive_format") == b"pt2"
        assert not any(name.endswith(".pkl") for name in archive.namelist())


def test_several_programs(tmp_path):
    programs = {name: export(nn.Linear(2, n), (torch.ones(1, 2),)) for name, n in (("a", 3), ("b", 4))}
    path = tmp_path / "both.pt2"
    package_pt2(path, exported_programs=programs)
    found = load_pt2(path).exported_programs
    assert sorted(found) == ["a", "b"]
    for name, program in programs.items():
        assert torch.equal(found[name].module()(torch.ones(1, 2)), program.module()(torch.ones(1, 2)))
    with pytest.raises(DamagedFileError, match=r"an archive of \['a', 'b'\] — it holds one program, named model"):
        load(path)
    with pytest.raises(SerializationError, match="a program named 'a/b' — names of programs have no slash"):
        package_pt2(path, exported_programs={"a/b": programs["a"]})


def test_another_process_runs_every_architecture(program, tmp_path):
    """The bits of results are equal, with another batch size."""
    expected = {}
    for name in sorted(set(program.NAMES) - {"seq2seq"}):
        model, inputs = program.make(name)
        program.fill(model)
        model.eval()
        batch = inputs[0].shape[0]
        dims = [{0: Dim("batch", max=64)} if x.dim() and x.shape[0] == batch and not x.is_sparse else None
                for x in inputs] if name != "gcn" else None
        save(export(model, tuple(inputs), dynamic_shapes=dims), tmp_path / f"{name}.pt2")
        rows = torch.arange(batch + 3) % batch
        inputs = [x[rows] if dims is not None and dim else x
                  for x, dim in zip(inputs, dims or inputs, strict=True)]
        with torch.no_grad():
            expected[name] = (list(inputs), [x.detach() for x in program.results(model(*inputs))])
    assert len(expected) == 21
    torch.save(expected, tmp_path / "expected.pt")
    code = (
        "import sys, tensocket as torch\n"
        "from tensocket.export import load\n"
        "for name, (inputs, expected) in torch.load(sys.argv[1] + '/expected.pt').items():\n"
        "    with torch.no_grad():\n"
        "        found = load(f'{sys.argv[1]}/{name}.pt2').module()(*inputs)\n"
        "    found = list(found) if isinstance(found, tuple) else [found]\n"
        "    same = len(found) == len(expected) and all(map(torch.equal, found, expected))\n"
        "    print(name, same)\n")
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True,
                          env=dict(os.environ))
    assert done.stdout.split("\n")[:-1] == [f"{name} True" for name in expected]


# ------------------------------------------------------------------------------------------------------------- refusals


def rewritten(stream, change=None, **files):
    """A copy of an archive with other files; ``change`` edits the JSON of the program."""
    found = io.BytesIO()
    with zipfile.ZipFile(stream) as old, zipfile.ZipFile(found, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            data = old.read(name)
            if change is not None and name.endswith("models/model.json"):
                text = json.loads(data)
                change(text)
                data = json.dumps(text).encode()
            key = name.partition("/")[2]
            new.writestr(name, files.get(key, data))
    found.seek(0)
    return found


@pytest.fixture(scope="module")
def small():
    """A small program in a file."""
    torch.manual_seed(0)
    return saved(export(nn.Linear(3, 2), (torch.ones(2, 3),), dynamic_shapes=({0: BATCH},))).getvalue()


def node(text):
    return text["graph_module"]["graph"]["nodes"][0]


def set_path(*path):
    """A change that sets a part of the JSON."""
    *parents, last, value = path

    def change(text):
        for key in parents:
            text = text[key]
        text[last] = value

    return change


GRAPH = ("graph_module", "graph")
SIGNATURE = ("graph_module", "signature")


@pytest.mark.parametrize(("change", "message"), [
    (set_path(*GRAPH, "nodes", 0, "target", "os.system"),
     "a node that calls 'os.system' — nodes call operators that this library has"),
    (set_path(*GRAPH, "nodes", 0, "target", "torch.ops.aten.from_file.default"), "a node that calls"),
    (set_path(*GRAPH, "nodes", 0, "target", "torch.ops.aten.__class__.default"), "a node that calls"),
    (set_path(*GRAPH, "nodes", 0, "target", "torch.ops.aten.no_such_thing.default"), "nodes call operators that"),
    (set_path(*GRAPH, "nodes", 0, "name", "a = 1; import os"), "is not a name"),
    (set_path(*GRAPH, "nodes", 0, "name", "class"), "is not a name"),
    (set_path(*GRAPH, "nodes", 0, "inputs", 0, "arg", {"as_tensor": {"name": "gone"}}), "is used before it is made"),
    (set_path(*GRAPH, "nodes", 0, "inputs", 0, "arg", {"as_custom_obj": {"name": "x"}}),
     "an argument of kind 'as_custom_obj' — kinds are as_none, .*, and lists of these"),
    (set_path(*GRAPH, "nodes", 0, "inputs", 0, "arg", {}), "0 kinds of one value"),
    (set_path(*GRAPH, "nodes", 0, "inputs", 2, {"name": "a=1, b", "arg": {"as_int": 1}, "kind": 2}), "is not a name"),
    (set_path(*SIGNATURE, "input_specs", 0, "parameter", "parameter_name", 'a", __import__("os")'), "is not the path"),
    (set_path(*SIGNATURE, "input_specs", 0, "parameter", "parameter_name", "__class__"), "is not the path"),
    (set_path(*SIGNATURE, "input_specs", 0, "parameter", "parameter_name", "other"), "are in the state dict"),
    (set_path(*SIGNATURE, "input_specs", 0, {"custom_obj": {}}),
     "inputs are parameters, buffers, constants, tensors, numbers and texts"),
    (set_path(*SIGNATURE, "output_specs", 0, {"loss_output": {}}),
     "outputs are results, or writes to buffers, parameters and arguments"),
    (set_path("schema_version", "major", 9),
     "Serialized schema version does not match our current schema version (8, 20)"),
    (set_path("guards_code", ["__import__('os').system('x')"]), "guards compare sizes of inputs"),
    (set_path("guards_code", ["L['y'].size()[0] > 2"]), "is not a size of an input"),
    (set_path("range_constraints", {}), None),
    (set_path("graph_module", "module_call_graph", 0, "fqn", "x"), "the first call is not that of the program"),
    (set_path("graph_module", "module_call_graph", 0, "signature", "forward_arg_names", ["*a"]), "is not a name"),
    (set_path(*GRAPH, "tensor_values", "input", "sizes", [{"as_int": 1}] * 100), "a tensor with 100 dimensions"),
    (set_path(*GRAPH, "tensor_values", "input", "sizes", 0, {"as_expr": {"expr_str": "().__class__", "hint": {
        "as_int": 2}}}), "is not an expression of sizes"),
    (set_path(*GRAPH, "tensor_values", "input", "sizes", 0, {"as_expr": {"expr_str": "(" * 300, "hint": {
        "as_int": 2}}}), "is not an expression of sizes"),
    (set_path(*GRAPH, "tensor_values", "input", "sizes", 0, {"as_expr": {"expr_str": "a ** 2", "hint": {
        "as_int": 4}}}), "sizes follow from those of inputs, as multiples plus a constant"),
])
def test_hostile_programs(small, change, message):
    stream = rewritten(io.BytesIO(small), change)
    if message is None:
        assert load(stream).module()(torch.ones(90, 3)).shape == (90, 2)
        return
    with pytest.raises(torch.errors.TensocketError, match=message.replace("(", r"\(").replace(")", r"\)")):
        load(stream)


@pytest.mark.parametrize(("spec", "message"), [
    ({"type": "collections.defaultdict", "context": {"default_factory_module": "os", "default_factory_name": "abort",
                                                     "dict_context": []}, "children_spec": []}, "a defaultdict whose"),
    ({"type": "builtins.dict", "context": '[{"__enum__": true, "fqn": "antigravity:x", "name": "y"}]',
      "children_spec": []}, "an enumeration 'antigravity:x' that the program does not know"),
    ({"type": "no.such", "context": "null", "children_spec": []}, "Deserializing it in pytree is not registered"),
])
def test_hostile_structures(small, spec, message):
    change = set_path("graph_module", "module_call_graph", 0, "signature", "out_spec", json.dumps([1, spec]))
    with pytest.raises(DamagedFileError, match=message):
        load(rewritten(io.BytesIO(small), change))
    assert "antigravity" not in sys.modules


class Boom:
    """An object whose pickle runs a function."""

    def __reduce__(self):
        return os.system, ("exit 3",)


def test_pickles_run_nothing(small):
    data = io.BytesIO()
    torch.save(torch.ones(1), data)
    with zipfile.ZipFile(io.BytesIO(data.getvalue())) as archive:
        inner = {name: archive.read(name) for name in archive.namelist()}
    evil = io.BytesIO()
    with zipfile.ZipFile(evil, "w") as archive:
        for name, content in inner.items():
            archive.writestr(name, pickle.dumps(Boom()) if name.endswith("data.pkl") else content)
    with pytest.raises(SerializationError, match=r"posix\.system|os\.system|nt\.system"):
        load(rewritten(io.BytesIO(small), **{"data/sample_inputs/model.pt": evil.getvalue()}))
    table = json.dumps({"config": {"weight": {"path_name": "weight_0", "is_param": True, "use_pickle": True,
                                              "tensor_meta": {"requires_grad": True}}}}).encode()
    with pytest.raises(SerializationError, match=r"posix\.system|os\.system|nt\.system"):
        load(rewritten(io.BytesIO(small), **{"data/weights/model_weights_config.json": table,
                                             "data/weights/weight_0": evil.getvalue()}))
    values = io.BytesIO()
    torch.save({"a": 1}, values)
    with pytest.raises(SerializationError, match="a dict in data/weights/weight_0 — weights and constants are tensors"):
        load(rewritten(io.BytesIO(small), **{"data/weights/model_weights_config.json": table,
                                             "data/weights/weight_0": values.getvalue()}))


@pytest.mark.parametrize("changes", [
    {"sizes": [{"as_int": 1 << 40}, {"as_int": 1 << 20}]}, {"sizes": [{"as_int": 3}, {"as_int": 3}]},
    {"strides": [{"as_int": 1 << 60}, {"as_int": 1}]}, {"storage_offset": {"as_int": 5}},
    {"sizes": [{"as_int": -1}, {"as_int": 3}]}, {"dtype": 99}, {"dtype": 8}, {"device": {"type": "no", "index": None}}])
def test_tensors_that_reach_out_of_their_memory(small, changes):
    stream = io.BytesIO(small)
    with zipfile.ZipFile(stream) as archive:
        table = json.loads(archive.read("archive/data/weights/model_weights_config.json"))
    table["config"]["weight"]["tensor_meta"].update(changes)
    with pytest.raises(DamagedFileError):
        load(rewritten(stream, **{"data/weights/model_weights_config.json": json.dumps(table).encode()}))


def test_files_out_of_their_folder(small):
    stream = io.BytesIO(small)
    with zipfile.ZipFile(stream) as archive:
        table = json.loads(archive.read("archive/data/weights/model_weights_config.json"))
    table["config"]["weight"]["path_name"] = "../../../secret"
    with pytest.raises(DamagedFileError, match="a tensor in the file"):
        load(rewritten(stream, **{"data/weights/model_weights_config.json": json.dumps(table).encode()}))


def test_truncated_and_damaged_files(small):
    for length in range(0, len(small), max(len(small) // 60, 1)):
        with pytest.raises(DamagedFileError):
            load(io.BytesIO(small[:length]))
    for at in range(7, len(small), max(len(small) // 60, 1)):
        data = bytearray(small)
        data[at] ^= 0x55
        try:
            load(io.BytesIO(bytes(data)))
        except (SerializationError, torch.errors.TensocketError):
            continue
    with pytest.raises(DamagedFileError, match="a text of depth"):
        load(rewritten(io.BytesIO(small), **{"models/model.json": b"[" * 100000}))
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/archive_format", b"pt2")
        archive.writestr("a/models/model.json", b"0" * 10_000_000)
    bomb.seek(0)
    with pytest.raises(DamagedFileError, match=r"larger than the file|is compressed"):
        load(bomb)


def test_calls_of_save(tmp_path):
    program = export(nn.Linear(2, 2), (torch.ones(1, 2),))
    path = tmp_path / "model.pt2"
    path.write_text("before")
    with pytest.raises(ArgumentTypeError, match="The 'ep' parameter must be an instance of 'ExportedProgram', got "
                                                "'Linear' instead"):
        save(nn.Linear(2, 2), path)
    with pytest.raises(ArgumentTypeError, match="an extra file 'a' of type int — extra files are texts by name"):
        save(program, path, extra_files={"a": 1})
    with pytest.raises(SerializationError, match="pickle_protocol=3 — the restricted reader knows protocol 2"):
        save(program, path, pickle_protocol=3)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "gone.pt2")
    path.write_bytes(b"no archive")
    with pytest.raises(DamagedFileError, match=r"the file must be what torch.export.save wrote, complete and "
                                                "unchanged"):
        load(path)


def test_programs_that_files_cannot_hold(tmp_path):
    @dataclasses.dataclass
    class Nameless:
        one: torch.Tensor

    class Same(nn.Module):
        def forward(self, x):
            return x.one + 1

    register_dataclass(Nameless)
    with pytest.raises(UnsupportedOperator, match="No registered serialization name for it found"):
        save(export(Same(), (Nameless(torch.ones(1)),)), tmp_path / "a.pt2")
    program = export(nn.Linear(2, 2), (torch.ones(1, 2),))
    call = next(x for x in program.graph.nodes if x.op == "call_function")
    call.target = print
    with pytest.raises(SerializationError, match=r"a node that calls .* — programs in files call operators, and "
                                                 "functions of numbers"):
        save(program, tmp_path / "a.pt2")
    call.target = torch.ops.aten.linear.default
    call.args = (*call.args, object())
    with pytest.raises(SerializationError, match="arguments in files are tensors, numbers, texts, dtypes, devices, "
                                                 "layouts, and containers of these"):
        save(program, tmp_path / "a.pt2")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("change", "message"), [
    (lambda s: setattr(s.input_specs[-1], "arg", ConstantArgument("input", torch.float32)),
     "inputs other than tensors are numbers, texts and None"),
    (lambda s: setattr(s.output_specs[0], "kind", OutputKind.LOSS_OUTPUT),
     "outputs in files are results, or writes to buffers, parameters and arguments"),
    (lambda s: setattr(s.output_specs[0], "arg", CustomObjArgument("x", "Class")),
     "signatures in files have tensors, numbers, texts and None"),
])
def test_signatures_that_files_cannot_hold(tmp_path, change, message):
    program = export(nn.Linear(2, 2), (torch.ones(1, 2),))
    change(program.graph_signature)
    with pytest.raises(SerializationError, match=message):
        save(program, tmp_path / "a.pt2")


def test_inputs_that_are_numbers(small):
    """An integer among the inputs changes from call to call, as in programs of PyTorch; other numbers do not."""
    def add(kind):
        def change(text):
            graph, signature = text["graph_module"]["graph"], text["graph_module"]["signature"]
            graph["inputs"].append({kind: {"as_name": "n"}})
            graph["sym_int_values"]["n"] = {"as_expr": {"expr_str": "Symbol('s5')", "hint": {"as_int": 3}}}
            signature["input_specs"].append({"user_input": {"arg": {kind: {"as_name": "n"}}}})
            call = text["graph_module"]["module_call_graph"][0]["signature"]
            spec = json.loads(call["in_spec"])
            spec[1]["children_spec"][0]["children_spec"].append({"type": None, "context": None, "children_spec": []})
            call["in_spec"] = json.dumps(spec)
            call["forward_arg_names"].append("n")
            text["range_constraints"]["s5"] = {"min_val": 3, "max_val": 7}
            graph["nodes"].append({"target": "torch.ops.aten.mul.Tensor", "inputs": [
                {"name": "self", "arg": {"as_tensor": {"name": "linear"}}, "kind": 1},
                {"name": "other", "arg": {"as_sym_int": {"as_name": "n"}}, "kind": 1}], "outputs": [
                    {"as_tensor": {"name": "mul"}}], "metadata": {}, "name": "mul"})
            graph["tensor_values"]["mul"] = graph["tensor_values"]["linear"]
            graph["outputs"] = [{"as_tensor": {"name": "mul"}}]
            signature["output_specs"] = [{"user_output": {"arg": {"as_tensor": {"name": "mul"}}}}]
        return change

    one = load(io.BytesIO(small)).module()(torch.ones(2, 3))
    program = load(rewritten(io.BytesIO(small), add("as_sym_int")))
    run = program.module()
    assert torch.equal(run(torch.ones(2, 3), 3), one * 3)
    assert torch.equal(run(torch.ones(2, 3), 7), one * 7)
    with pytest.raises(torch.export.GuardError, match="Guard failed: n <= 7"):
        run(torch.ones(2, 3), 8)
    with pytest.raises(torch.export.GuardError, match=r"Guard failed: isinstance\(n, int\)"):
        run(torch.ones(2, 3), 3.0)
    program.example_inputs = ((torch.ones(2, 3), 3), {})
    with pytest.raises(ExportError, match=r"the size .* — sizes are multiples of one plus a constant"):
        program.run_decompositions()
    with pytest.raises(SerializationError, match="inputs are tensors, integers and constants"):
        load(rewritten(io.BytesIO(small), add("as_sym_float")))
