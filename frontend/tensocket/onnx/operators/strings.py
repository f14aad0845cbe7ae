"""Strings, and tables of the domain ``ai.onnx.ml``; they are computed on the host."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

import tensocket as torch
from tensocket.errors import ArgumentError

from .table import ML, operator
from .values import device_of, ints, on_host, text, to_array, to_value


def _words(values: Iterable[Any]) -> list[str]:
    return [text(v) for v in values]


@operator("StringConcat")
def concat(x: Any, y: Any) -> Any:
    """Return joined strings."""
    return np.asarray(np.asarray(x, dtype=object) + np.asarray(y, dtype=object), dtype=object)


@operator("StringSplit")
def split(x: Any, delimiter: Any = "", maxsplit: int | None = None) -> Any:
    """Return the parts of strings, filled up with empty ones, and their numbers."""
    parts = [text(v).split(text(delimiter) or None, -1 if maxsplit is None else maxsplit) for v in x.reshape(-1)]
    longest = max(map(len, parts), default=0)
    made = np.array([p + [""] * (longest - len(p)) for p in parts], dtype=object).reshape(*x.shape, longest)
    return made, torch.tensor([len(p) for p in parts], dtype=torch.int64).reshape(x.shape)


@operator("RegexFullMatch")
def full_match(x: Any, pattern: Any) -> Any:
    """Return whether whole strings match a pattern."""
    found = re.compile(text(pattern))
    return to_value(np.array([found.fullmatch(text(v)) is not None for v in x.reshape(-1)], bool).reshape(x.shape))


@operator("StringNormalizer")
def normalize(x: Any, case_change_action: Any = "NONE", is_case_sensitive: int = 0, locale: Any = "",
              stopwords: Any = None) -> Any:
    """Return strings without stopwords, in another case."""
    action, stops = text(case_change_action), set(_words(stopwords or []))
    change = {"LOWER": str.lower, "UPPER": str.upper}.get(action, str)
    if not is_case_sensitive:
        stops = {word.lower() for word in stops}
    words = [_plain(text(v)) for v in x.reshape(-1)]
    kept = [change(word) for word in words if (word if is_case_sensitive else word.lower()) not in stops]
    made = np.array(kept or [""], dtype=object)
    return made if x.ndim == 1 else made.reshape(1, -1)


def _plain(word: str) -> str:
    """Return a word without accents."""
    return word if word.isascii() else "".join(
        [c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c)])


@operator("TfIdfVectorizer")
def count_ngrams(x: Any, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: Any,
                 ngram_counts: Any, ngram_indexes: Any, pool_int64s: Any = None, pool_strings: Any = None,
                 weights: Any = None) -> Any:
    """Return how often n-grams occur in rows, with up to ``max_skip_count`` elements between neighbours."""
    pool = list(pool_int64s) if pool_int64s else _words(pool_strings)
    places: dict[tuple[Any, ...], int] = {}
    for size, (first, last) in enumerate(pairwise([*ngram_counts, len(pool)]), 1):
        for at in range(first, last, size):
            places[tuple(pool[at:at + size])] = len(places)
    array = to_array(x)
    rows = array.reshape(-1, array.shape[-1]) if array.ndim > 1 else array.reshape(1, -1)
    counts = np.zeros((len(rows), max(ngram_indexes) + 1), dtype=np.float32)
    for k, row in enumerate(rows.tolist()):
        for gram in _grams(row, min_gram_length, max_gram_length, max_skip_count):
            if gram in places:
                counts[k, ngram_indexes[places[gram]]] += 1
    scale = np.ones(counts.shape[1], dtype=np.float32)
    if weights is not None:
        scale[list(ngram_indexes)] = weights
    word = text(mode)
    found = counts if word == "TF" else (counts > 0) * scale if word == "IDF" else counts * scale
    return to_value(found.astype(np.float32).reshape(*array.shape[:-1], -1), device_of(x))


def _grams(row: list[Any], shortest: int, longest: int, skips: int) -> Iterable[tuple[Any, ...]]:
    for size in range(shortest, longest + 1):
        for step in range(1, skips + 2):
            if size == 1 and step > 1:
                continue
            for start in range(len(row) - step * (size - 1)):
                yield tuple(row[start:start + step * (size - 1) + 1:step])


# ---- tables


@operator("LabelEncoder", domain=ML)
def encode_labels(x: Any, default_float: float = -0.0, default_int64: int = -1, default_string: Any = "_Unused",
                  default_tensor: Any = None, keys_floats: Any = None, keys_int64s: Any = None,
                  keys_strings: Any = None, keys_tensor: Any = None, values_floats: Any = None,
                  values_int64s: Any = None, values_strings: Any = None, values_tensor: Any = None,
                  classes_strings: Any = None) -> Any:
    """Return the values that a table gives for keys, and a default for others."""
    def listed(numbers: Any, strings: Any, tensor: Any) -> Any:
        if tensor is not None:
            return to_array(tensor).reshape(-1).tolist()
        return _words(strings) if strings is not None else list(numbers)

    keys = listed(keys_floats or keys_int64s, keys_strings, keys_tensor)
    values = listed(values_floats or values_int64s, values_strings, values_tensor)
    if values_tensor is not None:
        dtype, default = to_array(values_tensor).dtype, to_array(default_tensor).reshape(-1)[0]
    elif values_strings is not None:
        dtype, default = np.dtype(object), text(default_string)
    elif values_floats is not None:
        dtype, default = np.dtype(np.float32), default_float
    else:
        dtype, default = np.dtype(np.int64), default_int64
    table = dict(zip(map(_key, keys), values, strict=True))
    array = to_array(x)
    found = [table.get(_key(v), default) for v in array.reshape(-1).tolist()]
    return to_value(np.array(found, dtype=dtype).reshape(array.shape), device_of(x))


def _key(value: Any) -> Any:
    return "nan" if isinstance(value, float) and value != value else value


@operator("Binarizer", domain=ML)
def binarize(x: Any, threshold: float = 0.0) -> Any:
    """Return 1 where x is larger than a threshold, and 0 elsewhere."""
    return (x > threshold).to(x.dtype)


#: Comparisons of nodes by number; 6 is membership.
_MODES = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)


@operator("TreeEnsemble", domain=ML)
def tree_ensemble(x: Any, *, leaf_targetids: Any, leaf_weights: Any, n_targets: int, nodes_falseleafs: Any,
                  nodes_falsenodeids: Any, nodes_featureids: Any, nodes_modes: Any, nodes_splits: Any,
                  nodes_trueleafs: Any, nodes_truenodeids: Any, tree_roots: Any, aggregate_function: int = 1,
                  membership_values: Any = None, nodes_hitrates: Any = None,
                  nodes_missing_value_tracks_true: Any = None, post_transform: int = 0) -> Any:
    """Return the sums, means or extremes of the leaves that examples reach in trees."""
    modes, splits, weights = to_array(nodes_modes), to_array(nodes_splits), to_array(leaf_weights)
    members = _members(modes, membership_values)
    missing = ints(nodes_missing_value_tracks_true) or [0] * len(modes)
    if post_transform:
        raise ArgumentError("TreeEnsemble", f"post_transform={post_transform}", "results are sums, means or extremes "
                            "of leaves, without a function of them", "compute the function with other operators")

    def compute(rows: Any) -> Any:
        first = {2: np.inf, 3: -np.inf}.get(aggregate_function, 0)
        found = np.full((len(rows), n_targets), first, dtype=rows.dtype)
        combine = {2: np.minimum, 3: np.maximum}.get(aggregate_function, np.add)
        for k, row in enumerate(rows):
            for root in tree_roots:
                leaf = walk(row, root)
                target = leaf_targetids[leaf]
                found[k, target] = combine(found[k, target], weights[leaf])
        return found / len(tree_roots) if aggregate_function == 0 else found

    def walk(row: Any, node: int) -> int:
        if nodes_trueleafs[node] and nodes_falseleafs[node] and nodes_truenodeids[node] == nodes_falsenodeids[node]:
            return int(nodes_truenodeids[node])
        for _ in range(len(modes)):
            value = row[nodes_featureids[node]]
            holds = value in members[node] if modes[node] == 6 else bool(_MODES[modes[node]](value, splits[node]))
            holds = holds or bool(missing[node] and np.isnan(value))
            at_leaf = (nodes_trueleafs if holds else nodes_falseleafs)[node]
            node = (nodes_truenodeids if holds else nodes_falsenodeids)[node]
            if at_leaf:
                return int(node)
        raise ArgumentError("TreeEnsemble", "nodes that lead back to themselves", "a tree has no cycles",
                            "check the file: it may be damaged")

    return on_host(compute, x)


def _members(modes: Any, values: Any) -> dict[int, set[float]]:
    """Return the sets of the nodes that test membership; each ends with a NaN in the list."""
    items = iter([] if values is None else to_array(values).reshape(-1).tolist())
    found: dict[int, set[float]] = {}
    for node in np.flatnonzero(modes == 6).tolist():
        found[node] = set()
        for value in items:
            if value != value:
                break
            found[node].add(value)
    return found
