/*
id: unauthorized_access
title: Clients that ask for what they may not have
severity: warning
meaning: >
  The broker refused the request for lack of an ACL (..._AUTHORIZATION_FAILED). A missing permission after a deployment, a wrong topic
  or group name, or somebody who tries doors.
columns:
  client_id: ""
  client_address: ""
  software: ""
  user_name: ""
  api_name: ""
  resource_type: topic, group, cluster, transactional_id or none
  resource: its name
  errors: refusals
  error_name: ""
  cluster: ""
  first_at: ""
  last_at: ""
  connection_id: ""
  exchange: ""
action: Grant the operation to the principal with kafka-acls.sh, or correct the name in the client's configuration; if you do not know the client, find its owner.
reference: https://kafka.apache.org/documentation/#security_authz
parameters:
  min_errors: {default: 1, meaning: "Fewer refusals of a client for one resource and API are not listed."}
needs: [client_errors, connections]
verdict: "{rows:access/accesses} refused. Most: {client_id} at {client_address}, user {user_name}, {api_name} on {resource_type} {resource}, {errors:time/times}. Grant the ACL, or correct the name."
order: 25
*/
WITH found AS (
    SELECT
        r.client_id,
        r.client_address,
        r.cluster,
        c.user_name,
        r.api_name,
        r.error_name,
        CASE
            WHEN r.resource_type <> 'none' THEN r.resource_type
            WHEN r.error_code = 29 THEN 'topic'
            WHEN r.error_code = 30 THEN 'group'
            WHEN r.error_code = 31 THEN 'cluster'
            WHEN r.error_code = 53 THEN 'transactional_id'
            ELSE 'none'
        END AS resource_type,
        r.resource,
        max(r.software) AS software,
        count(*) AS errors,
        min(r.at) AS first_at,
        max(r.at) AS last_at,
        min(struct(r.at_us, r.connection_id, r.exchange)) AS example
    FROM client_errors AS r
    JOIN connections AS c ON c.connection_id = r.connection_id
    WHERE r.error_code IN (29, 30, 31, 53, 65)
    GROUP BY
        r.client_id, r.client_address, r.cluster, c.user_name, r.api_name, r.error_name, r.error_code, r.resource_type, r.resource
)
SELECT
    client_id,
    client_address,
    software,
    user_name,
    api_name,
    resource_type,
    CASE WHEN resource_type = 'cluster' THEN 'kafka-cluster' ELSE resource END AS resource,
    errors,
    error_name,
    cluster,
    first_at,
    last_at,
    example.connection_id AS connection_id,
    example.exchange AS exchange
FROM found
WHERE errors >= :min_errors
ORDER BY errors DESC, client_id, client_address, user_name, api_name, resource_type, resource, error_name, cluster
