"""Logs for TensorBoard: read back with its own reader where it is installed; encodings and advice everywhere."""

from __future__ import annotations

import io
import sys
import wave
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import MissingPackage
from tensocket.utils.tensorboard import SummaryWriter
from tensocket.utils.tensorboard.encoding import arranged, gif, png, wav


def test_advice_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "tensorboard"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(ModuleNotFoundError, match="logs are written in the format of the package tensorboard"):
        SummaryWriter(tmp_path)


# --------------------------------------------------------------------------------------------------------- encodings


def decoded(data: bytes) -> np.ndarray:
    """Pixels of a PNG without filters."""
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    place, chunks = 8, {}
    while place < len(data):
        size, kind = int.from_bytes(data[place:place + 4], "big"), data[place + 4:place + 8]
        content = data[place + 8:place + 8 + size]
        assert int.from_bytes(data[place + 8 + size:place + 12 + size], "big") == zlib.crc32(kind + content)
        chunks[kind] = content
        place += 12 + size
    width, height = int.from_bytes(chunks[b"IHDR"][:4], "big"), int.from_bytes(chunks[b"IHDR"][4:8], "big")
    channels = {2: 3, 6: 4}[chunks[b"IHDR"][9]]
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * channels)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, channels)


def test_png() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    np.testing.assert_array_equal(decoded(png(pixels)), pixels)
    with_alpha = np.concatenate([pixels, pixels[..., :1]], 2)
    np.testing.assert_array_equal(decoded(png(with_alpha)), with_alpha)


def test_pictures_are_arranged() -> None:
    picture = torch.rand(3, 4, 5)
    expected = (picture.numpy().transpose(1, 2, 0).astype(np.float64) * 255).astype(np.uint8)
    np.testing.assert_array_equal(arranged(picture, "CHW"), expected)
    np.testing.assert_array_equal(arranged(picture.permute(1, 2, 0), "HWC"), expected)
    gray = arranged(picture[0], "HW")
    assert gray.shape == (4, 5, 3)
    assert (gray[..., 0] == gray[..., 2]).all()
    grid = arranged(torch.stack([picture] * 9), "NCHW")
    assert grid.shape == (8, 40, 3)
    np.testing.assert_array_equal(grid[4:, :5], expected)
    assert not grid[4:, 5:].any()
    bytes_ = (picture * 255).to(torch.uint8)
    np.testing.assert_array_equal(arranged(bytes_, "CHW"), bytes_.numpy().transpose(1, 2, 0))
    for wrong in ("CH", "CCW", "XYZ"):
        with pytest.raises(ValueError, match="the format names each dimension by a letter of NCHW"):
            arranged(picture, wrong)


def test_sounds() -> None:
    data = wav(torch.tensor([[0.0, 0.5, -1.0, 2.0]]), 8000)
    with wave.open(io.BytesIO(data)) as file:
        assert (file.getnchannels(), file.getframerate(), file.getnframes()) == (1, 8000, 4)
        assert np.frombuffer(file.readframes(4), "<i2").tolist() == [0, 16383, -32767, 32767]
    with pytest.raises(ValueError, match="a sound has one channel"):
        wav(torch.zeros(2, 2), 8000)


def test_films(monkeypatch: pytest.MonkeyPatch) -> None:
    film = torch.rand(2, 3, 3, 4, 5)
    images = pytest.importorskip("PIL.Image")
    data, height, width = gif(film, 4)
    assert (height, width) == (4, 10)
    assert images.open(io.BytesIO(data)).n_frames == 3
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingPackage, match="films are written by Pillow"):
        gif(film, 4)


# -------------------------------------------------------------------------------------------------------------- logs


@pytest.fixture
def logged(tmp_path: Path) -> Any:
    """A writer, and a function that closes it and reads its folder (or one below)."""
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    writer = SummaryWriter(tmp_path / "log")

    def read(below: str = "") -> Any:
        writer.close()
        events = EventAccumulator(str(tmp_path / "log" / below), size_guidance={"tensors": 0, "images": 0})
        events.Reload()
        return events

    return writer, read


