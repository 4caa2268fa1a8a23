"""The topic of Apicurio Registry 3 (storage kafkasql): what was done to schemas, in order, without the ids that they got.

Every instance of the registry does the same again from the first record on, and counts: each content takes the next content id,
and keeps it unless the same one was there before. So does this, as long as it sees all records from offset 0 on, as an instance
reads them when it starts. Content ids are those of Confluent's API, and what Apicurio's serializers write; global ids are not
counted.
"""

import json
import re
from collections import deque
from collections.abc import Mapping
from typing import Any

JOURNAL_TOPIC = "kafkasql-journal"  # apicurio.kafkasql.topic
ADDING = re.compile(r"CreateArtifact(Version)?\d+Message")
BRINGING_IDS = re.compile(r"(Import|Restore|Upgrade|UpdateArtifactVersionContent)\w*")
MOST_CONTENTS = 10_000  # and as many artifacts


class Journal:
    """Gives contents their ids, in the order of the records."""

    def __init__(self) -> None:
        self._next = 0  # the offset up to which keys were seen
        self._taken = 0  # content ids
        self._ids: dict[str, int] = {}  # a content with its references -> its id
        self._versions: dict[tuple[str, str], int] = {}  # of an artifact in a group
        self._expected: deque[int] = deque()  # offsets whose values are still to come
        self._is_lost = False

    def see_key(self, offset: int, key: bytes) -> None:
        """Take the key of a record. After a gap nothing more can be counted."""
        if offset != self._next or self._is_lost:
            self._is_lost |= offset > self._next
            return
        self._next += 1
        kind = str(json.loads(key)["messageType"])
        if ADDING.fullmatch(kind):
            self._expected.append(offset)
        self._is_lost |= BRINGING_IDS.fullmatch(kind) is not None or len(self._expected) > MOST_CONTENTS

    def schema(self, offset: int, value: bytes) -> dict[str, Any] | None:
        """Return the schema of a record's value, with its content id, as a registry would; None if it adds none.

        Raises ValueError, TypeError, KeyError and RecursionError for other JSON.
        """
        if not self._expected or self._expected[0] != offset:
            self._is_lost |= bool(self._expected) and self._expected[0] < offset
            return None
        self._expected.popleft()
        fields = json.loads(value)
        self._is_lost |= any(fields.get(name) for name in ("dryRun", "versionIsDraft", "draft"))
        content = fields.get("content")
        if self._is_lost or content is None or max(len(self._ids), len(self._versions)) >= MOST_CONTENTS:
            return None
        self._taken += 1
        references = [
            {"name": one["name"], "subject": one["artifactId"], "version": int(one["version"])}
            for one in fields.get("references") or ()
        ]
        schema_id = self._ids.setdefault(json.dumps([content, references]), self._taken)
        return {
            "schema": content,
            "schemaType": fields.get("artifactType"),
            "subject": fields["artifactId"],
            "version": self._version(fields),
            "id": schema_id,
            "references": references,
        }

    def _version(self, fields: Mapping[str, Any]) -> int:
        artifact = str(fields.get("groupId")), str(fields["artifactId"])
        self._versions[artifact] = self._versions.get(artifact, 0) + 1
        return self._versions[artifact]
