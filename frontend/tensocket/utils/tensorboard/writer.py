"""``SummaryWriter``: numbers, histograms, pictures, sounds, texts, graphs and embeddings for TensorBoard."""

from __future__ import annotations

import datetime
import io
import os
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ArgumentError
from . import summaries
from .encoding import arranged, gif, numpy_of, png, wav
from .graph import graph_of
from .protocol import module, proto


class FileWriter:
    """A writer of events to one file of a folder.

    Args:
        log_dir: The folder; created if it is missing.
        max_queue: Number of events that may wait to be written.
        flush_secs: Seconds after which waiting events are written.
        filename_suffix: The end of the file's name.

    Raises:
        MissingPackage: tensorboard is not installed.
    """

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "") -> None:
        writer = module("summary.writer.event_file_writer").EventFileWriter
        self.event_writer = writer(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """Return the folder."""
        return str(self.event_writer.get_logdir())

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Write an event."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Write a summary."""
        self.add_event(proto("event", "Event", summary=summary), global_step, walltime)

    def add_graph(self, graph: Any, walltime: float | None = None) -> None:
        """Write a graph."""
        self.add_event(proto("event", "Event", graph_def=graph.SerializeToString()), None, walltime)

    def flush(self) -> None:
        """Write pending events."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write pending events and close the file."""
        self.event_writer.close()


class SummaryWriter:
    """Logs for TensorBoard.

    ``with SummaryWriter("runs/first") as writer: writer.add_scalar("loss", loss, step)``, then
    ``tensorboard --logdir runs``.

    Args:
        log_dir: The folder; ``runs/`` with time, host and comment if not given.
        comment: The end of that name.
        purge_step: Events of an earlier run from this step on are not shown.
        max_queue: Number of events that may wait to be written.
        flush_secs: Seconds after which waiting events are written.
        filename_suffix: The end of the files' names.

    Raises:
        MissingPackage: tensorboard is not installed.
    """

    def __init__(self, log_dir: Any = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
                 flush_secs: int = 120, filename_suffix: str = "") -> None:
        if not log_dir:
            now = datetime.datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] = {}
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        if self.file_writer is None:
            self.file_writer = self._writer_in(self.log_dir)
            if self.purge_step is not None:
                self.file_writer.add_event(proto("event", "Event", file_version="brain.Event:2"), self.purge_step)
                start = proto("event", "SessionLog", status="START")
                self.file_writer.add_event(proto("event", "Event", session_log=start), self.purge_step)
                self.purge_step = None
        return self.file_writer

    def _writer_in(self, folder: str) -> FileWriter:
        if folder not in self.all_writers:
            self.all_writers[folder] = FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)
        return self.all_writers[folder]

    def _add(self, summary: Any, step: Any, walltime: float | None) -> None:
        self._get_file_writer().add_summary(summary, step, walltime)

    def get_logdir(self) -> str:
        """Return the folder."""
        return self.log_dir

    # ---------------------------------------------------------------------------------------------- numbers

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None,
                   new_style: bool = False, double_precision: bool = False) -> None:
        """Log one number.

        Args:
            tag: Its name.
            scalar_value: A number, or a tensor of one element.
            global_step: The step that it belongs to.
            walltime: Seconds since 1970; now if not given.
            new_style: Whether it is written as a tensor.
            double_precision: Whether that tensor is float64.
        """
        self._add(summaries.scalar(tag, scalar_value, new_style, double_precision), global_step, walltime)

    def add_scalars(self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: int | None = None,
                    walltime: float | None = None) -> None:
        """Log several numbers of one chart: each gets its own folder."""
        for tag, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            self._writer_in(folder).add_summary(summaries.scalar(main_tag, value, False, False), global_step, walltime)

    def add_tensor(self, tag: str, tensor: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Log a tensor."""
        self._add(summaries.tensor(tag, tensor), global_step, walltime)

    def add_histogram(self, tag: str, values: Any, global_step: int | None = None, bins: Any = "tensorflow",
                      walltime: float | None = None, max_bins: int | None = None) -> None:
        """Log a histogram of numbers.

        Args:
            tag: Its name.
            values: The numbers.
            global_step: The step that they belong to.
            bins: A rule of ``numpy.histogram``, edges, or ``tensorflow`` for powers of 1.1.
            walltime: Seconds since 1970; now if not given.
            max_bins: Largest number of bins.
        """
        self._add(summaries.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(self, tag: str, min: float, max: float, num: int, sum: float, sum_squares: float,
                          bucket_limits: Sequence[float], bucket_counts: Sequence[float],
                          global_step: int | None = None, walltime: float | None = None) -> None:
        """Log a histogram whose counts are known.

        Raises:
            ArgumentError: The numbers of limits and counts differ.
        """
        if len(bucket_limits) != len(bucket_counts):
            raise ArgumentError("add_histogram_raw", f"{len(bucket_limits)} limits and {len(bucket_counts)} counts",
                                "each bin has an upper limit and a count", "pass lists of one length")
        self._add(summaries.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts),
                  global_step, walltime)

    def add_hparams(self, hparam_dict: dict[str, Any], metric_dict: dict[str, Any],
                    hparam_domain_discrete: dict[str, Sequence[Any]] | None = None, run_name: str | None = None,
                    global_step: int | None = None) -> None:
        """Log the settings of a run and its results.

        Args:
            hparam_dict: Settings: numbers, texts, bools.
            metric_dict: Results by name.
            hparam_domain_discrete: Possible values of settings.
            run_name: Folder below this one; the time if not given.
            global_step: The step that results belong to.
        """
        writer = self._writer_in(f"{self.log_dir}/{run_name or time.time()}")
        for summary in summaries.hyperparameters(hparam_dict, metric_dict, hparam_domain_discrete):
            writer.add_summary(summary, global_step)
        for tag, value in metric_dict.items():
            writer.add_summary(summaries.scalar(tag, value, False, False), global_step)

    def add_pr_curve(self, tag: str, labels: Any, predictions: Any, global_step: int | None = None,
                     num_thresholds: int = 127, weights: Any = None, walltime: float | None = None) -> None:
        """Log precision and recall of probabilities for labels 0 and 1."""
        self._add(summaries.precision_recall(tag, labels, predictions, num_thresholds, weights), global_step, walltime)

    def add_pr_curve_raw(self, tag: str, true_positive_counts: Any, false_positive_counts: Any,
                         true_negative_counts: Any, false_negative_counts: Any, precision: Any, recall: Any,
                         global_step: int | None = None, num_thresholds: int = 127, weights: Any = None,
                         walltime: float | None = None) -> None:
        """Log precision and recall whose counts are known."""
        curves = np.stack([numpy_of(x) for x in (true_positive_counts, false_positive_counts, true_negative_counts,
                                                 false_negative_counts, precision, recall)])
        self._add(summaries.precision_recall_raw(tag, curves, num_thresholds), global_step, walltime)

    def add_custom_scalars(self, layout: dict[str, dict[str, Any]]) -> None:
        """Log charts of several numbers: ``{category: {title: ("Multiline", tags)}}``."""
        self._add(summaries.layout(layout), None, None)

    def add_custom_scalars_multilinechart(self, tags: Sequence[str], category: str = "default",
                                          title: str = "untitled") -> None:
        """Log a chart with a line for each tag."""
        self.add_custom_scalars({category: {title: ("Multiline", list(tags))}})

    def add_custom_scalars_marginchart(self, tags: Sequence[str], category: str = "default",
                                       title: str = "untitled") -> None:
        """Log a chart of a value with a lower and an upper bound: three tags."""
        self.add_custom_scalars({category: {title: ("Margin", list(tags))}})

    # ---------------------------------------------------------------------------------------------- media

    def add_image(self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
                  dataformats: str = "CHW") -> None:
        """Log a picture of bytes, or of floats from 0 to 1.

        Args:
            tag: Its name.
            img_tensor: The picture.
            global_step: The step that it belongs to.
            walltime: Seconds since 1970; now if not given.
            dataformats: Names of its dimensions: ``CHW``, ``HWC``, ``HW``, or with N for a grid of pictures.
        """
        self._add(summaries.picture(tag, arranged(img_tensor, dataformats)), global_step, walltime)

    def add_images(self, tag: str, img_tensor: Any, global_step: int | None = None, walltime: float | None = None,
                   dataformats: str = "NCHW") -> None:
        """Log a grid of pictures."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(self, tag: str, img_tensor: Any, box_tensor: Any, global_step: int | None = None,
                             walltime: float | None = None, rescale: float = 1, dataformats: str = "CHW",
                             labels: Any = None) -> None:
        """Log a picture with red frames at [left, top, right, bottom]; ``rescale`` and ``labels`` have no
        effect.
        """
        pixels = arranged(img_tensor, dataformats).copy()
        for left, top, right, bottom in numpy_of(box_tensor).reshape(-1, 4).astype(int):
            for rows, columns in ((slice(top, bottom + 1), [left, right]), ([top, bottom], slice(left, right + 1))):
                pixels[rows, columns, :3] = (255, 0, 0)
        self._add(summaries.picture(tag, pixels), global_step, walltime)

    def add_figure(self, tag: str, figure: Any, global_step: int | None = None, close: bool = True,
                   walltime: float | None = None) -> None:
        """Log a figure of matplotlib, or a list of them (one below the other).

        Args:
            tag: Its name.
            figure: The figure.
            global_step: The step that it belongs to.
            close: Whether the figure is closed.
            walltime: Seconds since 1970; now if not given.
        """
        figures = figure if isinstance(figure, (list, tuple)) else [figure]
        for number, item in enumerate(figures):
            buffer = io.BytesIO()
            item.savefig(buffer, format="png")
            width, height = (int(x) for x in item.get_size_inches() * item.dpi)
            name = tag if len(figures) == 1 else f"{tag}/{number}"
            self._add(summaries.encoded_picture(name, buffer.getvalue(), height, width, 4), global_step, walltime)
            if close and getattr(item, "number", None) is not None:
                _pyplot().close(item)

    def add_video(self, tag: str, vid_tensor: Any, global_step: int | None = None, fps: float = 4,
                  walltime: float | None = None) -> None:
        """Log films, [N, T, C, H, W], next to each other; needs Pillow."""
        data, height, width = gif(vid_tensor, fps)
        self._add(summaries.encoded_picture(tag, data, height, width), global_step, walltime)

    def add_audio(self, tag: str, snd_tensor: Any, global_step: int | None = None, sample_rate: int = 44100,
                  walltime: float | None = None) -> None:
        """Log a sound of numbers from -1 to 1."""
        data = wav(snd_tensor, sample_rate)
        self._add(summaries.sound(tag, data, sample_rate, numpy_of(snd_tensor).size), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: int | None = None,
                 walltime: float | None = None) -> None:
        """Log a text in Markdown."""
        self._add(summaries.text(tag, text_string), global_step, walltime)

    # ---------------------------------------------------------------------------------------------- structures

    def add_graph(self, model: Any, input_to_model: Any = None, verbose: bool = False,
                  use_strict_trace: bool = True) -> None:
        """Log the operators that a model calls.

        Args:
            model: A module or function.
            input_to_model: A tensor, or a tuple of arguments.
            verbose: Whether the graph is printed.
            use_strict_trace: Ignored.
        """
        graph = graph_of(model, () if input_to_model is None else input_to_model)
        if verbose:
            print(graph)
        self._get_file_writer().add_graph(graph)

    def add_embedding(self, mat: Any, metadata: Sequence[Any] | None = None, label_img: Any = None,
                      global_step: int | None = None, tag: str = "default",
                      metadata_header: Sequence[str] | None = None) -> None:
        """Log points for the projector.

        Args:
            mat: Points, [N, D].
            metadata: A label for each, or a row of labels.
            label_img: A picture for each, [N, C, H, W].
            global_step: The step that they belong to.
            tag: Their name.
            metadata_header: Names of the columns of labels.

        Raises:
            ArgumentError: The number of labels or pictures differs from the number of points.
        """
        points = numpy_of(mat)
        for name, given in (("labels", metadata), ("pictures", label_img)):
            if given is not None and len(given) != len(points):
                raise ArgumentError("add_embedding", f"{len(points)} points and {len(given)} {name}",
                                    "each point has a label and a picture, or none has", "pass one for each")
        place = f"{0 if global_step is None else global_step:05d}/{tag}"
        folder = Path(self.log_dir) / place
        folder.mkdir(parents=True, exist_ok=True)
        _write_rows(folder / "tensors.tsv", points)
        info = proto("projector", "EmbeddingInfo", tensor_name=f"{tag}:{folder.parent.name}",
                     tensor_path=f"{place}/tensors.tsv")
        if metadata is not None:
            header = [list(metadata_header)] if metadata_header else []
            rows = [row if isinstance(row, (list, tuple)) else [row] for row in metadata]
            _write_rows(folder / "metadata.tsv", [*header, *rows])
            info.metadata_path = f"{place}/metadata.tsv"
        if label_img is not None:
            self._write_sprite(folder, place, label_img, info)
        config = proto("projector", "ProjectorConfig", embeddings=[info])
        text = str(config)
        with (Path(self.log_dir) / "projector_config.pbtxt").open("a", encoding="utf-8") as file:
            file.write(text)

    def _write_sprite(self, folder: Path, place: str, pictures: Any, info: Any) -> None:
        """Write all pictures as one, with as many rows as columns."""
        array = numpy_of(pictures)
        size = int(np.ceil(np.sqrt(len(array))))
        height, width = array.shape[2:]
        canvas = np.zeros((size * height, size * width, 3), np.uint8)
        for k, item in enumerate(array):
            top, left = k // size * height, k % size * width
            canvas[top:top + height, left:left + width] = arranged(item, "CHW")[..., :3]
        (folder / "sprite.png").write_bytes(png(canvas))
        info.sprite.image_path = f"{place}/sprite.png"
        info.sprite.single_image_dim.extend([width, height])

    # ---------------------------------------------------------------------------------------------- files

    def _each(self, action: Callable[[FileWriter], None]) -> None:
        for writer in self.all_writers.values():
            action(writer)

    def flush(self) -> None:
        """Write pending events."""
        self._each(FileWriter.flush)

    def close(self) -> None:
        """Write pending events and close all files; later events go to new ones."""
        self._each(FileWriter.close)
        self.all_writers.clear()
        self.file_writer = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _write_rows(path: Path, rows: Any) -> None:
    lines = ["\t".join(str(x.item() if hasattr(x, "item") else x) for x in row) for row in rows]
    path.write_text("".join(line + "\n" for line in lines), "utf-8")


def _pyplot() -> Any:
    import matplotlib.pyplot

    return matplotlib.pyplot
