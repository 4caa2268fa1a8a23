"""SharedView: who asks for a name while another thread reads it waits for it."""

import threading
from typing import Any

from kproxy.page.live.exchanges import SharedView
from kproxy.protocol import ApiKey
from kproxy.session import Exchange
from tests.page.feeding import ORDERS
from tests.page.live.test_rows import read


class ReadSlowly:
    """A frame; while it is decoded another thread asks for a name that is in it."""

    def __init__(self, frame: Any, view: SharedView, topic_id: str) -> None:
        self.message, self.cut, self.data, self.body_start = frame.message, frame.cut, frame.data, frame.body_start
        self.answers: list[str | None] = []
        self.asking = threading.Thread(target=lambda: self.answers.append(view.topic_name(topic_id)))
        self._frame = frame

    def decode(self) -> Any:
        self.asking.start()
        self.asking.join(0.1)
        return self._frame.decode()


def test_a_name_that_another_thread_is_reading_is_waited_for() -> None:
    exchanges = [event for event in read(ORDERS)[0] if isinstance(event, Exchange)]
    frames = [one.response for one in exchanges if one.api_key == ApiKey.METADATA and one.response is not None]
    frame, topic = next((frame, topic) for frame in frames for topic in frame.decode().topics if topic.name)
    view = SharedView()
    slow: Any = ReadSlowly(frame, view, topic.topic_id)
    view.note(slow)
    assert dict(view.topics)[topic.topic_id] == topic.name
    slow.asking.join(30)
    assert slow.answers == [topic.name]
