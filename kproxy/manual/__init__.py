"""The manual: one Markdown file per topic in topics/, read by ``kproxy help`` and by the page, so that a wheel has it too.

    TOPICS                  topic -> its line in the list, in the order of the list
    text(topic)             its Markdown; tables that are facts (fields, columns, versions) are filled in here
    tables.py               those tables

To add a topic, write topics/NAME.md, which begins with a heading, and add NAME to TOPICS. A table that must not go stale is a
line ``<!-- table: NAME -->`` in the Markdown and a function in tables.py. tests/test_readme.py runs the commands.
"""

import re
from importlib.resources import files

from kproxy.errors import UsageError

TOPICS = {
    "tour": "the first hour, command by command",
    "conditions": "select exchanges: the names in --where, the page, breakpoints and rules",
    "captures": "what is read of a capture; keys of TLS; decrypted and anonymized captures",
    "schemas": "keys and values of records as Avro, Protobuf and JSON Schema",
    "page": "what was seen, in a browser; the live page; breakpoints",
    "filters": "see and change traffic; write a filter",
    "testing": "make brokers fail in tests; the fixture of pytest",
    "library": "kproxy in a program of your own",
    "tables": "the tables for SQL, column by column",
    "spark": "days of captures on Spark",
    "deployment": "sidecar, gateway, probes, metrics, reload",
    "encryption": "records that brokers cannot read, and the keys for them",
    "authentication": "logins of clients at kproxy and its users, and of kproxy at brokers",
    "versions": "the APIs and versions that kproxy decodes",
    "costs": "what forwarding, analysis and filters cost",
    "comparison": "kproxy beside Wireshark, Kroxylicious, kafka-proxy and others",
    "limits": "what kproxy does not do",
    "exit-status": "what the exit status of a command means",
}
_TABLE = re.compile(r"<!-- table: (\w+) -->\n")


def text(topic: str) -> str:
    """Return the Markdown of *topic*. Raises UsageError when there is no such topic."""
    if topic not in TOPICS:
        raise UsageError(f"there is no topic '{topic}'; kproxy help lists them")
    from kproxy.manual import tables  # noqa: PLC0415 - the list of topics needs no facts

    markdown = files(__package__).joinpath(f"topics/{topic}.md").read_text(encoding="utf-8")
    return _TABLE.sub(lambda line: tables.MAKERS[line[1]](), markdown)
