"""Stands in for the supervisor: prints its command line and the options it inherited."""

import sys
from pathlib import Path

from kproxy.proxy.supervisor.processes import inherited_options

if __name__ == "__main__":
    print(Path("/proc/self/cmdline").read_text(encoding="utf-8").rstrip("\0").replace("\0", " "))
    print(inherited_options(int(sys.argv[1])))
