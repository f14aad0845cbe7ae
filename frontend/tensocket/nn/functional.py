from tensocket_core.ops.nn import *
