"""The command line: one file per command, and the one place that turns errors into sentences and exit codes.

app.py            the commands, main(), exit codes
decode.py         kproxy decode: captures to text or JSON lines
pipeline.py       capture flows -> sessions -> events; which flows are Kafka, and who is the client
sink.py           where the output goes
summary.py        what is said at the end
api.py            kproxy api: the protocol reference
protocol_text.py  fields and differences as text
"""

from kproxy.cli.app import main

__all__ = ["main"]
