"""The headers of a C library, for C and for C++."""

from __future__ import annotations

from .interface import Argument, Interface, c_type

_ERRORS = (("OK", "done"), ("ERROR_ARGUMENT", "a pointer is NULL"), ("ERROR_MEMORY", "out of memory"),
           ("ERROR_WEIGHTS", "the file of weights is missing or damaged, or belongs to another model"),
           ("ERROR_SIZE", "a size is out of range"), ("ERROR_INDEX", "an index in an input is out of range"))


def parameters(interface: Interface) -> list[str]:
    """Return the parameters of the sizes, inputs and outputs."""
    return [*[f"int64_t {name}" for name in interface.size_names],
            *[f"const {c_type(x.dtype)} *{x.name}" for x in interface.inputs],
            *[f"{c_type(x.dtype)} *{x.name}" for x in interface.outputs]]


def _constants(interface: Interface, arena: int, weights: int) -> list[str]:
    up, names = interface.upper, interface.size_names
    lines = [f"#define {up}_{error} {number}  /* {text} */" for number, (error, text) in enumerate(_ERRORS)]
    lines += ["", f"#define {up}_ARENA_BYTES {arena}", f"#define {up}_WEIGHT_BYTES {weights}"]
    for size in interface.sizes:
        lines += [f"#define {up}_{size.name.upper()}_{end} {n}" for end, n in (("MIN", size.low), ("MAX", size.high))]
    for kind, arguments in (("input", interface.inputs), ("output", interface.outputs)):
        lines.append(f"#define {up}_{kind.upper()}S {len(arguments)}")
        for x in arguments:
            given = f"({', '.join(names)})" if not all(n.is_constant for n in x.shape) else ""
            count = x.elements([f"(int64_t)({n})" for n in names])
            lines.append(f"#define {up}_{x.name.upper()}_ELEMENTS{given} ({count})"
                         f"  /* {kind} {x.dtype.name}{x.sizes(names)} */")
            lines.append(f"#define {up}_{x.name.upper()}_RANK {len(x.shape)}")
    return lines


def header(interface: Interface, arena: int, weights: int, *, writes: bool, in_file: bool) -> str:
    """Return the C header.

    Args:
        interface: The names.
        arena: Bytes that a call needs.
        weights: Bytes of weights.
        writes: Whether calls write to the model.
        in_file: Whether the weights are in a file.
    """
    name, up = interface.name, interface.upper
    model = name if writes else f"const {name}"
    given = ",\n    ".join([f"{model} *self", "void *arena", *parameters(interface)])
    weight_text = (f"the path of {name}.weights" if in_file else "ignored: the library contains them")
    threads = ("A call writes to the model, so that calls on one model must not overlap." if writes else
               "Calls on one model may overlap in several threads, each with an arena of its own.")
    state = f"""
/* Return the memory of a parameter or buffer by its path, and its size in bytes; NULL if there is none. */
void *{name}_state({name} *self, const char *path, size_t *nbytes);
""" if writes else ""
    return "\n".join([
        f"/* The model {name}: generated code, which needs a C99 compiler and its mathematical library only. */",
        f"#ifndef {up}_H", f"#define {up}_H", "", "#include <stddef.h>", "#include <stdint.h>", "",
        "#ifdef __cplusplus", 'extern "C" {', "#endif", "", *_constants(interface, arena, weights), "",
        f"typedef struct {name} {name};", "",
        "/* Runs work(argument, first, last) on parts of the range from 0 to count, at once if it likes, and returns",
        "   when all parts are done. */",
        f"typedef void (*{name}_parallel)(void *context, void (*work)(void *argument, int64_t first, int64_t last),",
        "    void *argument, int64_t count);", "",
        f"/* Make a model. Weights: {weight_text}. */",
        f"int {name}_init({name} **model, const char *weights);", "",
        "/* Share the work of calls among threads; a NULL function is one thread, as in a new model. */",
        f"void {name}_set_parallel({name} *self, {name}_parallel parallel, void *context);", "",
        "/* Run the model on dense arrays in row-major order that do not overlap the outputs. The arena is memory of",
        f"   {up}_ARENA_BYTES bytes; NULL allocates it for the call.", f"   {threads} */",
        f"int {name}_run({given});", state,
        f"/* Free a model; NULL is allowed. */\nvoid {name}_free({name} *self);", "",
        "/* Return the meaning of a result of these functions. */",
        f"const char *{name}_error(int status);", "",
        "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def error_texts() -> list[str]:
    """Return the meanings of the results, in order."""
    return [text for _, text in _ERRORS]


def cpp_header(interface: Interface) -> str:
    """Return the C++ header: a class that owns a model, with spans as arguments."""
    name, up = interface.name, interface.upper
    sizes = [f"std::int64_t {n}" for n in interface.size_names]

    def span(x: Argument, const: str) -> str:
        return f"std::span<{const}{c_type(x.dtype)}> {x.name}"

    given = ", ".join([*sizes, *[span(x, "const ") for x in interface.inputs],
                       *[span(x, "") for x in interface.outputs]])
    counts = [(x.name, f"static_cast<std::size_t>({x.elements(interface.size_names)})")
              for x in (*interface.inputs, *interface.outputs)]
    checks = "\n".join([f"        Model::check({n}.size() == {count}, \"{n}\");" for n, count in counts])
    passed = ", ".join(["this->model_.get()", "this->arena_.data()", *interface.size_names,
                        *[f"{x.name}.data()" for x in (*interface.inputs, *interface.outputs)]])
    ranges = "\n".join([f"        Model::check({s.name} >= {s.low} && {s.name} <= {s.high}, \"{s.name}\");"
                        for s in interface.sizes])
    return f"""/* The model {name} for C++20. An object has an arena of its own: use one object in each thread. */
#ifndef {up}_HPP
#define {up}_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "{name}.h"

namespace {name}_model {{

class Model {{
public:
    /* Throws std::runtime_error if the model cannot be made. */
    explicit Model(const char *weights = nullptr) : model_(nullptr, {name}_free), arena_({up}_ARENA_BYTES) {{
        {name} *made = nullptr;
        raise({name}_init(&made, weights));
        model_.reset(made);
    }}

    /* Throws std::invalid_argument for a span of another size, and std::runtime_error for other errors. */
    void run({given}) {{
{ranges}
{checks}
        Model::raise({name}_run({passed}));
    }}

    {name} *get() {{ return model_.get(); }}

private:
    static void raise(int status) {{
        if (status != {up}_OK) throw std::runtime_error({name}_error(status));
    }}

    static void check(bool fits, const char *what) {{
        if (!fits) throw std::invalid_argument(std::string("{name}: the size of ") + what);
    }}

    std::unique_ptr<{name}, void (*)({name} *)> model_;
    std::vector<unsigned char> arena_;
}};

}}  // namespace {name}_model

#endif
"""
