"""The public interface of automatic differentiation: core's engine, with Jacobians and checks of gradients."""

from __future__ import annotations

from tensocket_core.autograd import *
from tensocket_core.autograd import __all__ as _of_core

from .differentiation import functional
from .differentiation.function import Function
from .differentiation.gradcheck import gradcheck, gradgradcheck

__all__ = ["Function", *_of_core, "functional", "gradcheck", "gradgradcheck"]
