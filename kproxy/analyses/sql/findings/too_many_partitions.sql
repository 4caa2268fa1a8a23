/*
id: too_many_partitions
title: Consumers that fetch from very many partitions at once
severity: notice
meaning: >
  One consumer fetches from so many partitions of one broker that each request and answer is large for its bookkeeping alone, and the
  records of one partition wait for those of all others.
basis:
  rests_on: partitions in one Fetch request, or its session
  certainty: said
  wrong_if: the partitions hardly have records
columns:
  requests: Fetch requests with at least min_partitions
  partitions: most in one of them
  largest_request_bytes: size of the largest of them, in bytes
action: Add consumers to the group, or merge topics; raise fetch.max.bytes and max.partition.fetch.bytes only with memory for it.
reference: https://kafka.apache.org/documentation/#consumerconfigs_fetch.max.bytes
parameters:
  min_partitions: {default: 1000, meaning: "Partitions in one Fetch request from which it is listed."}
verdict: "{rows:consumer fetches/consumers fetch} from very many partitions at once. {most partitions}: {client_id} at {client_address}, {partitions:,} in one request to {broker}. Add consumers to its group."
order: 48
only_if: FROM exchanges WHERE api_key = 1 AND partitions >= $min_partitions
frame:
  group_by: [client_id, client_address, broker]
  values: {partitions: max(partitions), largest_request_bytes: max(request_size)}
  order_by: partitions DESC
*/
SELECT *
FROM client_exchanges
WHERE api_key = 1 AND coalesce(replica_id, -1) < 0 AND request_at IS NOT NULL AND partitions >= $min_partitions
