"""TopicPrefix: the filter. It applies rules (rules.py) and plans (translation.py) to each frame."""

from collections.abc import Awaitable
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta

from kproxy.filters.bounded_set import BoundedSet
from kproxy.filters.contract import Close, Direction, Filter, Forward, Replace, Request, Response, Verdict, Want
from kproxy.filters.topic_prefix.acls import ACLS, OLDEST
from kproxy.filters.topic_prefix.names import LEGAL_PREFIX, Names, TooLong
from kproxy.filters.topic_prefix.patterns import Patterns
from kproxy.filters.topic_prefix.refusal import Refusal, UnknownId, refused
from kproxy.filters.topic_prefix.rules import RULES, Tenant
from kproxy.filters.topic_prefix.translation import (
    ADMINISTRATION,
    RENAMED,
    UNTOUCHED,
    WITH_UNCHECKED_IDS,
    NotOurs,
    Translation,
    plan_of,
    topic_ids,
)
from kproxy.filters.turns import Steps, in_turns
from kproxy.options import Options, Size, text
from kproxy.protocol import ApiKey, facts, request_message, response_message


class TopicPrefixOptions(Options, frozen=True):
    """The options of topic_prefix."""

    prefix: Annotated[
        str,
        Meta(pattern=f"^{LEGAL_PREFIX.pattern}$"),
        text("What brokers' names of this tenant begin with. No tenant's may be the beginning of another's."),
    ]
    cluster_administration: Annotated[
        bool,
        text(
            "Whether requests that change or list what belongs to the whole cluster reach the broker, whose ACLs decide:"
            " quotas, SCRAM users, features, brokers, voters, and ACLs and configurations of these."
        ),
    ] = True
    most_fetch_bytes: Annotated[
        Size,
        text("Largest Fetch response to ask for where it is held (up to version 12); below limits.held_frame_size."),
    ] = 8 * 1024 * 1024


class TopicPrefix(Filter):
    """Give clients the topics, groups and transactional ids of one tenant, whose names have a prefix that only brokers see.

    Every tenant has a virtual cluster of its own, with this filter and a prefix; all of them may be of one Kafka cluster. A
    client that creates ``orders`` creates ``team-a.orders`` and sees it as ``orders``. It sees nothing of other tenants, and no
    request of it reaches anything of theirs: by name, by topic id, by regular expression, by ACL, by fetch session, or by
    asking for all there is. Kafka's own topics are hidden. What is not known, or is said between brokers, is refused.

    No prefix may be the beginning of another's, nor differ from it in "." and "_" alone. Filters that are listed before this
    one see the clients' names, those after it the brokers'; filters that know topics by their ids have to be after it. What the
    broker's ACLs say is about the brokers' names.
    """

    name = "topic_prefix"
    required = True
    renames_topics = True

    oldest_versions = MappingProxyType(dict.fromkeys(ACLS, OLDEST))

    Options = TopicPrefixOptions

    def __init__(self, options: TopicPrefixOptions) -> None:
        self._tenant = Tenant(
            Names(options.prefix),
            Patterns(options.prefix),
            BoundedSet(),
            options.cluster_administration,
            options.most_fetch_bytes,
        )
        allowed = RENAMED | UNTOUCHED if options.cluster_administration else (RENAMED | UNTOUCHED) - ADMINISTRATION
        self.refuses = frozenset(facts().apis) - allowed

    def on_start(self) -> None:
        """Share the topic ids that the tenant's filters know in all workers."""
        ids = self.runtime.shared_set(f"topic_prefix ids of {self._tenant.names.prefix}")
        self._tenant = replace(self._tenant, ids=ids)

    def wants(self, direction: Direction, api_key: int, api_version: int) -> Want:
        """HOLD messages with names, ids or texts for people, and what is not in the facts; PASS the rest."""
        if api_key not in RENAMED | UNTOUCHED:
            return Want.HOLD
        message = (request_message if direction == Direction.REQUEST else response_message)(api_key)
        if message is None or api_version not in message.versions:
            # A client may ask for ApiVersions at any version: the chain has brokers' answers to that in a version it knows
            return Want.PASS if api_key == ApiKey.API_VERSIONS else Want.HOLD
        if direction == Direction.REQUEST:
            return Want.HOLD if self._wants_request(api_key, api_version) else Want.PASS
        return Want.HOLD if self._wants_response(api_key, api_version) else Want.PASS

    def _wants_request(self, api_key: int, version: int) -> bool:
        plan = plan_of(Direction.REQUEST, api_key, version)
        return plan.has_names or plan.has_topic_ids or api_key in RULES[Direction.REQUEST]

    def _wants_response(self, api_key: int, version: int) -> bool:
        plan = plan_of(Direction.RESPONSE, api_key, version)
        return api_key in RENAMED and (plan.has_names or plan.has_texts or api_key in RULES[Direction.RESPONSE])

    def on_request(self, request: Request) -> Verdict:
        """Prefix the names; refuse what does not belong to the tenant."""
        try:
            return Replace(request.message) if self._translate(request) else Forward()
        except Refusal as refusal:
            return refused(request, refusal)
        except TooLong as error:
            return Close(str(error))

    def _translate(self, request: Request) -> bool:
        """Translate a request; return whether that changed it. Raises Refusal, TooLong."""
        tenant, message = self._tenant, request.message
        plan = plan_of(Direction.REQUEST, request.api_key, request.api_version)
        if request.api_key not in WITH_UNCHECKED_IDS and any(
            each not in tenant.ids for each in topic_ids(plan, message)
        ):
            raise UnknownId
        rule = RULES[Direction.REQUEST].get(request.api_key)
        changed = rule is not None and rule(tenant, request, message) is not False
        translation = Translation(tenant.names, tenant.ids, changed)
        translation.request(plan, message)
        return translation.changed

    def on_response(self, response: Response) -> Verdict | Awaitable[Verdict]:
        """Take the prefix off, and what is not the tenant's out; a response of many elements in several turns of the loop."""
        return in_turns(self._answer(response))

    def _answer(self, response: Response) -> Steps[Verdict]:
        tenant, request = self._tenant, response.request
        plan = plan_of(Direction.RESPONSE, request.api_key, request.api_version)
        rule = RULES[Direction.RESPONSE].get(request.api_key)
        try:
            changed = rule is not None and rule(tenant, response, response.message) is not False
            translation = Translation(tenant.names, tenant.ids, changed)
            yield from translation.response(plan, response.message)
        except NotOurs as error:
            return Close(str(error))
        return Replace(response.message) if translation.changed else Forward()
