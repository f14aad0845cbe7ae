"""Encoders of pictures and sounds: PNG, GIF and WAV."""

from __future__ import annotations

import io
import struct
import wave
import zlib
from typing import Any

import numpy as np

import tensocket as torch

from ...errors import ArgumentError, MissingPackage


def numpy_of(value: Any) -> Any:
    """Return a tensor, array, list or number as a NumPy array on the host."""
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        return (value.float() if value.dtype is torch.bfloat16 else value).numpy()
    return np.asarray(value)


def arranged(picture: Any, dataformats: str) -> Any:
    """Return a picture as [H, W, C] of bytes with 1, 3 or 4 channels; batches become a grid. Floats scale by 255.

    Raises:
        ArgumentError: The format does not describe the array.
    """
    array, formats = numpy_of(picture), dataformats.upper()
    if array.ndim != len(formats) or len(set(formats)) != len(formats) or not set(formats) <= set("NCHW"):
        raise ArgumentError("add_image", f"an array of {array.ndim} dimensions as {dataformats!r}",
                            "the format names each dimension by a letter of NCHW", "pass dataformats='HWC'")
    if "C" not in formats:
        array, formats = array[..., None], formats + "C"
    if "N" in formats:
        array = _grid(array.transpose([formats.index(axis) for axis in "NHWC"]))
    else:
        array = array.transpose([formats.index(axis) for axis in "HWC"])
    if array.dtype != np.uint8:
        array = (np.clip(array.astype(np.float64), 0, 1) * 255).astype(np.uint8)
    return np.repeat(array, 3, 2) if array.shape[2] == 1 else array


def _grid(batch: Any) -> Any:
    """Arrange pictures of one size in rows of up to 8."""
    count, height, width, channels = batch.shape
    columns = min(count, 8)
    rows = -(-count // columns)
    canvas = np.zeros((rows * height, columns * width, channels), batch.dtype)
    for k, picture in enumerate(batch):
        top, left = k // columns * height, k % columns * width
        canvas[top:top + height, left:left + width] = picture
    return canvas


def png(pixels: Any) -> bytes:
    """Encode [H, W, 3 or 4] bytes as PNG (ISO/IEC 15948)."""
    height, width, channels = pixels.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    lines = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, width * channels)], 1)
    header = struct.pack(">IIBBBBB", width, height, 8, 6 if channels == 4 else 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines.tobytes()))
            + chunk(b"IEND", b""))


def gif(video: Any, fps: float) -> tuple[bytes, int, int]:
    """Encode [N, T, C, H, W], with films next to each other, as GIF; return it with height and width.

    Raises:
        MissingPackage: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise MissingPackage("add_video", "an environment without Pillow", "films are written by Pillow",
                             "pip install pillow") from error
    frames = [arranged(frame, "NCHW") for frame in numpy_of(video).swapaxes(0, 1)]
    pictures = [Image.fromarray(frame) for frame in frames]
    buffer = io.BytesIO()
    pictures[0].save(buffer, format="GIF", save_all=True, append_images=pictures[1:], duration=1000 / fps, loop=0)
    return buffer.getvalue(), frames[0].shape[0], frames[0].shape[1]


def wav(sound: Any, rate: int) -> bytes:
    """Encode numbers from -1 to 1 as 16-bit WAV.

    Raises:
        ArgumentError: The sound has more than one channel.
    """
    samples = numpy_of(sound).squeeze()
    if samples.ndim != 1:
        raise ArgumentError("add_audio", f"an array of shape {samples.shape}", "a sound has one channel",
                            "pass one dimension")
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return buffer.getvalue()