def test_numbers(logged: Any) -> None:
    writer, read = logged
    for step in range(3):
        writer.add_scalar("loss", torch.tensor(step * 0.5), step, walltime=1000.0 + step)
    writer.add_scalar("exact", 0.1, 7, new_style=True, double_precision=True)
    writer.add_scalar("single", 0.5, new_style=True)
    writer.add_scalars("both", {"a": 1.0, "b": 2.0}, 4)
    with pytest.raises(ValueError, match="a scalar is one number"):
        writer.add_scalar("loss", torch.ones(2))
    events = read()
    assert [(e.step, e.value, e.wall_time) for e in events.Scalars("loss")] == [
        (0, 0.0, 1000.0), (1, 0.5, 1001.0), (2, 1.0, 1002.0)]
    assert events.Tensors("exact")[0].tensor_proto.double_val[0] == 0.1
    assert events.Tensors("single")[0].tensor_proto.float_val[0] == 0.5
    assert read("both_b").Scalars("both")[0].value == 2.0
    assert writer.get_logdir().endswith("log")


def test_histograms(logged: Any) -> None:
    writer, read = logged
    values = torch.randn(1000)
    writer.add_histogram("weights", values, 1)
    writer.add_histogram("even", values, 1, bins="auto", max_bins=4)
    writer.add_histogram_raw("raw", 0.0, 2.0, 3, 3.0, 5.0, [1.0, 2.0], [1, 2], 0)
    writer.add_tensor("tensor", torch.tensor([[1.0, 2.0]]))
    for call, rule in ((lambda: writer.add_histogram("no", []), "a histogram has at least one value"),
                       (lambda: writer.add_histogram("no", [5.0], bins=[0.0, 1.0]), "a value lies in a bin"),
                       (lambda: writer.add_histogram_raw("no", 0, 1, 1, 1, 1, [1.0], []),
                        "each bin has an upper limit and a count")):
        with pytest.raises(ValueError, match=rule):
            call()
    events = read()
    histogram = events.Histograms("weights")[0].histogram_value
    assert histogram.num == 1000
    assert histogram.sum == pytest.approx(values.sum().item(), abs=1e-3)
    counts, limits = np.array(histogram.bucket), np.array(histogram.bucket_limit)
    assert counts.sum() == 1000
    below = (values.numpy()[:, None] <= limits[None]).sum(0)
    assert np.abs(below - counts.cumsum()).max() <= 1
    assert len([c for c in events.Histograms("even")[0].histogram_value.bucket if c]) <= 4
    assert list(events.Histograms("raw")[0].histogram_value.bucket) == [1.0, 2.0]
    assert list(events.Tensors("tensor")[0].tensor_proto.float_val) == [1.0, 2.0]


def test_media(logged: Any) -> None:
    writer, read = logged
    picture = torch.rand(3, 6, 8)
    writer.add_image("picture", picture, 1)
    writer.add_images("grid", torch.rand(4, 1, 3, 3), 1)
    writer.add_image_with_boxes("boxes", picture, torch.tensor([[1, 1, 5, 4]]), 1)
    writer.add_audio("sound", torch.zeros(100), 1, sample_rate=8000)
    writer.add_text("note", "**bold**", 1)
    figures = pytest.importorskip("matplotlib.figure")
    figure = figures.Figure()
    figure.add_subplot().plot([1, 2])
    writer.add_figure("figure", [figure, figure], 1)
    events = read()
    np.testing.assert_array_equal(decoded(events.Images("picture")[0].encoded_image_string), arranged(picture, "CHW"))
    assert (events.Images("grid")[0].width, events.Images("grid")[0].height) == (12, 3)
    framed = decoded(events.Images("boxes")[0].encoded_image_string)
    assert framed[1, 1].tolist() == framed[4, 5].tolist() == framed[2, 1].tolist() == [255, 0, 0]
    assert framed[2, 2].tolist() == arranged(picture, "CHW")[2, 2].tolist()
    assert events.Audio("sound")[0].sample_rate == 8000
    assert events.Tensors("note/text_summary")[0].tensor_proto.string_val[0] == b"**bold**"
    assert {"figure/0", "figure/1"} <= set(events.Tags()["images"])


