"""What a client must say to get in, in each client's own words."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.kafka.brokers import PASSWORD, USER

_LOGIN = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": f'{_LOGIN}.plain.PlainLoginModule required username="{USER}" password="{PASSWORD}";',
    "OAUTHBEARER": f'{_LOGIN}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{USER}";',
}
_SCRAM = f'{_LOGIN}.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'


@dataclass(frozen=True)
class Security:
    """security.protocol and what goes with it; files are PEM."""

    protocol: str = "PLAINTEXT"
    mechanism: str | None = None
    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def java(self) -> dict[str, str]:
        """Properties of the Java client."""
        properties = {"security.protocol": self.protocol}
        if self.mechanism:
            properties["sasl.mechanism"] = self.mechanism
            properties["sasl.jaas.config"] = _MODULES.get(self.mechanism, _SCRAM)
        if self.ca:
            properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca)}
        if self.certificate and self.key:
            together = self.certificate.with_suffix(".keystore")
            together.write_bytes(self.key.read_bytes() + self.certificate.read_bytes())
            properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(together)}
        return properties

    def librdkafka(self) -> dict[str, Any]:
        """Properties of librdkafka."""
        properties: dict[str, Any] = {"security.protocol": self.protocol}
        if self.mechanism == "OAUTHBEARER":
            properties |= {
                "sasl.mechanism": self.mechanism,
                "enable.sasl.oauthbearer.unsecure.jwt": True,
                "sasl.oauthbearer.config": f"principal={USER}",
            }
        elif self.mechanism:
            properties |= {"sasl.mechanism": self.mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
        if self.ca:
            properties["ssl.ca.location"] = str(self.ca)
        if self.certificate:
            properties |= {"ssl.certificate.location": str(self.certificate), "ssl.key.location": str(self.key)}
        return properties

    def _python(self) -> dict[str, Any]:
        words: dict[str, Any] = {"security_protocol": self.protocol}
        if self.mechanism:
            words |= {"sasl_mechanism": self.mechanism, "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
        return words

    def kafka_python(self) -> dict[str, Any]:
        """Keyword arguments of kafka-python."""
        words = self._python()
        if self.ca:
            words["ssl_cafile"] = str(self.ca)
        if self.certificate:
            words |= {"ssl_certfile": str(self.certificate), "ssl_keyfile": str(self.key)}
        return words

    def aiokafka(self) -> dict[str, Any]:
        """Keyword arguments of aiokafka."""
        from aiokafka.helpers import create_ssl_context  # noqa: PLC0415 - this module is loaded by every run

        words = self._python()
        if self.ca:
            certificate = str(self.certificate) if self.certificate else None
            key = str(self.key) if self.key else None
            words["ssl_context"] = create_ssl_context(cafile=str(self.ca), certfile=certificate, keyfile=key)
        return words

    def go(self) -> dict[str, str]:
        """Words of the program of tests/truth/go."""
        login = {"mechanism": self.mechanism or "", "user": USER, "password": PASSWORD}
        files = {"ca": self.ca, "certificate": self.certificate, "key": self.key}
        return login | {name: str(file) for name, file in files.items() if file is not None}


PLAINTEXT = Security()
