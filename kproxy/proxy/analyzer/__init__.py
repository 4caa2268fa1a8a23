"""The analyzer process: reads the taps of all workers, runs the pipeline on them, writes files and counts.

    process.py       Analyzer: a kproxy.pipeline Run; reads the rings, handles the supervisor's messages; the alarm Stuck
    tap_decoder.py   the records of one ring -> calls of the pipeline's Connections
    outputs.py       FILES: the outputs that the configuration can ask for
    counts.py        what becomes AnalyzerCounts (messages.py), an output too

Where sessions are made, limited and kept from harming each other, and how events reach outputs, is in kproxy.pipeline.
To add a file: a line in FILES, and a field of config's Analysis. To add a count: a field of AnalyzerCounts, set in counts.py.
"""
