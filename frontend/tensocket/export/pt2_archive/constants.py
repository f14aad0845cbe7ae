"""Names and numbers of the format: files of the archive, codes of dtypes, layouts and memory formats."""

from __future__ import annotations

from typing import Any, Final

from tensocket_core import formats
from tensocket_plugins.contract.dtypes import BY_NAME, DType

#: Version of the JSON text, ``(major, minor)``: that of PyTorch 2.13.
SCHEMA_VERSION: Final = (8, 20)
#: The file by which the archive is known, and its content.
ARCHIVE_FORMAT_PATH: Final = "archive_format"
ARCHIVE_FORMAT_VALUE: Final = b"pt2"
ARCHIVE_VERSION_PATH: Final = "archive_version"
ARCHIVE_VERSION_VALUE: Final = b"0"
MODELS_DIR: Final = "models/"
WEIGHTS_DIR: Final = "data/weights/"
CONSTANTS_DIR: Final = "data/constants/"
SAMPLE_INPUTS_DIR: Final = "data/sample_inputs/"
EXTRA_DIR: Final = "extra/"

_CODES: Final = {
    "uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8,
    "complex32": 9, "complex64": 10, "complex128": 11, "bool": 12, "bfloat16": 13, "uint16": 28, "float8_e4m3fn": 29,
    "float8_e5m2": 30, "float8_e4m3fnuz": 31, "float8_e5m2fnuz": 32, "float8_e8m0fnu": 33, "uint32": 34, "uint64": 35}
#: Codes of dtypes, and the reverse.
CODE_OF_DTYPE: Final[dict[DType, int]] = {BY_NAME[name]: code for name, code in _CODES.items() if name in BY_NAME}
DTYPE_OF_CODE: Final = {code: dtype for dtype, code in CODE_OF_DTYPE.items()}
#: Codes of layouts, and the reverse.
CODE_OF_LAYOUT: Final[dict[Any, int]] = {
    formats.sparse_coo: 1, formats.sparse_csr: 2, formats.sparse_csc: 3, formats.sparse_bsr: 4, formats.sparse_bsc: 5,
    formats.strided: 7}
LAYOUT_OF_CODE: Final = {code: layout for layout, code in CODE_OF_LAYOUT.items()}
#: Codes of memory formats, and the reverse.
CODE_OF_FORMAT: Final[dict[Any, int]] = {
    formats.contiguous_format: 1, formats.channels_last: 2, formats.channels_last_3d: 3, formats.preserve_format: 4}
FORMAT_OF_CODE: Final = {code: kind for kind, code in CODE_OF_FORMAT.items()}
