/*
id: offset_out_of_range_loop
title: Consumers that keep asking for offsets that are gone
severity: critical
meaning: >
  The broker answers OFFSET_OUT_OF_RANGE again and again: the records at these offsets were deleted by retention (or the offset is
  beyond the end) and the consumer does not move to one that exists. It is critical where nothing of the partition was read in between.
basis:
  rests_on: OFFSET_OUT_OF_RANGE in answers to Fetch, and no success in between
  certainty: said
  wrong_if: the consumer read the partition over a connection that was not captured
columns:
  severity: "critical: it read nothing in between; warning: it did"
  errors: OFFSET_OUT_OF_RANGE answers for the partition
  reads: fetches of this partition in between that the broker answered without an error
  seconds: ""
action: >
  Set the group's offsets to ones that exist (kafka-consumer-groups.sh --reset-offsets) or set auto.offset.reset; if it comes back, the
  consumer is slower than retention.ms or retention.bytes allow.
reference: https://kafka.apache.org/documentation/#consumerconfigs_auto.offset.reset
parameters:
  min_errors: {default: 5, meaning: "Fewer such answers to a client for a partition are not listed."}
  min_seconds: {default: 5, meaning: "Within less, several clients of one name may each have been answered so once; more than twice a connection are listed anyway."}
verdict: "{rows:consumer of a partition keeps/consumers of partitions keep} asking for offsets that are gone. [{rows where severity=critical:?}Worst|Most]: {client_id} at {client_address} on {topic}-{partition}, {errors:time/times} in {seconds:,} s. [{rows where severity=critical:?}It reads nothing|It reads in between]: reset its group's offsets or set auto.offset.reset."
order: 12
only_if: FROM errors WHERE api_key = 1 AND error_code = 1
frame:
  group_by: [client_id, client_address, cluster, resource AS topic, partition]
  pause: pause_seconds
  values: {errors: CAST(sum(count) AS BIGINT), reads: CAST(max(reads) - min(reads) AS BIGINT), clients: count(DISTINCT connection_id)}
  derived: {severity: CASE WHEN reads = 0 THEN 'critical' ELSE 'warning' END}
  having: errors >= $min_errors AND (seconds >= $min_seconds OR errors > 2 * clients)
  order_by: reads = 0 DESC, errors DESC
*/
WITH seen AS (
    SELECT connection_id, exchange, at_us, client_id, client_address, cluster, resource AS topic, partition, 0 AS is_read
    FROM client_errors
    WHERE api_key = 1 AND error_code = 1
    UNION ALL
    SELECT connection_id, exchange, at_us, client_id, client_address, cluster, topic, partition, 1
    FROM client_offsets
    WHERE kind = 'fetch' AND error_code = 0
), counted AS ( -- how many reads came before
    SELECT *, sum(is_read) OVER (PARTITION BY client_id, client_address, cluster, topic, partition ORDER BY at_us) AS reads
    FROM seen
)
SELECT r.*, c.reads
FROM client_errors AS r
JOIN counted AS c ON c.connection_id = r.connection_id AND c.exchange = r.exchange AND c.topic = r.resource AND c.partition = r.partition
    AND c.is_read = 0
WHERE r.api_key = 1 AND r.error_code = 1
