"""Damaged and hostile files: a clear error, no code, no absurd memory."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tensocket as torch
from tensocket import nn, serialization
from tensocket.errors import ArgumentTypeError, DamagedFileError, SerializationError, UnsafeGlobalError


def write(value, **options):
    stream = io.BytesIO()
    torch.save(value, stream, **options)
    return stream.getvalue()


def read(data, **options):
    return torch.load(io.BytesIO(data), **options)


VALUE = {"w": nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0]])), "n": 3, "o": OrderedDict(a=(1, "x", 2.5))}
SMALL = write(VALUE)
LEGACY = write(VALUE, _use_new_zipfile_serialization=False)


def is_value(found):
    return (found["w"].tolist() == [[1, 2], [3, 4]] and isinstance(found["w"], nn.Parameter) and found["n"] == 3
            and found["o"] == OrderedDict(a=(1, "x", 2.5)))


def check_refused(data, **options):
    tracemalloc.start()
    try:
        with pytest.raises(DamagedFileError) as caught:
            read(data, **options)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000
    assert str(caught.value).startswith("[load] file object BytesIO: ")
    assert str(caught.value).endswith(" — the file must be what save() wrote, complete and unchanged — it is "
                                      "truncated, damaged or of another kind; get it again")
    assert isinstance(caught.value, (RuntimeError, pickle.UnpicklingError, EOFError))


# ---- damage


@given(st.integers(0, len(SMALL) - 1))
@settings(max_examples=60, deadline=None)
def test_truncations_are_noticed(size):
    with pytest.raises(SerializationError):
        read(SMALL[:size])


@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), min_size=1, max_size=4))
@settings(max_examples=300, deadline=None)
def test_changed_bytes_never_change_what_is_read(changes):
    """Most changes are noticed; those in bytes that mean nothing (times, padding) may pass."""
    data = bytearray(SMALL)
    for position, byte in changes:
        data[position] = byte
    try:
        found = read(bytes(data))
    except SerializationError:
        return
    assert is_value(found)


def test_flipped_bits_in_the_data_are_noticed():
    at = SMALL.index(np.array([1, 2, 3, 4], dtype="<f4").tobytes())
    for position in range(at, at + 16):
        flipped = bytearray(SMALL)
        flipped[position] ^= 4
        check_refused(bytes(flipped))


def pickle_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read("archive/data.pkl"), archive.read("archive/data/0")


@given(st.lists(st.tuples(st.integers(0, len(pickle_of(SMALL)[0]) - 1), st.integers(0, 255)), min_size=1, max_size=6))
@settings(max_examples=300, deadline=None)
def test_changed_pickles_with_good_check_sums(changes):
    """For any instructions, ``load`` returns a value or raises ``SerializationError``."""
    text, content = pickle_of(SMALL)
    text = bytearray(text)
    for position, byte in changes:
        text[position] = byte
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", bytes(text))
        archive.writestr("archive/data/0", content)
    try:
        read(stream.getvalue())
    except SerializationError:
        return


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_bytes_as_a_pickle(text):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02" + text + b".")
    try:
        read(stream.getvalue())
    except SerializationError:
        return


@given(st.lists(st.tuples(st.integers(0, len(LEGACY) - 1), st.integers(0, 255)), max_size=4),
       st.integers(0, len(LEGACY)))
@settings(max_examples=200, deadline=None)
def test_changed_files_of_the_format_before_archives(changes, size):
    data = bytearray(LEGACY)
    for position, byte in changes:
        data[position] = byte
    try:
        read(bytes(data[:size]))
    except SerializationError:
        return


def test_other_files(packed):
    for data in (b"", b"x" * 100, packed({}), packed({"a": b"1"}), packed({"a/data.pkl": b""}),
                 packed({"a/data.pkl": b"N.", "b/data.pkl": b"N."}), b"PK\x03\x04" + b"x" * 100):
        check_refused(data)


def test_archives_of_programs_and_of_tar(packed):
    with pytest.raises(SerializationError, match="a TorchScript archive — compiled programs are not read"):
        read(packed({"a/data.pkl": b"N.", "a/constants.pkl": b"N."}))
    with pytest.raises(SerializationError, match="files of the first format of PyTorch are not read"):
        read(b"x" * 257 + b"ustar" + b"\0" * 300)


# ---- archives that lie


def entries_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


@pytest.mark.parametrize("name", ["../../evil", "/evil", "archive/data/../../../evil", "archive/data/00"])
def test_names_of_entries_are_never_paths(packed, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_value(read(packed({**entries_of(SMALL), name: b"evil"})))
    assert os.listdir(tmp_path) == []


def test_keys_of_storages_are_never_paths(packed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_bytes(b"\0" * 16)
    entries = entries_of(SMALL)
    text = entries["archive/data.pkl"].replace(b"X\x01\x00\x00\x000", b"X\x09\x00\x00\x00../secret")
    assert text != entries["archive/data.pkl"]
    check_refused(packed({**entries, "archive/data.pkl": text}))


def test_compressed_entries_are_refused(packed):
    check_refused(packed(entries_of(SMALL), zipfile.ZIP_DEFLATED))
    check_refused(packed({"a/data.pkl": b"N.", "a/data/0": b"\0" * 10_000_000}, zipfile.ZIP_DEFLATED))


def test_entries_that_share_bytes_are_refused():
    """An archive whose many entries are one, which together are larger than the file."""
    data = bytearray(write([torch.zeros(100), torch.ones(100)]))
    first, second = (data.rindex(b"archive/data/%d" % k) - 46 for k in (0, 1))
    data[second + 42:second + 46] = data[first + 42:first + 46]
    check_refused(bytes(data))


def test_entries_that_say_wrong_sizes_are_refused():
    at = SMALL.rindex(b"archive/data/0") - 46
    for size in (0, 15, 17, 10**6, 2**32 - 2):
        data = bytearray(SMALL)
        data[at + 20:at + 28] = struct.pack("<2L", size, size)
        check_refused(bytes(data))


# ---- pickles that run code


class Evil:
    """Runs a command when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}, {"pickle_protocol": 4}])
