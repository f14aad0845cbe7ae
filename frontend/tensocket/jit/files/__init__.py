"""Files of scripts: writing and reading our own, and reading PyTorch's."""
