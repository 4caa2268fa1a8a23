"""The fields that carry credentials. They are withheld from everything kproxy shows; no option shows them.

Withheld are SASL tokens (passwords, proofs, bearer tokens), delegation token HMACs, SCRAM salts and salted passwords, values of
settings with the name of a secret, and the bytes of requests and responses nested in an Envelope (KIP-590), which may contain
any of these. If no broker says whether a value is sensitive, values of settings unknown to Kafka are withheld, too, as in
brokers' own logs (KafkaConfig.loggableValue).
"""

import functools
import re
from enum import IntEnum

from kproxy.protocol.facts import read_data_file


class Secrecy(IntEnum):
    """The role of a field for secrets. The numbers are those in program.pxd."""

    OPEN = 0
    ALWAYS = 1
    NAMES_THE_SETTING = 2  # the setting's name, which decides about the value in the same struct
    BY_NAME = 3
    MARKS_THE_VALUE = 4  # says whether the value in the same struct, and its synonyms, are secret
    NAMES_AN_UNMARKED_SETTING = 5  # as NAMES_THE_SETTING; the value of a setting unknown to Kafka is a secret, too


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

# Messages whose settings have no field isSensitive
_UNMARKED = {"AlterConfigsRequest", "IncrementalAlterConfigsRequest", "CreateTopicsRequest", "ConfigRecord"}

# Kafka marks these PASSWORD (SslConfigs, SaslConfigs, ...) under any listener prefix; connectors and quota plugins
# add settings of their own, so a word in the name is enough. URLs of connections may hold user and password.
_SECRET_NAME = re.compile(
    rb"passw|passphrase|secret|credential|token|jaas|private|\.key$|apikey|api[._-]key|access[._-]?key"
    rb"|keystore\.certificate|truststore\.certificates|basic\.auth|user\.info|connection\.ur[il]|pwd"
    rb"|(^|[._-])(pass|pw|bearer)($|[._-])",
    re.IGNORECASE,
)

# Kafka's own settings that only sound like secrets: PasswordEncoderConfigs, DelegationTokenManagerConfigs, SaslConfigs.
_HARMLESS = re.compile(
    rb"password\.encoder\.(iterations|key\.length|keyfactory\.algorithm|cipher\.algorithm)"
    rb"|delegation\.token\.(max\.lifetime|expiry\.time|expiry\.check\.interval)\.ms"
)


def is_secret_setting(name: bytes) -> bool:
    """Return whether the value of the setting of that name must be withheld; the case of letters does not matter."""
    return _SECRET_NAME.search(name) is not None and _HARMLESS.fullmatch(name) is None


# "listener.name.internal.scram-sha-256." is the prefix of settings for one listener, or for one mechanism of it
_PREFIX = re.compile(rb"listener\.name\.[^.]+\.(?:(?:plain|gssapi|oauthbearer|scram-sha-(?:256|512))\.)?")
# names of settings of a BROKER_LOGGER, whose values are log levels
_LOGGER = re.compile(rb"(kafka|org\.apache)\.[\w.$-]+|root|state\.change\.logger")


def is_secret_value(message: str, name: bytes) -> bool:
    """Return whether a setting's value in *message* must be withheld although it is not marked as sensitive."""
    return is_secret_setting(name) or (message in _UNMARKED and not is_known_setting(name))


def is_known_setting(name: bytes) -> bool:
    """Return whether Kafka knows the setting, so its name shows whether its value is a secret."""
    bare = name[prefix.end() :] if (prefix := _PREFIX.match(name)) else name
    return bare in _known_settings() or _LOGGER.fullmatch(name) is not None


@functools.cache
def _known_settings() -> frozenset[bytes]:
    lines = read_data_file("setting_names.txt").splitlines()
    return frozenset(line.encode() for line in lines if not line.startswith("#"))


def secrecy(message: str, path: tuple[str, ...]) -> Secrecy:
    """Return the role for secrets of the field at *path* (JSON names, outermost first) of *message*."""
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