def test_code_runs_for_trusted_files_only(tmp_path, options):
    data = write([1, Evil(tmp_path / "made")], **options)
    for allowed in ([], [os.mkdir, (os.mkdir, "posix.mkdir"), (os.mkdir, "os.mkdir")]):
        with serialization.safe_globals(allowed), pytest.raises(
                UnsafeGlobalError, match=r"names posix\.mkdir — module posix is never allowed in restricted files"):
            read(data)
    assert not (tmp_path / "made").exists()
    read(data, weights_only=False)
    assert (tmp_path / "made").exists()


def test_the_error_says_what_to_do():
    with pytest.raises(pickle.UnpicklingError) as caught:
        read(write(range(3)))
    assert str(caught.value) == (
        "[load] a file that names builtins.range — Weights only load failed: restricted files name no other classes "
        "and functions than those of tensors and containers — if you trust it, allow it by "
        "tensocket.serialization.add_safe_globals([range]), or pass weights_only=False if you trust the whole file, "
        "which can then run any code")


@pytest.mark.parametrize("name", ["builtins\neval", "builtins\ngetattr", "builtins\n__import__", "os\nsystem",
                                  "subprocess\nPopen", "torch\nload", "torch.hub\nload", "tensocket.cli\nmain",
                                  "torch.serialization\nload", "torch._utils\nos", "torch.nn\nModule",
                                  "_codecs\ndecode", "operator\nattrgetter", "functools\npartial"])
def test_names_that_are_not_allowed(with_pickle, name):
    for text in (f"\x80\x02c{name}\n.", f"\x80\x02c{name}\n)R.", f"\x80\x02c{name}\n)\x81."):
        with pytest.raises(UnsafeGlobalError):
            read(with_pickle(text.encode("latin1")))


def call(name, *arguments):
    """Instructions that call something with integers, texts or other instructions."""
    parts = []
    for value in arguments:
        if isinstance(value, bytes):
            parts.append(value)
        elif isinstance(value, str):
            parts.append(b"X" + struct.pack("<I", len(value)) + value.encode())
        else:
            packed = pickle.dumps(value, 2)[2:-1]
            parts.append(packed)
    return b"c" + name.replace(".", "\n").encode() + b"\n(" + b"".join(parts) + b"tR"


def name_of(module, name):
    return f"c{module}\n{name}\n".encode()


def storage(kind="FloatStorage", key="0", count=4, place="cpu"):
    module = "torch.storage" if kind == "UntypedStorage" else "torch"
    text = b"".join(b"X" + struct.pack("<I", len(part)) + part.encode() for part in (key, place))
    return b"(X\x07\x00\x00\x00storage" + name_of(module, kind) + text + pickle.dumps(count, 2)[2:-1] + b"tQ"


def tensor(place=None, offset=0, size=(2, 2), stride=(2, 1), more=()):
    place = storage() if place is None else place
    parts = [place, *(pickle.dumps(v, 2)[2:-1] for v in (offset, size, stride, False, None, *more))]
    return name_of("torch._utils", "_rebuild_tensor_v2") + b"(" + b"".join(parts) + b"tR"


