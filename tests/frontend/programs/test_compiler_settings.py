"""Settings, stances, marks and reports of compiled functions under PyTorch's names."""

from __future__ import annotations

import io
import logging
import threading
import xml.etree.ElementTree as ET

import pytest

import tensocket as torch
from tensocket import _dynamo, _inductor, nn
from tensocket._dynamo.testing import CompileCounter, rand_strided, same
from tensocket_compiler.calls import events, progress
from tensocket_compiler.calls.settings import SETTINGS, SWITCHES
from tensocket_compiler.capture.layout import LAYOUT

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    _dynamo.utils.counters.clear()
    yield
    assert type(SETTINGS)() == SETTINGS
    assert not SWITCHES


def sizes(function, counts):
    """Call a function with vectors of these sizes."""
    return [function(torch.ones(n)) for n in counts]


def test_limits_of_graphs():
    counter = CompileCounter()
    with _dynamo.config.patch(recompile_limit=2):
        assert _dynamo.config.cache_size_limit == 2
        f = torch.compile(lambda x: x + 1, backend=counter)
        sizes(f, (1, 2, 3, 4, 1, 2))
        assert counter.frame_count == 2
        with _dynamo.config.patch(fail_on_recompile_limit_hit=True), pytest.raises(
                _dynamo.exc.FailOnRecompileLimitHit, match="recompile_limit is 2"):
            f(torch.ones(5))
    assert _dynamo.config.recompile_limit == 8
    f = torch.compile(lambda x: x + 1, backend=counter, recompile_limit=1)
    sizes(f, (1, 2, 3))
    assert counter.frame_count == 3
    f = torch.compile(lambda x: x + 1, backend=counter)
    with _dynamo.config.patch(error_on_recompile=True):
        sizes(f, (1, 1))
        with pytest.raises(_dynamo.exc.RecompileError, match="the settings allow no further graph"):
            f(torch.ones(2))
    with _dynamo.config.patch(disable=True):
        sizes(torch.compile(lambda x: x + 1, backend=counter), (1, 2))
    assert counter.frame_count == 4


def test_stances():
    counter = CompileCounter()
    f = torch.compile(lambda x: x + 1, backend=counter)
    with torch.compiler.set_stance("force_eager"):
        sizes(f, (1, 1))
        assert not counter.frame_count
    f(torch.ones(1))
    with torch.compiler.set_stance("eager_on_recompile"):
        sizes(f, (1, 2))
    assert counter.frame_count == 1
    with torch.compiler.set_stance("fail_on_recompile"):
        f(torch.ones(1))
        with pytest.raises(_dynamo.exc.RecompileError):
            f(torch.ones(2))

    @torch.compiler.set_stance("force_eager")
    def plainly(x):
        return f(x)

    assert plainly(torch.ones(3)).tolist() == [2, 2, 2]
    assert counter.frame_count == 1
    torch.compiler.set_stance("force_eager")
    sizes(f, (4,))
    torch.compiler.set_stance("default")
    assert _dynamo.run(f)(torch.ones(4)).tolist() == [2] * 4
    assert counter.frame_count == 1
    sizes(f, (4,))
    assert counter.frame_count == 2
    with pytest.raises(torch.errors.ArgumentError, match="stances are default, force_eager, eager_on_recompile"):
        torch.compiler.set_stance("sometimes")
    with pytest.raises(torch.errors.ArgumentError, match="graphs always check their guards, and functions keep "
                       "their backends"):
        torch.compiler.set_stance("default", force_backend="eager")


def test_disabled_functions_run_plain():
    counter = CompileCounter()
    inner = torch.compile(lambda x: (torch.compiler.is_compiling(), x + 1), backend=counter)

    @torch.compiler.disable(reason="a test")
    def outer(x):
        return inner(x)

    assert outer(torch.ones(1))[0] is False
    assert inner(torch.ones(1))[0] is True
    assert counter.frame_count == 1
    assert torch.compiler.disable(lambda x: inner(x), recursive=False)(torch.ones(1))[0] is True
    module = torch.compiler.disable(nn.Linear(2, 2))
    f = torch.compile(lambda x: module(x), backend=counter)
    f(torch.ones(1, 2))
    assert "disable() keeps out of graphs" in f._compiled.reasons[0]

    class Holder:
        @torch.compiler.disable
        def method(self, x):
            return self, x

    holder = Holder()
    assert holder.method(1) == (holder, 1)
    with pytest.raises(torch.errors.ArgumentTypeError, match="functions and modules are compiled"):
        torch.compiler.disable(3)
    assert not torch.compiler.is_compiling()
    assert not torch.compiler.is_exporting()


