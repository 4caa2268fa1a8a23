"""SharedView: what is known of a cluster, learned by the thread of the feed and asked by those that answer."""

from collections.abc import Mapping
from threading import RLock

from kproxy.session import ClusterView, Frame


class SharedView(ClusterView):
    """A ClusterView that several threads may use at once: each call holds its lock."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = RLock()

    def note(self, frame: Frame) -> None:
        """See ClusterView."""
        with self._lock:
            super().note(frame)

    def topic_name(self, topic_id: str) -> str | None:
        """See ClusterView."""
        with self._lock:
            return super().topic_name(topic_id)

    @property
    def topics(self) -> Mapping[str, str]:
        """See ClusterView; those of this moment."""
        with self._lock:
            return dict(super().topics)

    @property
    def brokers(self) -> Mapping[int, str]:
        """See ClusterView; those of this moment."""
        with self._lock:
            return dict(super().brokers)

    @property
    def cluster_id(self) -> str | None:
        """See ClusterView."""
        with self._lock:
            return super().cluster_id

    def learn_topic(self, topic_id: str, name: str) -> None:
        """See ClusterView."""
        with self._lock:
            super().learn_topic(topic_id, name)
