"""GroupLag: how far consumer groups are behind, from the commits and the ends of partitions that pass here.

    committed   OffsetCommit and TxnOffsetCommit that the broker accepted, OffsetFetch responses
    end         high watermarks of Fetch responses, ListOffsets responses for the latest offset; Produce responses say that it is
                at least one after their first record, and a commit that it is not before the commit

What passes elsewhere, through another proxy or none, is not known here: a partition counts only once both a commit and its end
were seen. Memory is bounded: the groups and partitions that were not named for longest are forgotten.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from heapq import nlargest

import msgspec

from kproxy.output.text.body_fields import Partition, Topic
from kproxy.protocol import ApiKey
from kproxy.proxy.analyzer.series import IDLE, MOST_SERIES, OTHER, Row, labels_of
from kproxy.session import Exchange

MOST_PARTITIONS = 50_000  # whose ends are remembered
MOST_COMMITS = 50_000  # partitions of all groups together
MOST_GROUPS = 10_000
LONGEST_GROUP = 1_000  # characters
LONGEST_TOPIC = 249  # Topic.MAX_NAME_LENGTH
LATEST = -1  # timestamp in ListOffsets: the end of the partition

Place = tuple[str, str, int]  # cluster, topic, partition
GroupKey = tuple[str, str]  # cluster, group
Lag = tuple[int, int, GroupKey]  # sum over the partitions, and the largest


class _Committed(msgspec.Struct):
    """OffsetCommit and TxnOffsetCommit; also a group of OffsetFetch."""

    groupId: str = ""
    topics: list[Topic] | None = None


class _Fetched(_Committed):
    """OffsetFetch; one group before version 8."""

    groups: list[_Committed] = []


class _Produced(msgspec.Struct):
    responses: list[Topic] = []


_committed = msgspec.json.Decoder(_Committed)
_fetched = msgspec.json.Decoder(_Fetched)
_produced = msgspec.json.Decoder(_Produced)


class _Group:
    __slots__ = ("commits", "used")

    def __init__(self) -> None:
        self.commits: dict[Place, int] = {}
        self.used = 0.0


class GroupLag:
    """The lag of each group; ``rows`` has its sum over the partitions, and the largest."""

    def __init__(self) -> None:
        self._ends: OrderedDict[Place, int] = OrderedDict()
        self._groups: OrderedDict[GroupKey, _Group] = OrderedDict()
        self._commits = 0  # of all groups
        self._most, self._idle = MOST_SERIES, IDLE
        self._now = 0.0

    def note_fetched(self, exchange: Exchange, topics: Iterable[Topic]) -> None:
        """Note the ends in a Fetch response."""
        for place, partition in _places(exchange, topics):
            if not partition.errorCode and partition.highWatermark is not None and partition.highWatermark >= 0:
                self._note_end(place, partition.highWatermark)

    def note_produced(self, exchange: Exchange, response: bytes) -> None:
        """Note how far partitions reach at least: each ends after the base offset in its Produce response."""
        for place, partition in _places(exchange, _produced.decode(response).responses):
            if not partition.errorCode and partition.baseOffset is not None and partition.baseOffset >= 0:
                self._note_end(place, max(partition.baseOffset + 1, self._ends.get(place, 0)))

    def note_listed(self, exchange: Exchange, request: bytes, response: bytes) -> None:
        """Note the ends in a ListOffsets response."""
        requested = _places(exchange, _committed.decode(request).topics)
        latest = {place for place, partition in requested if partition.timestamp == LATEST}
        for place, partition in _places(exchange, _committed.decode(response).topics):
            if place in latest and not partition.errorCode and partition.offset is not None and partition.offset >= 0:
                self._note_end(place, partition.offset)

    def note_committed(self, exchange: Exchange, request: bytes, response: bytes) -> None:
        """Note a commit, or the committed offsets that a group asks for."""
        cluster = exchange.connection.cluster
        if exchange.api_key != ApiKey.OFFSET_FETCH:
            committed = _committed.decode(request)
            results = _places(exchange, _committed.decode(response).topics)
            accepted = {place for place, partition in results if not partition.errorCode}
            commits = [one for one in _places(exchange, committed.topics) if one[0] in accepted]
            self._note_commits((cluster, committed.groupId), commits)
            return
        fetched = _fetched.decode(response)
        for group in fetched.groups:
            self._note_commits((cluster, group.groupId), _places(exchange, group.topics))
        if not fetched.groups:
            self._note_commits((cluster, _fetched.decode(request).groupId), _places(exchange, fetched.topics))

    def _note_end(self, place: Place, end: int) -> None:
        ends = self._ends
        ends[place] = end
        ends.move_to_end(place)
        if len(ends) > MOST_PARTITIONS:
            ends.popitem(last=False)

    def _note_commits(self, key: GroupKey, commits: Iterable[tuple[Place, Partition]]) -> None:
        """Note the offsets that a group has committed; forget the groups used least lately if there are too many."""
        offsets = {
            place: partition.committedOffset
            for place, partition in commits
            if not partition.errorCode and partition.committedOffset is not None and partition.committedOffset >= 0
        }
        if not offsets or not 0 < len(key[1]) <= LONGEST_GROUP or len(offsets) > MOST_COMMITS:
            return
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = _Group()
        before = len(group.commits)
        group.commits |= offsets
        group.used = self._now
        self._commits += len(group.commits) - before
        self._groups.move_to_end(key)
        for place, committed in offsets.items():
            if place in self._ends and self._ends[place] < committed:
                self._note_end(place, committed)
        while self._commits > MOST_COMMITS or len(self._groups) > MOST_GROUPS:
            self._forget(next(iter(self._groups)))

    def _forget(self, key: GroupKey) -> None:
        self._commits -= len(self._groups.pop(key).commits)

    def limit(self, most: int, idle: float) -> None:
        """Report at most *most* groups, and forget groups no commit of which was seen for *idle* seconds."""
        self._most, self._idle = most, idle

    def age(self, now: float) -> None:
        """Forget groups that are idle; *now* is in seconds and never less than before."""
        self._now = now
        for key in [key for key, group in self._groups.items() if now - group.used >= self._idle]:
            self._forget(key)

    def rows(self) -> list[Row]:
        """Return (cluster, group) and [sum, largest] for the groups that are furthest behind; all others are one row, OTHER."""
        ends = self._ends
        lags: list[Lag] = []
        for key, known in self._groups.items():
            behind = [max(0, ends[place] - at) for place, at in known.commits.items() if place in ends]
            if behind:
                lags.append((sum(behind), max(behind), key))
        kept = lags if len(lags) < self._most else nlargest(max(0, self._most - 1), lags)
        rows: dict[tuple[str, ...], list[int]] = {}
        for total, largest, key in kept:
            _add(rows, labels_of(key), total, largest)
        if len(kept) < len(lags):
            others = sum(total for total, *_ in lags) - sum(total for total, *_ in kept)
            _add(rows, (OTHER, OTHER), others, _largest(lags, kept))
        return list(rows.items())


def _largest(lags: list[Lag], kept: list[Lag]) -> int:
    """Return the largest lag of a partition among groups that are not kept."""
    shown = set(map(id, kept))
    return max(one[1] for one in lags if id(one) not in shown)


def _add(rows: dict[tuple[str, ...], list[int]], labels: tuple[str, ...], total: int, largest: int) -> None:
    before = rows.get(labels, (0, 0))
    rows[labels] = [before[0] + total, max(before[1], largest)]


def _places(exchange: Exchange, topics: Iterable[Topic] | None) -> Iterator[tuple[Place, Partition]]:
    """Yield the place of each partition that has a name and a number, and the partition."""
    cluster, names = exchange.connection.cluster, exchange.topic_names
    for topic in topics or ():
        name = topic.name or topic.topic or names.get(topic.topicId or "", topic.topicId)
        if name and len(name) <= LONGEST_TOPIC:
            for partition in topic.all_partitions():
                if partition.number is not None:
                    yield (cluster, name, partition.number), partition