def test_curves_and_layout(logged: Any) -> None:
    writer, read = logged
    labels, scores = np.array([0, 1, 1, 0, 1]), np.array([0.1, 0.4, 0.8, 0.6, 0.9])
    writer.add_pr_curve("curve", labels, scores, 0, num_thresholds=11)
    writer.add_pr_curve_raw("raw", *np.ones((6, 3)), num_thresholds=3)
    writer.add_custom_scalars_multilinechart(["a", "b"])
    writer.add_custom_scalars_marginchart(["a", "b", "c"])
    events = read()
    values = np.array(events.Tensors("curve")[0].tensor_proto.float_val).reshape(6, 11)
    for k in range(11):
        chosen = scores >= k / 10 - 1e-9
        hits, misses = (chosen & (labels == 1)).sum(), (chosen & (labels == 0)).sum()
        assert values[:2, k].tolist() == [hits, misses]
        assert values[5, k] == pytest.approx(hits / 3)
    assert events.Tensors("raw")
    assert events.Tensors("custom_scalars__config__")


def test_settings_of_runs(logged: Any) -> None:
    writer, read = logged
    writer.add_hparams({"lr": 0.1, "name": "adam", "fast": True}, {"accuracy": 0.9},
                       {"lr": [0.1, 0.2], "name": ["adam"], "fast": [True]}, run_name="first", global_step=2)
    with pytest.raises(TypeError, match="hyperparameters are a dict"):
        writer.add_hparams(["lr"], {})
    events = read("first")
    assert events.Scalars("accuracy")[0].value == pytest.approx(0.9)
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    content = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    settings = HParamsPluginData.FromString(content).session_start_info.hparams
    assert settings["lr"].number_value == 0.1
    assert settings["name"].string_value == "adam"
    assert settings["fast"].bool_value


def test_graph(logged: Any, capsys: pytest.CaptureFixture[str]) -> None:
    writer, read = logged
    writer.add_graph(nn.Sequential(nn.Linear(2, 3), nn.ReLU()), torch.ones(1, 2), verbose=True)
    assert "relu" in capsys.readouterr().out
    nodes = {node.name: node for node in read().Graph().node}
    assert nodes["input/0"].op == "IO Node"
    relu = next(node for node in nodes.values() if node.op == "relu")
    assert list(nodes["output/0"].input) == [relu.name]
    assert {"parameters/0.weight", "parameters/0.bias"} <= set(nodes)
    assert all(name in nodes for node in nodes.values() for name in node.input)
    assert [d.size for d in relu.attr["_output_shapes"].list.shape[0].dim] == [1, 3]


def test_embedding(logged: Any, tmp_path: Path) -> None:
    writer, read = logged
    points = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    writer.add_embedding(points, [["a", 1], ["b", 2], ["c", 3]], torch.rand(3, 3, 4, 4), 5, "mine", ["name", "number"])
    writer.add_embedding(points, ["a", "b", "c"])
    with pytest.raises(ValueError, match="each point has a label and a picture, or none has"):
        writer.add_embedding(points, ["a"])
    read()
    folder = tmp_path / "log" / "00005" / "mine"
    assert (folder / "tensors.tsv").read_text().splitlines()[1] == "3.0\t4.0"
    assert (folder / "metadata.tsv").read_text().splitlines()[:2] == ["name\tnumber", "a\t1"]
    assert decoded((folder / "sprite.png").read_bytes()).shape == (8, 8, 3)
    from google.protobuf import text_format
    from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

    config = text_format.Parse((tmp_path / "log" / "projector_config.pbtxt").read_text(), ProjectorConfig())
    assert [e.tensor_path for e in config.embeddings] == ["00005/mine/tensors.tsv", "00000/default/tensors.tsv"]


def test_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tensorboard")
    monkeypatch.chdir(tmp_path)
    with SummaryWriter(comment="_mine", filename_suffix=".mine", purge_step=3) as writer:
        writer.add_scalar("x", 1.0, 3)
        writer.flush()
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("_mine")
    files = list(folder.iterdir())
    assert all(file.name.endswith(".mine") for file in files)
    writer.add_scalar("x", 2.0, 4)
    writer.close()
    assert len(list(folder.iterdir())) == len(files) + 1
