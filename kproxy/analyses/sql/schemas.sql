/*
id: schemas
title: Which schemas records are written and read with, and by whom
severity: info
meaning: >-
  Each schema that keys and values of a topic name, with who wrote and who read it, from when to when. Schemas of a topic that are used at
  the same time are mixed; one that begins where another ends is a change. It needs the contents of records (--records, or --only schemas); names of schemas need --registry or --schemas,
  or the registry's own topic in the capture.
columns:
  topic: ""
  part: key or value
  schema_id: id that the records name; NULL for a schema that was given with --schema
  subject: its subject
  schema_version: its version in the subject
  produced: records written with it
  fetched: records read with it
  writers: client ids that wrote it
  readers: client ids that read it
  is_known: whether a source had the schema
  unfit: records that it does not describe
  mixed_with: other schemas of the topic in use between its first and its last record; of written records, where there are any
  is_mixed: whether there are such
  since_version: version of the schema that was used before, where it begins after the last record of that
  first_at: ""
  last_at: ""
  cluster: its id, else the first address of its brokers
action: Give kproxy a source for ids that are not known; find out why old writers go on where versions are mixed for long.
parameters: {}
sampled: Other records, writers and readers may be among the exchanges that are missing.
verdict: "{count topic:topic/topics} with {rows:schema/schemas}[{rows where is_known=false:?}, {rows where is_known=false} not known][{rows where is_mixed=true:?}, {rows where is_mixed=true} mixed with others]; most records: {topic}, {part} by schema {schema_id}[{schema_version:?}, version {schema_version}]"
order: 46
only_if: FROM records WHERE value_schema_id IS NOT NULL OR key_schema_id IS NOT NULL OR value_fits IS NOT NULL OR key_fits IS NOT NULL
*/
WITH used AS (
    SELECT cluster, topic, part, schema_id,
        max(subject) AS subject,
        max(schema_version) AS schema_version,
        count(CASE WHEN direction = 'produce' THEN 1 END) AS produced,
        count(CASE WHEN direction = 'fetch' THEN 1 END) AS fetched,
        list_sort(list_distinct(list(CASE WHEN direction = 'produce' THEN coalesce(client_id, '') END))) AS writers,
        list_sort(list_distinct(list(CASE WHEN direction = 'fetch' THEN coalesce(client_id, '') END))) AS readers,
        count(CASE WHEN fits IS NOT NULL THEN 1 END) > 0 AS is_known,
        count(CASE WHEN fits = false THEN 1 END) AS unfit,
        coalesce(min(CASE WHEN direction = 'produce' THEN at_us END), min(at_us)) AS from_us,
        coalesce(max(CASE WHEN direction = 'produce' THEN at_us END), max(at_us)) AS to_us,
        min(seen_at) AS first_at,
        max(seen_at) AS last_at
    FROM described_records
    WHERE schema_id IS NOT NULL OR fits IS NOT NULL
    GROUP BY cluster, topic, part, schema_id
), mixed AS (
    SELECT u.cluster, u.topic, u.part, u.schema_id,
        count(CASE WHEN o.from_us <= u.to_us AND o.to_us >= u.from_us THEN 1 END) AS mixed_with,
        max_by(CASE WHEN o.to_us < u.from_us THEN o.schema_version END, CASE WHEN o.to_us < u.from_us THEN o.to_us END) AS since_version
    FROM used AS u
    LEFT JOIN used AS o ON o.cluster = u.cluster AND o.topic = u.topic AND o.part = u.part AND o.schema_id IS DISTINCT FROM u.schema_id
    GROUP BY u.cluster, u.topic, u.part, u.schema_id
)
SELECT u.topic, u.part, u.schema_id, u.subject, u.schema_version, u.produced, u.fetched, u.writers, u.readers, u.is_known, u.unfit,
    m.mixed_with, m.mixed_with > 0 AS is_mixed, m.since_version, u.first_at, u.last_at, u.cluster
FROM used AS u
JOIN mixed AS m ON m.cluster = u.cluster AND m.topic = u.topic AND m.part = u.part AND m.schema_id IS NOT DISTINCT FROM u.schema_id
ORDER BY u.produced + u.fetched DESC, u.topic, u.part, u.schema_id, u.cluster