DATA = np.arange(4, dtype="<f4").tobytes()


def test_a_pickle_by_hand(with_pickle):
    assert read(with_pickle(b"\x80\x02" + tensor() + b".", DATA)).tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("text", [
    tensor(offset=1), tensor(offset=-1), tensor(offset=2**70), tensor(offset=1.0), tensor(offset=True),
    tensor(size=(2, 3)), tensor(size=(-2, -2)), tensor(size=(4,)), tensor(size=(2.0, 2)), tensor(size=4),
    tensor(size=(2**40, 2**40), stride=(0, 0)), tensor(size=(2**31, 2**31), stride=(2**31, 1)),
    tensor(stride=(3, 1)), tensor(stride=(-2, 1)), tensor(stride=(2**62, 1)), tensor(size=(1,) * 65, stride=(1,) * 65),
    tensor(size=(2**40,), stride=(0,), more=({"conj": True},)), tensor(size=(2**40,), stride=(0,), more=({"neg": 1},)),
    tensor(storage(count=5)), tensor(storage(count=-1)), tensor(storage(count=2**62)), tensor(storage(count=2.0)),
    tensor(storage(key="1")), tensor(storage(key="../data.pkl")), tensor(storage("DoubleStorage")),
    tensor(storage("UntypedStorage", count=17)), tensor(b"N"), tensor(b"K\x01"),
    storage("Tensor"), storage("float32"), b"K\x01Q", b"(X\x07\x00\x00\x00storagetQ",
], ids=range(32))
def test_tensors_that_lie(with_pickle, text):
    check_refused(with_pickle(b"\x80\x02" + text + b".", DATA))


@pytest.mark.parametrize(("text", "rule"), [
    (tensor(size=(-2, -2)), "shape, strides and offset are at most 64 natural numbers of 63 bits"),
    (tensor(size=(4,)), "every dimension has a size and a stride"),
    (tensor(b"N"), "a tensor lies in a typed storage"),
    (tensor(size=(2**40,), stride=(0,), more=({"conj": True},)), "such a tensor has memory for all its elements"),
    (tensor(offset=1), "a tensor stays within its storage"),
    (name_of("torch._utils", "_rebuild_qtensor") + b")R", "quantized dtypes cannot be read"),
    (name_of("torch._utils", "_rebuild_meta_tensor_no_storage") + b"(N))\x89tR", "a dtype is an element type"),
    (name_of("torch._utils", "_rebuild_parameter_with_state") + b"(" + tensor()
     + b"\x88N}}X\x01\x00\x00\x00aK\x01s\x86tR", "slots are those of the tensor's class"),
])
def test_errors_say_what_is_wrong(with_pickle, text, rule):
    for options in ({}, {"weights_only": False}):
        with pytest.raises(DamagedFileError) as caught:
            read(with_pickle(b"\x80\x02" + text + b".", DATA), **options)
        # Restricted loading refuses large copies before they are tried.
        assert rule in str(caught.value) or "it asks for more copies than its size explains" in str(caught.value)


def test_places_that_are_no_devices(with_pickle):
    for place in ("NO SUCH", "", "cpu:x", "../x", "x" * 10000):
        with pytest.raises(SerializationError):
            read(with_pickle(b"\x80\x02" + tensor(storage(place=place)) + b".", DATA))


def test_expanded_sizes_need_no_memory(with_pickle):
    """A stride of zero makes a large tensor of little data; that is a view, as it was when it was saved."""
    found = read(with_pickle(b"\x80\x02" + tensor(size=(2**20, 2**20), stride=(0, 0)) + b".", DATA))
    assert found.shape == (2**20, 2**20)
    meta = name_of("torch._utils", "_rebuild_meta_tensor_no_storage") + b"(" + name_of("torch", "float32") + b"".join(
        pickle.dumps(v, 2)[2:-1] for v in ((2**30, 2**30), (2**30, 1), False)) + b"tR"
    assert read(with_pickle(b"\x80\x02" + meta + b".")).shape == (2**30, 2**30)


SPARSE = name_of("torch._utils", "_rebuild_sparse_tensor") + b"("
COO = name_of("torch.serialization", "_get_layout") + b"(X\x10\x00\x00\x00torch.sparse_cootR"
POSITIONS = tensor(storage("LongStorage", count=2), size=(1, 2), stride=(2, 1))


def sparse(values, size):
    return SPARSE + COO + b"(" + POSITIONS + values + pickle.dumps(size, 2)[2:-1] + b"tt" + b"R"


