"""The configuration of `kproxy run`: a YAML file, or the command-line options for one cluster, parsed into typed values.

    structs.py     Config and its parts: names, types, defaults, ranges
    reading.py     parse_config(text, path), read_config(path), config_from_options(...) -> Config or ConfigError;
                   read_key_settings(path), the file of --keys
    convert.py     YAML text -> nodes with their places, of bounded size -> structs; collects every mistake on the way
    checks.py      what the types cannot express: modes that exclude each other, addresses, limits that contradict, ports that
                   two parts bind, tenants whose names could be mistaken for each other's
    files.py       whether certificates, keys, output paths and filters can be used
    schema.py      the JSON Schema of the file
    showing.py     the configuration as it may be shown: what would run, in a few lines; its values without secrets

One run finds all mistakes; each has its line, column and path (``clusters[0].listen``), and its message says what to do.
Workers receive their configuration from the supervisor: they import structs.py, and need no YAML.

The types of settings (Seconds, Size ...) and the options of filters are in kproxy.options.

To add a setting, add a field with its type, range, description and default to structs.py: parsing, `kproxy check` and the JSON
Schema follow from it. A condition that no type expresses goes to checks.py; one that needs the file system to files.py. If the
setting has an option of `kproxy run`, add it also to reading.Options, reading.OPTIONS and cli/run.py.
"""
