"""The environment of programs that this one starts, or becomes."""

import os
from pathlib import Path


def environment() -> dict[str, str]:
    """Return the environment with a PYTHONPATH on which this kproxy is found."""
    import sysconfig  # noqa: PLC0415 - memory that a run without analysis does not need

    root = str(Path(__file__).parents[2])
    installed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    before = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    if root in installed or root in before:
        return dict(os.environ)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, *before])}
