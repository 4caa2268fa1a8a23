/*
id: anonymous_clients
title: Clients that use their library's default client id
severity: info
meaning: >
  The client id is the one that the library gives to every program, or empty. Logs, metrics, quotas and this report cannot
  distinguish such programs.
basis:
  rests_on: client ids that are empty or known defaults of libraries
  certainty: inferred
  wrong_if: the application chose this very name
columns:
  shown_client_id: the client id, or the word empty
  requests: ""
  addresses: ""
  connections: ""
action: Set client.id to the name of the application.
reference: https://kafka.apache.org/documentation/#producerconfigs_client.id
parameters:
  min_requests: {default: 1, meaning: "Client ids with fewer requests are not listed."}
verdict: "{rows:default client id/default client ids} in use. {most requests}: {shown_client_id}, {requests:request/requests} from {addresses:address/addresses}. Set client.id to the application's name."
order: 60
only_if: FROM (SELECT DISTINCT client_id FROM exchanges WHERE api_key IS NOT NULL) WHERE is_default_id(client_id)
frame:
  group_by: [client_id]
  values:
    client_address: min(client_address)
  derived:
    shown_client_id: CASE WHEN coalesce(client_id, '') = '' THEN 'empty' ELSE client_id END
  having: requests >= $min_requests
  order_by: requests DESC
*/
SELECT *
FROM client_exchanges
WHERE api_key IS NOT NULL AND api_key <> 7 AND is_default_id(client_id)
