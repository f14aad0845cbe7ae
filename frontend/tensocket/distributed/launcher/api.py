"""Starts of several processes, which programs here do not have."""

from __future__ import annotations

from tensocket.namespace.refusals import refused

globals().update(refused("distributed.launcher.api", "LaunchConfig elastic_launch launch_agent",
                         "programs run as 1 process", "start the program once, with WORLD_SIZE=1"))
