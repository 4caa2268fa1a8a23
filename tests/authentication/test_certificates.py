"""Names by certificates. The cases are those of Kafka's documentation and of its SslPrincipalMapperTest, in other words."""

import pytest

from kproxy.authentication.certificates import name_of, parse_rules
from kproxy.errors import UsageError

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,"
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("CN=DuKe,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("O=JavaSoft,OU=Sun", "O=JavaSoft,OU=Sun"),
    ],
)
def test_the_first_rule_that_matches_gives_the_name(subject: str, name: str) -> None:
    assert name_of(subject, parse_rules(RULES)) == name


def test_a_subject_that_no_rule_matches_names_nobody() -> None:
    assert name_of("O=x", parse_rules("RULE:^CN=(.*)$/$1/")) is None
    assert name_of("CN=", parse_rules("RULE:^CN=(.*)$/$1/")) is None
    assert name_of("xCN=a", parse_rules("RULE:CN=(.*)/$1/")) is None  # the whole subject


def test_names_of_groups_escapes_and_dollars() -> None:
    assert name_of("CN=a/b", parse_rules(r"RULE:^CN=(?<who>a\/.*)$/$1 $2/")) == "a/b $2"
    assert name_of("CN=a", parse_rules(" DEFAULT ")) == "CN=a"


@pytest.mark.parametrize(
    "text", ["deault", "RULE:", "RULE:x", "RULE:a/b", "RULE:a/b/Z", "RULE:(/b/", "DEFAULT,,", "RULE:a/b/L/g"]
)
def test_what_is_no_rule(text: str) -> None:
    with pytest.raises(UsageError, match="rule"):
        parse_rules(text)
