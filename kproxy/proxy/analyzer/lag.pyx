# cython: language_level=3, auto_pickle=False
"""GroupLag: how far consumer groups are behind, from the commits and the ends of partitions that pass here.

    committed   OffsetCommit and TxnOffsetCommit that the broker accepted, OffsetFetch responses
    end         high watermarks of Fetch responses, ListOffsets responses for the latest offset; Produce responses say that it is
                at least one after their first record, and a commit that it is not before the commit

What passes elsewhere, through another proxy or none, is not known here: a partition counts only once both a commit and its end
were seen. Memory is bounded: the groups and partitions that were not named for longest are forgotten.
"""

from collections import OrderedDict
from heapq import nlargest
from itertools import groupby
from typing import TypeAlias

from libc.stdint cimport int64_t

from kproxy.protocol.found cimport NamedPartition
from kproxy.protocol.program cimport ROLE_GROUP_ID, ROLE_PARTITION
from kproxy.session.exchanges cimport Exchange, Frame

from kproxy.protocol import ApiKey
from kproxy.proxy.analyzer.series import IDLE, MOST_SERIES, OTHER, Row, labels_of

MOST_PARTITIONS: int = 50_000  # whose ends are remembered
MOST_COMMITS: int = 50_000  # partitions of all groups together
MOST_GROUPS: int = 10_000
LONGEST_GROUP = 1_000  # characters
LONGEST_TOPIC = 249  # Topic.MAX_NAME_LENGTH
LATEST = -1  # timestamp in ListOffsets: the end of the partition

Place: TypeAlias = tuple[str, str, int]  # cluster, topic, partition
GroupKey: TypeAlias = tuple[str, str]  # cluster, group
Lag: TypeAlias = tuple[int, int, GroupKey]  # sum over the partitions, and the largest


cdef class GroupCommits:
    """What a group has committed."""

    cdef readonly dict commits  # type: dict[Place, int]
    cdef double used


cdef class GroupLag:
    """The lag of each group; ``rows`` has its sum over the partitions, and the largest."""

    def __init__(self):
        self._ends = OrderedDict()
        self._groups = OrderedDict()
        self._most, self._idle = MOST_SERIES, IDLE

    cpdef int note_fetched(self, Exchange exchange, list partitions) except -1:  # type: (...) -> None
        """Note the ends in a Fetch response."""
        for place, partition in _with_offsets(exchange, partitions):
            self._note_end(place, (<NamedPartition>partition).offset)
        return 0

    cpdef int note_produced(self, Exchange exchange, list partitions) except -1:  # type: (...) -> None
        """Note how far partitions reach at least: each ends after the base offset in its Produce response."""
        cdef int64_t end
        for place, partition in _with_offsets(exchange, partitions):
            end = (<NamedPartition>partition).offset + 1
            if self._ends.get(place, 0) < end:
                self._note_end(place, end)
            else:
                self._ends.move_to_end(place)
        return 0

    cpdef int note_listed(self, Exchange exchange) except -1:  # type: (...) -> None
        """Note the ends in a ListOffsets response."""
        requested = _places(exchange, partitions_of(exchange.request))
        latest = {place for place, partition in requested if partition.timestamp == LATEST}
        for place, partition in _with_offsets(exchange, partitions_of(exchange.response)) if latest else ():
            if place in latest:
                self._note_end(place, partition.offset)
        return 0

    cpdef int note_committed(self, Exchange exchange) except -1:  # type: (...) -> None
        """Note a commit, or the committed offsets that a group asks for."""
        answered = _places(exchange, partitions_of(exchange.response))
        if not answered or exchange.request is None:
            return 0
        if exchange.api_key == ApiKey.OFFSET_FETCH:
            asked = _group_of(exchange.request)  # responses name their groups since version 8
            for group_id, found in groupby(answered, _group_id_of):
                offsets = {place: one.offset for place, one in found if not one.error_code and one.offset >= 0}
                self._note_commits((exchange.connection.cluster, group_id or asked), offsets)
            return 0
        accepted = {place for place, partition in answered if not partition.error_code}
        requested = _places(exchange, partitions_of(exchange.request))
        commits = {place: one.offset for place, one in requested if place in accepted and one.offset >= 0}
        self._note_commits((exchange.connection.cluster, _group_of(exchange.request)), commits)
        return 0

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
        cdef GroupCommits group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = GroupCommits()
            group.commits = {}
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
        self._commits -= len((<GroupCommits>self._groups.pop(key)).commits)

    def limit(self, most: int, idle: float) -> None:
        """Report at most *most* groups, and forget groups no commit of which was seen for *idle* seconds."""
        self._most, self._idle = most, idle

    def age(self, now: float) -> None:
        """Forget groups that are idle; *now* is in seconds and never less than before."""
        self._now = now
        for key in [key for key, group in self._groups.items() if now - (<GroupCommits>group).used >= self._idle]:
            self._forget(key)

    def rows(self) -> list[Row]:
        """Return (cluster, group) and [sum, largest] for the groups that are furthest behind; all others are one row, OTHER."""
        ends = self._ends
        lags: list[Lag] = []
        for key, known in self._groups.items():
            behind = [max(0, ends[place] - at) for place, at in (<GroupCommits>known).commits.items() if place in ends]
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


cdef list partitions_of(Frame frame):
    return [] if frame is None else frame.find(ROLE_PARTITION).partitions()


def _group_id_of(tuple place) -> str:
    return (<NamedPartition>place[1]).group_id


cdef str _group_of(Frame request):
    return next(iter(request.find(ROLE_GROUP_ID).group_ids()), "")


cdef list _places(Exchange exchange, list partitions, bint with_offsets=False):
    """Return the place of each partition whose topic is named, and the partition."""
    cdef NamedPartition partition
    cdef str name
    cdef list places = []
    cluster, names = exchange.connection.cluster, exchange.topic_names
    for partition in partitions:
        if with_offsets and (partition.offset < 0 or partition.error_code):
            continue
        name = name_of(partition, names)
        if 0 < len(name) <= LONGEST_TOPIC:
            places.append(((cluster, name, partition.index), partition))
    return places


cdef list _with_offsets(Exchange exchange, list partitions):
    """As ``_places``, for the partitions that have an offset and no error."""
    return _places(exchange, partitions, True)


cdef str name_of(NamedPartition partition, names):
    """Return the name of a partition's topic, or its id if the name is not known; "" if it has neither."""
    if partition.topic:
        return partition.topic
    return names.get(partition.topic_id, partition.topic_id) if partition.topic_id else ""
