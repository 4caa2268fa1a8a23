"""Which fields carry credentials. They are withheld from everything kproxy shows, and no option shows them.

Withheld are SASL tokens (their bytes hold passwords, proofs and bearer tokens), delegation token HMACs, SCRAM salts and
salted passwords, the values of settings whose name is that of a secret, and the bytes of requests and responses
nested in an Envelope (KIP-590), which may hold any of these. Where no broker says whether a value is sensitive, the values
of settings that Kafka does not know are withheld too, as in brokers' own logs (KafkaConfig.loggableValue).
"""

import functools
import re
from enum import IntEnum

from kproxy.protocol.data_files import read_data_file


class Secrecy(IntEnum):
    """What a field has to do with secrets. The numbers are those of the codec."""

    OPEN = 0
    ALWAYS = 1
    NAMES_THE_SETTING = 2  # the setting's name: decides about the value beside it
    BY_NAME = 3
    MARKS_THE_VALUE = 4  # says whether the value beside it, and its synonyms, are secret
    NAMES_AN_UNMARKED_SETTING = 5  # as NAMES_THE_SETTING, and the value of a name that Kafka does not know is a secret


WITHHELD = "(withheld)"

_ALWAYS = {
    "SaslAuthenticateRequest": {"authBytes"},
    "SaslAuthenticateResponse": {"authBytes"},
    "CreateDelegationTokenResponse": {"hmac"},
    "RenewDelegationTokenRequest": {"hmac"},
    "ExpireDelegationTokenRequest": {"hmac"},
    "DescribeDelegationTokenResponse": {"hmac"},
    "AlterUserScramCredentialsRequest": {"salt", "saltedPassword"},
    "EnvelopeRequest": {"requestData"},
    "EnvelopeResponse": {"responseData"},
    "UserScramCredentialRecord": {"salt", "storedKey", "serverKey", "saltedPassword"},
    "DelegationTokenRecord": {"tokenId", "hmac"},
}

# (the field that names the setting, the fields that hold its value)
_SETTINGS = {
    "AlterConfigsRequest": ("name", {"value"}),
    "IncrementalAlterConfigsRequest": ("name", {"value"}),
    "CreateTopicsRequest": ("name", {"value"}),
    "CreateTopicsResponse": ("name", {"value"}),
    "DescribeConfigsResponse": ("name", {"value"}),
    "ConfigRecord": ("name", {"value"}),
}

# The settings of these have no isSensitive beside them
_UNMARKED = {"AlterConfigsRequest", "IncrementalAlterConfigsRequest", "CreateTopicsRequest", "ConfigRecord"}

# Kafka marks these PASSWORD (SslConfigs, SaslConfigs, ...) under any listener prefix; connectors and quota plugins
# add settings of their own, so a word in the name is enough. URLs of connections may hold user and password.
_SECRET_NAME = re.compile(
    rb"passw|passphrase|secret|credential|token|jaas|private|\.key$|apikey|api[._-]key|access[._-]?key"
    rb"|keystore\.certificate|truststore\.certificates|basic\.auth|user\.info|connection\.ur[il]|pwd"
    rb"|(^|[._-])(pass|pw|bearer)($|[._-])",
    re.IGNORECASE,
)

# Kafka's own settings that only sound like it: PasswordEncoderConfigs, DelegationTokenManagerConfigs, SaslConfigs.
_HARMLESS = re.compile(
    rb"password\.encoder\.(iterations|key\.length|keyfactory\.algorithm|cipher\.algorithm)"
    rb"|delegation\.token\.(max\.lifetime|expiry\.time|expiry\.check\.interval)\.ms"
)


def is_secret_setting(name: bytes) -> bool:
    """Return whether the value of the setting of that name is to be withheld. Matched on what the bytes spell, in any case."""
    return _SECRET_NAME.search(name) is not None and _HARMLESS.fullmatch(name) is None


# "listener.name.internal.scram-sha-256." stands before settings of one listener, or of one mechanism there
_PREFIX = re.compile(rb"listener\.name\.[^.]+\.(?:(?:plain|gssapi|oauthbearer|scram-sha-(?:256|512))\.)?")
# of BROKER_LOGGER, whose value is a level
_LOGGER = re.compile(rb"(kafka|org\.apache)\.[\w.$-]+|root|state\.change\.logger")


def is_secret_value(message: str, name: bytes) -> bool:
    """Return whether the value beside the name of a setting in *message* is to be withheld, if it is not marked as sensitive."""
    return is_secret_setting(name) or (message in _UNMARKED and not is_known_setting(name))


def is_known_setting(name: bytes) -> bool:
    """Return whether Kafka knows the setting, so that its name tells whether its value is a secret."""
    bare = name[found.end() :] if (found := _PREFIX.match(name)) else name
    return bare in _known_settings() or _LOGGER.fullmatch(name) is not None


@functools.cache
def _known_settings() -> frozenset[bytes]:
    lines = read_data_file("setting_names.txt").splitlines()
    return frozenset(line.encode() for line in lines if not line.startswith("#"))


def secrecy(message: str, path: tuple[str, ...]) -> Secrecy:
    """Return what the field at *path* (JSON names, outermost first) of *message* has to do with secrets."""
    if path[-1] in _ALWAYS.get(message, ()):
        return Secrecy.ALWAYS
    name, values = _SETTINGS.get(message, ("", set[str]()))
    if path[-1] in values:
        return Secrecy.BY_NAME
    if name and path[-1] == "isSensitive":
        return Secrecy.MARKS_THE_VALUE
    if path[-1] != name:
        return Secrecy.OPEN
    return Secrecy.NAMES_AN_UNMARKED_SETTING if message in _UNMARKED else Secrecy.NAMES_THE_SETTING
