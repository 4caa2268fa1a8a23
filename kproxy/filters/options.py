"""What a filter's author needs of kproxy.options, under the name that filters written before import it from."""

from kproxy.options import Count, OptionMistakes, Options, OtlpEndpoint, Rotated, Seconds, Size, read_options, text

__all__ = ["Count", "OptionMistakes", "Options", "OtlpEndpoint", "Rotated", "Seconds", "Size", "read_options", "text"]
