"""What `kproxy run` is told: the configuration file and its command-line twin, as typed values.

    structs.py     Config and its parts: names, types, defaults, ranges
    reading.py     parse_config(text, path), read_config(path), config_from_options(...) -> Config or ConfigError
    yaml_tree.py   YAML text -> nodes with their lines and columns; nothing a hostile file says makes it big
    convert.py     nodes -> structs, and the mistakes on the way
    units.py       "10s", "64MiB"
    addresses.py   "host:port", "[::1]:9092"
    checks.py      what no single value can say: modes that exclude each other, limits that contradict
    ports.py       which ports will be taken, and by which two at once
    files.py       certificates, keys, places for logs and captures, filters: are they there and do they fit
    schema.py      the JSON Schema of the file
    summary.py     what would run, in a few lines

All mistakes are found in one run; each has its line, column and path (``clusters[0].listen``) and says what to do. Importing the
package itself loads the structs alone: workers get their configuration as JSON from the supervisor and need no YAML.
"""

from kproxy.config.structs import (
    Addresses,
    Analysis,
    BrokerTls,
    Cluster,
    Config,
    FilterUse,
    Limits,
    ListenerTls,
    Rotated,
    Struct,
    Timeouts,
)

__all__ = [
    "Addresses",
    "Analysis",
    "BrokerTls",
    "Cluster",
    "Config",
    "FilterUse",
    "Limits",
    "ListenerTls",
    "Rotated",
    "Struct",
    "Timeouts",
]
