"""WithoutRecords: a Rewriter that also withholds what records hold. The page shows frames this way unless --records is given."""

from kproxy.output.rewriting.internal_records import INTERNAL_TOPICS
from kproxy.output.rewriting.records import rewrite_records
from kproxy.output.rewriting.rewriter import SNAPSHOT, Context, Rewriter, Spot, blanked, has_records
from kproxy.protocol.records import Record, RecordBatch
from kproxy.session import Frame

NOTE = "the contents of records are withheld: zeros stand for keys and values, x for names of headers"


class WithoutRecords(Rewriter):
    """Replaces keys, values and headers of records by zeros, and credentials as Rewriter does.

    Records of Kafka's internal topics and control records stay, as they do in the decoded log.

    Args:
        keeps_size: keep the size of frames by writing zeros for compressed records, which then cannot be read as records.
            Without it, they are compressed again, so that a capture made of the frames can be read.
    """

    def __init__(self, *, keeps_size: bool = True) -> None:
        self._keeps_size = keeps_size

    def _frame(self, frame: Frame, api_key: int | None, context: Context) -> tuple[Frame, str]:
        written, note = super()._frame(frame, api_key, context)
        holds_records = frame.message is not None and has_records(frame.message.name)
        return written, note or (NOTE if holds_records and written.data != frame.data else "")

    def wants(self, frame: Frame) -> bool:
        """See Rewriter."""
        assert frame.message is not None
        return has_records(frame.message.name) or super().wants(frame)

    def records(self, spot: Spot, value: bytes, context: Context) -> bytes:
        """See Rewriter."""
        topic = context.topic

        def rewrite(record: Record, batch: RecordBatch) -> None:
            self.record(record, batch, topic)

        return rewrite_records(value, rewrite, unaligned=spot.message == SNAPSHOT, keeps_size=self._keeps_size)

    def record(self, record: Record, batch: RecordBatch, topic: str | None) -> None:
        """See Rewriter."""
        if batch.is_control:
            return
        if topic in INTERNAL_TOPICS:
            super().record(record, batch, topic)
            return
        record.key = record.key and blanked(record.key)
        record.value = record.value and blanked(record.value)
        record.headers = [(blanked(name), value and blanked(value)) for name, value in record.headers]

    def trailing(self, frame: Frame, data: bytes) -> bytes:
        """See Rewriter."""
        return bytes(len(data)) if self.wants(frame) else data

    def tagged(self, of: str, data: bytes) -> bytes:
        """See Rewriter."""
        return bytes(len(data)) if has_records(of) else super().tagged(of, data)
