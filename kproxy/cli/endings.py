"""How errors end a command: one sentence on standard error and an exit code. Click's own errors are in app.py.

0    done
1    kproxy could not continue (an output that cannot be written, for instance)
2    wrong usage: an option, a file that does not exist, or is neither capture nor decoded log, an expression
3    a source is damaged: everything before the damage was read, and of a decoded log every complete line
4    kproxy report: an analysis that was asked for found what it looks for; kproxy doctor: it found a problem;
     kproxy replay: an answer is not the recorded one, or did not come; kproxy schemas: a schema is missing
130  interrupted; everything before was decoded
"""

import sys

from kproxy.errors import CaptureError, ConfigError, KproxyError, OptionError, UsageError

DONE, FAILED, USAGE, DAMAGED, INTERRUPTED = 0, 1, 2, 3, 130


def show(sentence: str, code: int) -> int:
    """Write a sentence on standard error, and return the exit code."""
    print(sentence, file=sys.stderr)
    return code


def show_error(error: KproxyError | OSError) -> int:
    """Say what is wrong, and return the exit code."""
    match error:
        case ConfigError():
            for line in error.lines():  # one mistake each; of a file with line and column, which editors jump to
                show(line if error.source else f"kproxy: {line}", USAGE)
            return USAGE
        case OptionError():
            return show(f"kproxy: --{error}", USAGE)
        case UsageError():
            return show(f"kproxy: {error}", USAGE)
        case CaptureError():
            return show(f"kproxy: {error}", DAMAGED)
        case KproxyError():
            return show(f"kproxy: {error}", FAILED)
    sentence = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
    return show(f"kproxy: {sentence}", FAILED)
