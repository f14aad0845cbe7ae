"""The compiler of scripts: syntax trees of functions, methods and classes become graphs."""