def test_sparse_tensors_that_lie(with_pickle):
    values = tensor(storage(key="1", count=2), size=(2,), stride=(1,))
    positions, numbers = np.array([0, 5], "<i8").tobytes(), np.ones(2, "<f4").tobytes()
    good = with_pickle(b"\x80\x02" + sparse(values, (6,)) + b".", positions, numbers)
    assert read(good).to_dense().tolist() == [1, 0, 0, 0, 0, 1]
    check_refused(with_pickle(b"\x80\x02" + sparse(values, (5,)) + b".", positions, numbers))
    check_refused(with_pickle(b"\x80\x02" + sparse(values, (-6,)) + b".", positions, numbers))
    expanded = tensor(storage(key="1", count=2), size=(2, 2**40), stride=(1, 0))
    check_refused(with_pickle(b"\x80\x02" + sparse(expanded, (6, 2**40)) + b".", positions, numbers))


# ---- bombs


def numbered(text):
    return b"\x80\x02" + text + b"."


def test_calls_that_ask_for_memory(with_pickle):
    huge = 2**40
    for text in (call("__builtin__.bytearray", huge), call("builtins.bytes", huge), call("__builtin__.set", huge),
                 name_of("torch.storage", "UntypedStorage") + b"("
                 + pickle.dumps(huge, 2)[2:-1] + b"tR", call("torch.FloatStorage", huge), call("torch.Tensor", huge),
                 call("torch.Size", (1.5,)), call("_codecs.encode", "x", "zip"), call("__builtin__.complex", "1", "2"),
                 call("collections.Counter", "x" * 100), call("__builtin__.bytearray", 3, "latin1")):
        check_refused(with_pickle(numbered(text)))


def test_instructions_that_claim_to_be_long(with_pickle):
    for text in (b"X\xff\xff\xff\xff", b"\x8d" + b"\xff" * 8, b"\x8e" + b"\x00" * 7 + b"\x01", b"T\xff\xff\xff\x7f",
                 b"\x8b\xff\xff\xff\x7f", b"\x96" + b"\xff" * 8, b"B\xff\xff\xff\xff"):
        check_refused(with_pickle(b"\x80\x04" + text + b"."))


def test_sizes_whose_product_takes_long(with_pickle):
    for size in ((2**60,) * 20_000, (256**100_000 - 1,) * 3):
        for more in ((), ({"conj": True},)):
            check_refused(with_pickle(b"\x80\x02" + tensor(size=size, stride=size, more=more) + b".", DATA))


def test_a_large_number_in_the_memo_takes_no_memory(with_pickle):
    assert read(with_pickle(b"\x80\x02]r\xff\xff\xff\xff.")) == []


def test_copies_of_one_list_are_limited(with_pickle):
    """Every call is a few bytes, and copies the whole list again."""
    text = b"](" + b"K\x01" * 1000 + b"e\x85q\x01"
    text += (name_of("__builtin__", "frozenset") + b"h\x01R") * 2000 + b"t"
    check_refused(with_pickle(b"\x80\x02(" + text + b"."))


def test_keys_that_take_long_to_hash(with_pickle):
    """A tuple of a tuple twice, of a tuple twice, ...: 2**60 visits in 180 bytes."""
    nested = b")" + b"".join(b"q%ch%c\x86" % (k, k) for k in range(60))
    check_refused(with_pickle(b"\x80\x02}" + nested + b"K\x01s."))
    check_refused(with_pickle(b"\x80\x02" + name_of("__builtin__", "set") + b"](" + nested + b"e\x85R."))
    check_refused(with_pickle(b"\x80\x04\x8f(" + nested + b"\x90."))


def test_keys_that_have_one_hash(with_pickle):
    prime = 2**61 - 1
    items = b"".join(pickle.dumps(k * prime, 2)[2:-1] + b"K\x01" for k in range(1, 8000))
    check_refused(with_pickle(b"\x80\x02}(" + items + b"u."))
    few = b"".join(pickle.dumps(k * prime, 2)[2:-1] + b"K\x01" for k in range(1, 100))
    assert len(read(with_pickle(b"\x80\x02}(" + few + b"u."))) == 99


def test_deep_nesting(with_pickle):
    found = read(with_pickle(b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b"."))
    for _ in range(99_999):
        found = found[0]
    assert found == []
    check_refused(with_pickle(b"\x80\x02}" + b")" + b"\x85" * 100_000 + b"K\x01s."))


# ---- instructions on the wrong objects


