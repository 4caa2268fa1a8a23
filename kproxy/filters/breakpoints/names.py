"""What the condition of a breakpoint may name: type and meaning of each, for a page that completes what a person writes."""

NAMES_OF_REQUESTS = {  # name -> type, meaning; those of kproxy.filters.conditions
    "api": ("text", "Kafka's name of the API"),
    "apiKey": ("number", "number of the API"),
    "apiVersion": ("number", "version of the API"),
    "clientId": ("text", "as the request header has it; may be null"),
    "principal": ("text", "who has logged in; null where that is not known"),
    "mechanism": ("text", "SASL mechanism of the login; null where that is not known"),
    "software": ("text", "name of the client's library, as ApiVersions said it; may be null"),
    "softwareVersion": ("text", "its version; may be null"),
    "client": ("text", "address and port of the client"),
    "address": ("text", "address of the client"),
    "listener": ("text", "address and port that the client came to"),
    "cluster": ("text", "name of the virtual cluster"),
    "topics": ("list", "names of the topics in the request"),
    "groups": ("list", "names of the groups in the request"),
    "transactionalIds": ("list", "transactional ids in the request"),
    "resources": ("list", "all that the request names: type, name"),
    "topic": ("text", "asked for each topic of the request by itself"),
    "request": ("object", "the request's body as Kafka's JSON, without bytes and records"),
}
NAMES_OF_RESPONSES = {
    **NAMES_OF_REQUESTS,
    "response": ("object", "the response's body as Kafka's JSON, without bytes and records"),
    "errors": ("list", "names of the errors in the response"),
}
ELEMENTS = {  # of lists whose elements are objects
    "resources": {
        "type": "topic, group, transactional_id…",
        "name": "name of the resource; null for an unknown topic id",
    }
}
