"""GroupLag: how far consumer groups are behind, from the commits and the ends of partitions that pass here.

    committed   OffsetCommit and TxnOffsetCommit that the broker accepted, OffsetFetch responses
    end         high watermarks of Fetch responses, ListOffsets responses for the latest offset; Produce responses say that it is
                at least one after their first record, and a commit that it is not before the commit

What passes elsewhere, through another proxy or none, is not known here: a partition counts only once both a commit and its end
were seen. Memory is bounded: the groups and partitions that were not named for longest are forgotten.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from heapq import nlargest
from itertools import groupby

from kproxy.protocol import ApiKey
from kproxy.protocol.found import NamedPartition
from kproxy.proxy.analyzer.series import IDLE, MOST_SERIES, OTHER, Row, labels_of
from kproxy.session import Exchange, Frame

MOST_PARTITIONS = 50_000  # whose ends are remembered
MOST_COMMITS = 50_000  # partitions of all groups together
MOST_GROUPS = 10_000
LONGEST_GROUP = 1_000  # characters
LONGEST_TOPIC = 249  # Topic.MAX_NAME_LENGTH
LATEST = -1  # timestamp in ListOffsets: the end of the partition

Place = tuple[str, str, int]  # cluster, topic, partition
GroupKey = tuple[str, str]  # cluster, group
Lag = tuple[int, int, GroupKey]  # sum over the partitions, and the largest


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

    def note_fetched(self, exchange: Exchange, partitions: Iterable[NamedPartition]) -> None:
        """Note the ends in a Fetch response."""
        for place, partition in _with_offsets(exchange, partitions):
            self._note_end(place, partition.offset)

    def note_produced(self, exchange: Exchange, partitions: Iterable[NamedPartition]) -> None:
        """Note how far partitions reach at least: each ends after the base offset in its Produce response."""
        for place, partition in _with_offsets(exchange, partitions):
            end = partition.offset + 1
            if self._ends.get(place, 0) < end:
                self._note_end(place, end)
            else:
                self._ends.move_to_end(place)

    def note_listed(self, exchange: Exchange) -> None:
        """Note the ends in a ListOffsets response."""
        requested = _places(exchange, _partitions(exchange.request))
        latest = {place for place, partition in requested if partition.timestamp == LATEST}
        for place, partition in _with_offsets(exchange, _partitions(exchange.response)) if latest else ():
            if place in latest:
                self._note_end(place, partition.offset)

    def note_committed(self, exchange: Exchange) -> None:
        """Note a commit, or the committed offsets that a group asks for."""
        answered = _places(exchange, _partitions(exchange.response))
        if not answered or exchange.request is None:
            return
        if exchange.api_key == ApiKey.OFFSET_FETCH:
            asked = _group_of(exchange.request)  # responses name their groups since version 8
            for group_id, found in groupby(answered, lambda one: one[1].group_id):
                offsets = {place: one.offset for place, one in found if not one.error_code and one.offset >= 0}
                self._note_commits((exchange.connection.cluster, group_id or asked), offsets)
            return
        accepted = {place for place, partition in answered if not partition.error_code}
        requested = _places(exchange, exchange.request.partitions())
        commits = {place: one.offset for place, one in requested if place in accepted and one.offset >= 0}
        self._note_commits((exchange.connection.cluster, _group_of(exchange.request)), commits)

    def _note_end(self, place: Place, end: int) -> None:
        ends = self._ends
        ends[place] = end
        ends.move_to_end(place)
        if len(ends) > MOST_PARTITIONS:
            ends.popitem(last=False)

    def _note_commits(self, key: GroupKey, offsets: dict[Place, int]) -> None:
        """Note the offsets that a group has committed; forget the groups used least lately if there are too many."""
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


def _partitions(frame: Frame | None) -> list[NamedPartition]:
    return [] if frame is None else frame.partitions()


def _group_of(request: Frame) -> str:
    return next(iter(request.group_ids()), "")


def _places(exchange: Exchange, partitions: Iterable[NamedPartition]) -> list[tuple[Place, NamedPartition]]:
    """Return the place of each partition whose topic is named, and the partition."""
    cluster, names = exchange.connection.cluster, exchange.topic_names
    return [
        ((cluster, name, partition.index), partition)
        for partition in partitions
        if 0 < len(name := name_of(partition, names)) <= LONGEST_TOPIC
    ]


def _with_offsets(exchange: Exchange, partitions: Iterable[NamedPartition]) -> list[tuple[Place, NamedPartition]]:
    """As ``_places``, for the partitions that have an offset and no error."""
    return _places(exchange, [one for one in partitions if one.offset >= 0 and not one.error_code])


def name_of(partition: NamedPartition, names: Mapping[str, str]) -> str:
    """Return the name of a partition's topic, or its id if the name is not known; "" if it has neither."""
    return partition.topic or (names.get(partition.topic_id, partition.topic_id) if partition.topic_id else "")
