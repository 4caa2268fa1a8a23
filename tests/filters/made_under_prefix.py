"""A filter of a user's, as it is written outside of kproxy: topics are made under one prefix only."""

from kproxy.filters.contract import Filter, Forward, Reply, Request, Verdict

CREATE_TOPICS = 19
POLICY_VIOLATION = 44


class TopicPrefix(Filter):
    """Answers CreateTopics itself where a name does not begin with *prefix*; nothing of such a request reaches a broker."""

    requests = (CREATE_TOPICS,)

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def on_request(self, request: Request) -> Verdict:
        topics = request.message.topics
        if all(topic.name.startswith(self.prefix) for topic in topics):
            return Forward()
        response = request.new_response()
        result = response.struct_types["CreatableTopicResult"]
        why = f"one of the names does not begin with {self.prefix}"
        response.topics = [result(name=topic.name, error_code=POLICY_VIOLATION, error_message=why) for topic in topics]
        return Reply(response)