def test_breaks_that_raise():
    f = torch.compile(lambda x: x * x.sum().item(), backend="eager")
    with _dynamo.error_on_graph_break(True), pytest.raises(_dynamo.exc.Unsupported, match="elements of a tensor"):
        f(torch.ones(2))
    f = torch.compile(lambda x: x * x.sum().item(), backend="eager")
    assert f(torch.ones(2)).tolist() == [2, 2]
    assert sum(_dynamo.utils.counters["graph_break"].values()) == 1
    for kind in (_dynamo.exc.Unsupported, _dynamo.exc.BackendCompilerFailed, _dynamo.exc.InternalTorchDynamoError,
                 _dynamo.exc.UserError, _dynamo.exc.InvalidBackend):
        assert issubclass(kind, _dynamo.exc.TorchDynamoException)


@pytest.mark.parametrize(("given", "message"), [
    ({"mode": "fast"}, "Unrecognized mode=fast — should be one of: default, lite, reduce-overhead, max-autotune-no-cu"),
    ({"options": {"speed": 1}}, "Unexpected optimization option speed — known options "
     "are \\['compile_threads', 'conv_1x1_as"),
    ({"options": {"max_autotune": "yes"}}, "Unexpected type of attr max_autotune, got str should be bool — a value "
     "has the type of the setting that it replaces"),
    ({"mode": "default", "options": {}}, "Either mode or options can be specified, but both can't be specified "
     "at the same time"),
])
def test_modes_and_options_are_checked(given, message):
    with pytest.raises(RuntimeError, match=message):
        torch.compile(lambda x: x, **given)


def test_modes_and_options():
    for mode, options in _inductor.list_mode_options().items():
        assert torch.compile(lambda x: x + 1, mode=mode)(torch.ones(1)).item() == 2
        assert torch.compile(lambda x: x + 1, options=options)(torch.ones(1)).item() == 2
        assert set(options) <= set(_inductor.list_options())
        assert _inductor.list_mode_options(mode) == options
    assert _inductor.compile(torch.fx.symbolic_trace(lambda x: x + 1), [torch.ones(1)])(torch.ones(1)).item() == 2


def test_names_without_effect_of_their_own():
    assert torch.compiler.nested_compile_region(len) is len
    assert torch.compiler.nested_compile_region()(len) is len
    assert torch.compiler.substitute_in_graph(len, skip_signature_check=True)(len) is len
    with _dynamo.patch_dynamo_config("recompile_limit", 3):
        assert SETTINGS.variants == 3
    f = torch.compile(lambda x: (_dynamo.skip_frame("why"), x + 1)[1], backend="eager")
    f(torch.ones(1))
    assert "it calls graph_break()" in f._compiled.reasons[0]
    assert _dynamo.optimize("eager")(lambda x: x + 1)(torch.ones(1)).item() == 2
    with pytest.raises(_dynamo.exc.Unsupported):
        _dynamo.optimize_assert("eager")(lambda x: x.item())(torch.ones(1))


def test_marks_of_sizes_are_checked():
    x = torch.ones(2, 3)
    _dynamo.mark_dynamic(x, [0, -1], min=1, max=8)
    _dynamo.maybe_mark_dynamic(x, 1)
    _dynamo.mark_static(x)
    _dynamo.mark_static(nn.Linear)
    _dynamo.mark_static_address(x)
    with pytest.raises(torch.errors.ArgumentError, match="a mark belongs to a dimension of the tensor"):
        _dynamo.mark_dynamic(x, 2)
    with pytest.raises(torch.errors.ArgumentTypeError, match="sizes of tensors are marked"):
        _dynamo.mark_static(3)


def test_comparisons_of_results():
    x = torch.ones(2)
    assert same([x, {"a": 1.0}], (x + 1e-6, {"a": 1.0 + 1e-6}))
    assert not same(x, x + 1)
    assert not same(x, x.double())
    assert same(x, x.double(), exact_dtype=False)
    assert not same(x, torch.ones(3))
    assert not same([x], [x, x])
    assert not same({"a": x}, {"b": x})
    assert not same(1, 1.0)
    assert same(float("nan"), float("nan"), equal_nan=True)
    assert not same(float("nan"), float("nan"))
    assert same(x, 3 * x, cos_similarity=True)
    assert not same(x, torch.tensor([1.0, -1.0]), cos_similarity=True)
    assert rand_strided((2, 3), (1, 2)).stride() == (1, 2)
    copies = _dynamo.utils.clone_inputs({"x": x, "n": 1})
    assert copies["x"] is not x
    assert copies["x"].equal(x)


# ---------------------------------------------------------------------------------------------------- looking at graphs


def model_of_graphs():
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    return model, torch.randn(5, 8)


