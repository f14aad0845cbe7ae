"""The command that starts several processes, which programs here do not have."""

from __future__ import annotations

from tensocket.namespace.refusals import refused

globals().update(refused("distributed.run", "config_from_args get_args_parser main run",
                         "programs run as 1 process", "start the program once, with WORLD_SIZE=1"))
