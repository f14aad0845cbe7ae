"""The functions of a C library's interface: making, running and freeing a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .header import error_texts, parameters
from .weights import HEAD, MAGIC, checksum, weight_file

if TYPE_CHECKING:
    from .source import Source

#: CRC-32 of eight bytes at a time (Intel's "slicing-by-8", Kounavis and Berry, 2005); weights are whole lines.
_CRC: Final = """\
static uint32_t ts_checksum(const unsigned char *bytes, size_t count)
{
    uint32_t tables[8][256], crc = 0xffffffffu;
    for (uint32_t i = 0; i < 256; ++i) {
        tables[0][i] = i;
        for (int k = 0; k < 8; ++k) tables[0][i] = tables[0][i] >> 1 ^ (tables[0][i] & 1u ? 0xedb88320u : 0u);
    }
    for (int t = 1; t < 8; ++t)
        for (int i = 0; i < 256; ++i)
            tables[t][i] = tables[t - 1][i] >> 8 ^ tables[0][tables[t - 1][i] & 255u];
    for (const unsigned char *const end = bytes + count; bytes < end; bytes += 8) {
        uint32_t next = 0;
        for (int k = 0; k < 4; ++k) crc ^= (uint32_t)bytes[k] << 8 * k;
        for (int k = 0; k < 4; ++k) next ^= tables[7 - k][crc >> 8 * k & 255u] ^ tables[3 - k][bytes[4 + k]];
        crc = next;
    }
    return ~crc;
}"""

_READ: Final = """\
static int ts_read(unsigned char *to, size_t count, const char *path)
{{
    static const unsigned char head[{length}] = {{{head}}};
    unsigned char found[{skip}];
    FILE *file = fopen(path, "rb");
    int fits;
    if (!file) return 0;
    fits = fread(found, 1, {skip}, file) == {skip} && memcmp(found, head, {length}) == 0
        && fread(to, 1, count, file) == count && getc(file) == EOF && ts_checksum(to, count) == {crc}u;
    fclose(file);
    return fits;
}}"""


def runtime_text(source: Source) -> list[str]:
    """Return the functions."""
    return [*(_reader(source) if source.in_file else []), _init(source), _set_parallel(source), _run(source),
            *([_state(source)] if source.writes else []), _free(source), _error(source)]


def _reader(source: Source) -> list[str]:
    file = weight_file(source.weights, source.weight_bytes)
    length = len(MAGIC) + 16
    return [_CRC, _READ.format(head=", ".join(map(str, file[:length])), length=length, skip=HEAD,
                               crc=checksum(file[HEAD:]))]


def _aligned(pointer: str) -> str:
    """Return the first address from ``pointer`` on that is a multiple of 64."""
    return f"{pointer} + (64 - (uintptr_t){pointer} % 64) % 64"


def _init(source: Source) -> str:
    name, up = source.interface.name, source.interface.upper
    own = source.weight_bytes if source.in_file else 0
    size = f"sizeof({name}) + {own + source.state_bytes + source.packed.nbytes + 64}"
    lines = [f"int {name}_init({name} **made, const char *weights)", "{", f"    {name} *self;",
             f"    if (!made{' || !weights' if source.in_file else ''}) return {up}_ERROR_ARGUMENT;",
             "    *made = NULL;", f"    self = calloc(1, {size});", f"    if (!self) return {up}_ERROR_MEMORY;",
             "    self->weights = (unsigned char *)(self + 1);",
             f"    self->weights = {_aligned('self->weights')};", f"    self->state = self->weights + {own};",
             f"    self->packed = self->state + {source.state_bytes};"]
    if source.in_file:
        lines += [f"    if (!ts_read(self->weights, {own}, weights)) {{", "        free(self);",
                  f"        return {up}_ERROR_WEIGHTS;", "    }"]
    else:
        lines.append("    (void)weights;")
    lines += [f"    memcpy(self->state + {at}, {source.initial(weight)}, {len(weight.data)});"
              for weight, at in source.mutable if weight.data]
    lines += [f"    {call}" for call in source.packings()]
    return "\n".join([*lines, "    *made = self;", f"    return {up}_OK;", "}"])


def _set_parallel(source: Source) -> str:
    name = source.interface.name
    return (f"void {name}_set_parallel({name} *self, {name}_parallel parallel, void *context)\n{{\n"
            "    self->parallel = parallel;\n    self->context = context;\n}")


def _run(source: Source) -> str:
    interface = source.interface
    name, up = interface.name, interface.upper
    model = name if source.writes else f"const {name}"
    given = ",\n    ".join([f"{model} *self", "void *arena", *parameters(interface)])
    pointers = [x.name for x in (*interface.inputs, *interface.outputs)]
    ranges = [f"{s.name} < {s.low} || {s.name} > {s.high}" for s in interface.sizes]
    sizes = " || ".join([*ranges, *[f"!({condition})" for condition in interface.conditions]])
    # Arrays without elements may be NULL.
    missing = " || ".join(["!self", *[
        f"(!{x.name} && {x.elements(interface.size_names)} > 0)" for x in (*interface.inputs, *interface.outputs)]])
    passed = ", ".join(["self", "memory", *interface.size_names, *pointers])
    lines = [f"int {name}_run({given})", "{", "    unsigned char *memory = arena;", "    int status;",
             *([f"    if ({sizes}) return {up}_ERROR_SIZE;"] if sizes else []),
             f"    if ({missing}) return {up}_ERROR_ARGUMENT;",
             f"    if (!arena) memory = malloc({up}_ARENA_BYTES);", f"    if (!memory) return {up}_ERROR_MEMORY;",
             "    {",
             "        unsigned char *const block = memory;", f"        memory = {_aligned('memory')};",
             f"        status = run_steps({passed});", "        if (!arena) free(block);", "    }",
             "    return status;", "}"]
    return "\n".join(lines)


def _state(source: Source) -> str:
    name = source.interface.name
    lines = [f"void *{name}_state({name} *self, const char *path, size_t *nbytes)", "{",
             "    static const struct { const char *path; size_t at, nbytes; } states[] = {"]
    for weight, at in source.mutable:
        path = source.interface.states[source.plan.blocks[weight.block].number][0]
        lines.append(f'        {{"{path}", {at}, {len(weight.data)}}},')
    return "\n".join([*lines, "    };", "    for (size_t k = 0; k < sizeof states / sizeof *states; ++k)",
                      "        if (self && path && strcmp(states[k].path, path) == 0) {",
                      "            if (nbytes) *nbytes = states[k].nbytes;",
                      "            return self->state + states[k].at;", "        }", "    return NULL;", "}"])


def _free(source: Source) -> str:
    name = source.interface.name
    return f"void {name}_free({name} *self)\n{{\n    free(self);\n}}"


def _error(source: Source) -> str:
    name = source.interface.name
    texts = ", ".join([f'"{text}"' for text in error_texts()])
    return (f"const char *{name}_error(int status)\n{{\n    static const char *const texts[] = {{{texts}}};\n"
            f"    return status >= 0 && status < {len(error_texts())} ? texts[status] : \"unknown\";\n}}")
