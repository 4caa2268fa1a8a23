"""topic_prefix: several tenants on one Kafka cluster, each with topics, groups and transactional ids of its own.

    clusters:
      - {name: team-a, listen: ":9092", bootstrap: [kafka:9092], filters: [{use: topic_prefix, with: {prefix: team-a.}}]}
      - {name: team-b, listen: ":9192", bootstrap: [kafka:9092], filters: [{use: topic_prefix, with: {prefix: team-b.}}]}

A client of team-a that creates ``orders`` creates ``team-a.orders`` and sees it as ``orders``; it sees nothing of team-b, and
no request of it reaches anything of team-b. No prefix may be the beginning of another, nor differ from it in "." and "_" alone,
which Kafka takes for the same in the names of metrics: kproxy.config.checks reports it. Clients that come to the brokers
without kproxy see all names with their prefixes.

Map

    filter.py           TopicPrefix and its options: which frames it holds; applies what follows to each
    names.py            Names: one name, to the broker and back; what Kafka refuses by itself stays as it is
    translation.py      where names and topic ids are, from the facts' entity types; their translation; which APIs are
                        translated, untouched, refused
    rules.py            what no entity type marks: one function for each API
    refusal.py          a request answered with a Kafka error
    subscriptions.py    topics in the bytes of classic consumer groups
    patterns.py         regular expressions (KIP-848, KIP-1152, KIP-1071)
    acls.py             patterns of ACLs (KIP-290)

What a tenant sees and can do

    names              every field of entity type topicName, groupId, transactionalId gets the prefix in requests and loses it
                       in responses. What has none is another tenant's or the cluster's, and its entry is left out
    all topics         Metadata, DescribeLogDirs, ListGroups, ListTransactions, OffsetFetch, ListPartitionReassignments,
                       ListConfigResources, DescribeTopicPartitions for all: the broker is asked for all and answers; the
                       tenant's entries stay. ElectLeaders for all partitions is refused
    topic ids          an id is forwarded once a response has named it to the tenant; others do not exist
                       (UNKNOWN_TOPIC_ID). Metadata by id: the response names the topic; another tenant's does not exist
    names too long     a name of more than 249 characters with its prefix: the broker answers INVALID_TOPIC_EXCEPTION
    Kafka's topics     __consumer_offsets and the like are hidden: they belong to no tenant. A client that names one means
                       its own topic of that name. DescribeQuorum shows __cluster_metadata
    auto-creation      a topic that the broker creates because of a request has the prefix, as any other
    fetch sessions     none: only a number protects a session from other tenants
    ACLs               on names of the tenant, "*" included; DeleteAcls needs a resource name
    regular            confined to the tenant's names; those that cannot be are answered with INVALID_REGULAR_EXPRESSION
     expressions
    groups             classic, consumer, share and streams groups; bytes of the consumer protocol are translated where brokers
                       read them. Kafka Connect's group protocol has no names of topics
    error messages     lose the prefix in front of names
    producer ids       are no names: brokers tie one to its transactional id, which has the prefix, or to the partitions of
                       the tenant that it writes to
    telemetry          metrics that clients push (KIP-714) keep the client's names
    the cluster        brokers, quotas, SCRAM users, features, ACLs on the cluster belong to no tenant: they pass, and the
                       brokers' ACLs decide. With ``cluster_administration: false`` what changes or lists them is refused
    between brokers    replication, elections, transaction markers, share group state, Envelope: refused, not offered

It is a policy: it fails closed. APIs and versions that are not in the facts are refused and not offered (``required``); so
are the APIs that protocol/api_judgements.txt lists as refused. A test compares each field of each message that passes with the
facts.

What it costs: 12 to 35 microseconds for a held request of some partitions. Of librdkafka's traffic (1 KB records; Produce 10
with names, Fetch 16 with ids) a worker forwards about 260 MB/s a core of Produce, where it is 1,500 without the filter, and as
much Fetch as without it.

What is held. Fetch responses from version 13 on and everything without names are cut through. Requests are held, as almost all
have names at their beginning, some among their partitions: a Produce above limits.held_frame_size closes the connection. Fetch
responses up to version 12 have names among their records and are held, so ``max_bytes`` of these requests is limited to
``most_fetch_bytes``, which has to be below limits.held_frame_size. A Metadata response for all topics, of all tenants, has to be
below it too.

To add an API, add it to protocol/api_judgements.txt, rules for names that no entity type marks, and in
tests/support/marked.py the values that the test of all names needs.
"""

from kproxy.filters.topic_prefix.filter import TopicPrefix

__all__ = ["TopicPrefix"]
