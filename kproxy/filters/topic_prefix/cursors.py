"""DescribeTopicPartitions (KIP-966): topics come in the order of their names, in pages; a cursor says where the next begins.

A request for all topics begins at the prefix, where the tenant's topics are together; a cursor that points behind them is
the end.
"""

from typing import Any

from kproxy.filters.topic_prefix.names import Names

LEAST = "-"  # of all characters that Kafka allows, so that no topic comes before it


def request(message: Any) -> bool:
    """Let a request for all topics begin with the tenant's first one, as the cursor gets the prefix; return whether it does."""
    if message.topics or message.cursor is not None:
        return False
    message.cursor = message.struct_types["Cursor"](topic_name=LEAST, partition_index=0)
    return True


def response(names: Names, message: Any) -> None:
    """Remove a cursor that points to another tenant's topic."""
    if message.next_cursor is not None and not names.is_ours(message.next_cursor.topic_name):
        message.next_cursor = None