def test_handles():
    model, x = model_of_graphs()
    f = torch.compile(model)
    handle = torch.compiler.compiled(f)
    with pytest.raises(torch.errors.CompileError, match="it has not been called often enough — calls make graphs"):
        _ = handle.graph
    for _ in range(5):
        f(x).sum().backward()
    assert "gelu(" in handle.graph
    assert "gelu_backward(" in handle.graph
    names = [name for name, _ in handle.kernels()]
    assert "add_gelu" in names
    assert all("kernel" in text or "for" in text or "=" in text for _, text in handle.kernels())
    assert handle.why(x) is None
    assert handle.why(torch.ones(3, 8)) == "argument 0.shape was (5, 8), is (3, 8)"
    assert not handle.reasons
    report = handle.report()
    assert report.tier == "graph"
    text = str(report)
    for part in ("tier: graph; 2 graphs", "kernel over [5, 16]: add, gelu (1024 bytes)", "guards: ", "[0].weight",
                 "arena of"):
        assert part in text, part
    with pytest.raises(torch.errors.ArgumentError, match="pictures are written as SVG"):
        handle.picture("png")
    with pytest.raises(torch.errors.ArgumentTypeError, match=r"compile\(\) returns functions and modules that have"
                       " graphs"):
        torch.compiler.compiled(model)
    model.compile(backend="eager")
    model(x)
    assert isinstance(torch.compiler.compiled(model).graph, torch.fx.Graph)


@pytest.mark.parametrize("backend", ["tensocket", "eager"])
def test_pictures(backend):
    model, x = model_of_graphs()
    f = torch.compile(model, backend=backend)
    for _ in range(5):
        f(x)
    picture = ET.fromstring(torch.compiler.compiled(f).picture())
    space = "{http://www.w3.org/2000/svg}"
    boxes = [tuple(float(box.get(name)) for name in ("x", "y", "width", "height"))
             for box in picture.iter(f"{space}rect")]
    titles = [title.text for title in picture.iter(f"{space}title")]
    assert any("gelu" in title for title in titles)
    assert len(boxes) == len(titles) >= 4
    width, height = float(picture.get("width")), float(picture.get("height"))
    for k, (a, b, w, h) in enumerate(boxes):
        assert min(a, b, width - a - w, height - b - h) >= 0
        assert all(a + w <= c or c + v <= a or b + h <= d or d + u <= b for c, d, v, u in boxes[k + 1:])
    paths = [path for path in picture.iter(f"{space}path") if path.get("stroke")]
    assert len(paths) >= len(boxes) / 2


def logged(topics, action):
    """The lines that an action logs, by topic."""
    lines = {}

    class Collect(logging.Handler):
        def emit(self, record):
            lines.setdefault(record.name.rpartition(".")[2], []).append(record.getMessage())

    handler = Collect()
    root = logging.getLogger("tensocket.compile")
    root.addHandler(handler)
    try:
        events.set_topics(topics)
        action()
    finally:
        events.set_topics(())
        root.removeHandler(handler)
    return lines


def test_logs_of_topics():
    model, x = model_of_graphs()
    factor = {"value": 2.0}
    f = torch.compile(lambda x: model(x) * factor["value"])

    def action():
        for value in (2.0, 3.0):
            factor["value"] = value
            for _ in range(4):
                f(x)
        torch.compile(lambda x: x * x.sum().item(), backend="eager")(x)

    lines = logged(["guards", "graph", "groups", "kernels", "memory", "recompiles", "eager"], action)
    assert set(lines) == set(events.TOPICS)
    assert "gelu(" in lines["graph"][0]
    assert "kernel over" in lines["groups"][0]
    assert "add_gelu:" in lines["kernels"][0]
    assert "an arena of" in lines["memory"][0]
    assert "words of" in lines["guards"][0]
    assert "factor['value']" in lines["recompiles"][0]
    assert "2.0" in lines["recompiles"][0].partition(" is ")[0]
    assert "3.0" in lines["recompiles"][0].partition(" is ")[2]
    assert "runs eagerly: elements of a tensor are read at" in lines["eager"][0]
    assert "test_compiler_settings.py:" in lines["eager"][0]
    assert logged([], lambda: f(torch.ones(2, 8))) == {}
    with pytest.raises(torch.errors.ArgumentError, match="topics are guards, graph, groups, kernels, memory"):
        events.set_topics(["everything"])


def test_logs_by_names_of_pytorch():
    try:
        torch._logging.set_logs(recompiles=True, graph_breaks=True, ddp_graphs=True, modules={"output_code": True})
        assert [topic for topic in events.TOPICS if events.is_logged(topic)] == ["kernels", "recompiles", "eager"]
        torch._logging.set_logs(dynamo=logging.DEBUG)
        assert all(map(events.is_logged, events.TOPICS))
        torch._logging.set_logs(dynamo=logging.INFO)
        assert not any(map(events.is_logged, events.TOPICS))
    finally:
        events.set_topics(())


def test_a_line_while_a_graph_is_compiled(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

        def write(self, text):
            appeared.set()
            return super().write(text)

    appeared = threading.Event()
    terminal = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", terminal)
    monkeypatch.setattr(progress, "DELAY", 0.001)
    with progress.shown(model_of_graphs):
        assert appeared.wait(10)
    assert terminal.getvalue().startswith("\rcompiling model_of_graphs (")
    assert terminal.getvalue().endswith(" \r")
    monkeypatch.setattr(progress, "DELAY", 1000)
    quick = Terminal()
    monkeypatch.setattr(progress.sys, "stderr", quick)
    with progress.shown(model_of_graphs):
        pass
    assert not quick.getvalue()