@pytest.mark.parametrize("text", [
    b"}K\x01a", b")K\x01a", b"](K\x01K\x02u", b"K\x01K\x02K\x03s", b"](K\x01\x90", b"]}b", b"}}b", b"(t0", b"a", b"t",
    b"h\x05", b"\x86", b"K\x01)R", b"])R", b"]K\x01R", b"]]s", b"", b"\x93", b"K\x01K\x01\x93", b"\xff", b"i", b"o",
    b"\x82\x01", name_of("torch.nn.parameter", "Parameter") + b"}b", name_of("torch", "Tensor") + b")\x81",
    name_of("torch", "float32") + b")R", name_of("torch", "FloatStorage") + b")R", name_of("torch", "Tensor") + b")R",
    name_of("torch", "Size") + b"K\x01\x85R", name_of("torch", "device") + b"N\x85R",
    name_of("collections", "OrderedDict") + b"K\x01\x85R", name_of("collections", "OrderedDict") + b")RK\x01b",
    name_of("torch._tensor", "_rebuild_from_type_v2") + b"(" + name_of("torch._tensor", "_rebuild_from_type_v2")
    + name_of("torch", "Tensor") + b")}tR",
    name_of("torch._tensor", "_rebuild_from_type_v2") + b"(" + name_of("__builtin__", "set")
    + name_of("torch", "Tensor") + b")}tR",
    name_of("torch._utils", "_rebuild_parameter") + b"(X\x01\x00\x00\x00x\x88NtR",
    name_of("torch._utils", "_rebuild_qtensor") + b")R",
], ids=range(36))
def test_wrong_instructions(with_pickle, text):
    check_refused(with_pickle(b"\x80\x02" + text + b"."))


def test_attributes_of_tensors_are_plain(with_pickle):
    """A state cannot reach what tensors are made of."""
    state = pickle.dumps({"_accumulator": 1, "_views": 2, "note": 3}, 2)[2:-1]
    text = name_of("torch._tensor", "_rebuild_from_type_v2") + b"(" + name_of("torch._utils", "_rebuild_tensor_v2")
    text += name_of("torch", "Tensor") + b"(" + storage() + b"".join(
        pickle.dumps(v, 2)[2:-1] for v in (0, (4,), (1,), True, None)) + b"t" + state + b"tR"
    found = read(with_pickle(b"\x80\x02" + text + b".", DATA))
    assert found.__dict__ == {"note": 3}
    found.sum().backward()
    assert found.grad.tolist() == [1, 1, 1, 1]


# ---- what a program allows


class Point:
    """A class of a program."""

    def __init__(self, x):
        self.x = x


class Slotted:
    """A class with slots."""

    __slots__ = ("x",)


class Growing(dict):
    """A dict of a program."""


def test_safe_globals():
    data = write([Point(3), Growing(a=1)])
    assert serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(data)) == [
        f"{Point.__module__}.Growing", f"{Point.__module__}.Point"]
    with serialization.safe_globals([Point]):
        assert serialization.get_safe_globals() == [Point]
        with pytest.raises(UnsafeGlobalError, match=r"names .*Growing"):
            read(data)
        with serialization.safe_globals([Growing]):
            found = read(data)
    assert found[0].x == 3
    assert (type(found[1]), found[1]) == (Growing, {"a": 1})
    serialization.add_safe_globals([(Point, f"{Point.__module__}.Growing")])
    serialization.add_safe_globals([Point, Point])
    assert len(serialization.get_safe_globals()) == 2
    serialization.clear_safe_globals()
    assert serialization.get_safe_globals() == []


def test_states_with_slots():
    value = Slotted()
    value.x = 5
    with serialization.safe_globals([Slotted]):
        assert read(write(value)).x == 5


ALLOWED_RULE = "what is allowed is a class or a function, or a pair of one and its full name"


def test_what_can_be_allowed():
    for wrong in (3, (Point, 4)):
        with pytest.raises(ArgumentTypeError, match=ALLOWED_RULE):
            serialization.add_safe_globals([wrong])
    assert serialization.get_safe_globals() == []


def test_settings_of_the_environment(monkeypatch):
    data = write(Point(3))
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    assert read(data).x == 3
    with pytest.raises(UnsafeGlobalError):
        read(data, weights_only=True)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(UnsafeGlobalError):
        read(data, weights_only=False)


def test_damaged_trusted_files():
    for size in (10, len(SMALL) // 2, len(SMALL) - 1):
        check_refused(SMALL[:size], weights_only=False)
    with pytest.raises(DamagedFileError):
        serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(SMALL[:100]))
