"""AWS KMS: the key service "aws_kms". Credentials are found as AWS's own tools find them; none stand in kproxy's settings.

The name of a key is its alias without "alias/", or its key id. Only keys of the account of the credentials are used, as the name
may come from a record: no ARN is taken. Each data key is bound to the encryption context CONTEXT, so that kproxy decrypts nothing
else that the same KMS key has encrypted. Answers have MOST_ANSWER bytes at most; no proxy of the environment is used.

Source: https://docs.aws.amazon.com/kms/latest/APIReference (GenerateDataKey, Decrypt, ReEncrypt).
"""

import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import urlsplit

from msgspec import Meta

from kproxy.encryption.services.contract import (
    DATA_KEY_SIZE,
    MOST_WRAPPED,
    DataKey,
    KeyDestroyed,
    KeyFacts,
    KeyRefused,
    KeyServiceAway,
    KeyServiceError,
    check_is_new,
)
from kproxy.encryption.services.deadline import answered_within, limit
from kproxy.encryption.services.loading import require
from kproxy.options import OptionMistakes, Options, Problem, Seconds, text, without_secrets

CONTEXT = {"kproxy": "data key"}
MOST_ANSWER = 1 << 20  # bytes
MOST_PAGES = 1_000  # of aliases, 50 each
ALIAS = re.compile(r"[A-Za-z0-9/_-]{1,200}")
KEY_ID = re.compile(r"(?:mrk-[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
DAYS_TO_DELETION = 30  # in which the deletion can be undone with AWS's tools

# Code of AWS -> the error and the end of its sentence
ERRORS: dict[str, tuple[type[KeyServiceError], str]] = {
    "NotFoundException": (KeyDestroyed, "there is no such key"),
    "DisabledException": (KeyRefused, "the key is disabled"),
    "AccessDeniedException": (KeyRefused, "kproxy has no right to this"),
    "InvalidCiphertextException": (KeyServiceError, "the key has not wrapped this data key"),
    "IncorrectKeyException": (KeyServiceError, "another key has wrapped this data key"),
    "InvalidKeyUsageException": (KeyServiceError, "a key of its kind cannot wrap data keys"),
    "AlreadyExistsException": (KeyServiceError, "there is such a key already"),
    "ValidationException": (KeyServiceError, "AWS KMS does not take this request"),
}
LOGIN = frozenset(
    (
        "UnrecognizedClientException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        "ExpiredTokenException",
        "IncompleteSignature",
        "MissingAuthenticationToken",
        "NotAuthorized",
        "OptInRequired",
        "RequestExpired",
    )
)
THROTTLED = frozenset(
    ("ThrottlingException", "LimitExceededException", "DependencyTimeoutException", "KeyUnavailableException")
)


class AwsKmsOptions(Options, frozen=True):
    """AWS Key Management Service."""

    region: Annotated[str, Meta(pattern="^[a-z0-9-]{2,40}$"), text("The region of the keys, such as eu-central-1.")]
    url: Annotated[str | None, text("Another address of KMS, such as that of a VPC endpoint; null: the region's.")] = (
        None
    )
    ca: Annotated[str | None, text("File with the CAs that sign its certificate, PEM; null: those of botocore.")] = None
    timeout: Annotated[Seconds, text("To connect, and for a whole answer.")] = 3.0

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        try:
            parts = urlsplit(self.url or f"https://kms.{self.region}.amazonaws.com")
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_address = False
        if not is_address:
            problems.append(("url", "it is no address of KMS: write https://HOST"))
        elif "@" in parts.netloc or (
            parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1")
        ):
            problems.append(("url", "write https://HOST, without a login: data keys would be sent without TLS"))
        if self.ca is not None and not os.access(self.ca, os.R_OK):
            problems.append(("ca", f"{without_secrets(self.ca)} cannot be read"))
        if problems:
            raise OptionMistakes(problems)


class AwsKms:
    """The key service "aws_kms". Raises UsageError if boto3 is not installed."""

    Options = AwsKmsOptions

    def __init__(self, options: AwsKmsOptions) -> None:
        boto3 = require("boto3", "aws")
        config = require("botocore.config", "aws").Config(
            connect_timeout=options.timeout, read_timeout=options.timeout, retries={"total_max_attempts": 1}
        )
        self._errors = errors = require("botocore.exceptions", "aws")
        self._away: tuple[type[Exception], ...] = (
            errors.ConnectionError,
            errors.HTTPClientError,
            require("urllib3.exceptions", "aws").HTTPError,
            OSError,
        )
        self.url = options.url or f"KMS in {options.region}"
        self._kms = boto3.session.Session().client(
            "kms", region_name=options.region, endpoint_url=options.url, config=config, verify=options.ca
        )
        self._kms.meta.events.register("before-send.kms", _sender(options))

    def new_data_key(self, key_name: str) -> DataKey:
        answer = self._ask(
            key_name,
            lambda key_id: self._kms.generate_data_key(
                KeyId=key_id, NumberOfBytes=DATA_KEY_SIZE, EncryptionContext=CONTEXT
            ),
        )
        return DataKey(self._plain(answer), self._wrapped(answer))

    def unwrap(self, key_name: str, wrapped: bytes) -> bytes:
        answer = self._ask(
            key_name, lambda key_id: self._kms.decrypt(KeyId=key_id, CiphertextBlob=wrapped, EncryptionContext=CONTEXT)
        )
        return self._plain(answer)

    def close(self) -> None:
        self._kms.close()

    def list_keys(self) -> list[KeyFacts]:
        return [self.describe_key(name) for name in sorted(self._aliases())]

    def describe_key(self, key_name: str) -> KeyFacts:
        facts = self._facts(key_name)
        key_id = facts["KeyId"]
        rotations = self._ask(key_id, lambda _: self._kms.list_key_rotations(KeyId=key_id)).get("Rotations", [])
        newest = max((_ms(one.get("RotationDate")) or 0 for one in rotations), default=0)
        return KeyFacts(
            key_name, 1 + len(rotations), 1, newest or _ms(facts.get("CreationDate")), _ms(facts.get("DeletionDate"))
        )

    def make(self, key_name: str, *, dry_run: bool = False) -> None:
        if KEY_ID.fullmatch(key_name):
            raise KeyServiceError("AWS KMS makes the ids of keys itself: name the new key by an alias")
        check_is_new(self, key_name)
        if not dry_run:
            made = self._ask(key_name, lambda _: self._kms.create_key(Description="Wraps data keys of kproxy"))
            made_id = self._metadata(made)["KeyId"]
            self._ask(key_name, lambda alias: self._kms.create_alias(AliasName=alias, TargetKeyId=made_id))

    def rotate(self, key_name: str, *, dry_run: bool = False) -> None:
        key_id = self._facts(key_name)["KeyId"]
        if not dry_run:
            self._ask(key_name, lambda _: self._kms.rotate_key_on_demand(KeyId=key_id))

    def destroy(self, key_name: str, before: int | None = None, *, dry_run: bool = False) -> None:
        """Schedule the deletion of a key, after which it is of no use; AWS can undo it for DAYS_TO_DELETION."""
        if before is not None:
            raise KeyServiceError("AWS KMS destroys keys with all of their versions: leave out --before")
        key_id = self._facts(key_name)["KeyId"]
        if not dry_run:
            self._ask(
                key_name,
                lambda _: self._kms.schedule_key_deletion(KeyId=key_id, PendingWindowInDays=DAYS_TO_DELETION),
            )

    def rewrap(self, key_name: str, wrapped: bytes) -> bytes:
        answer = self._ask(
            key_name,
            lambda key_id: self._kms.re_encrypt(
                CiphertextBlob=wrapped,
                SourceKeyId=key_id,
                SourceEncryptionContext=CONTEXT,
                DestinationKeyId=key_id,
                DestinationEncryptionContext=CONTEXT,
            ),
        )
        return self._wrapped(answer)

    def _facts(self, key_name: str) -> dict[str, Any]:
        """Return what KMS says of a key; its KeyId is what changes of keys ask for."""
        return self._metadata(self._ask(key_name, lambda key_id: self._kms.describe_key(KeyId=key_id)))

    def _metadata(self, answer: dict[str, Any]) -> dict[str, Any]:
        facts = answer.get("KeyMetadata")
        if not isinstance(facts, dict) or not isinstance(facts.get("KeyId"), str):
            raise self._not_of_kms()
        return facts

    def _aliases(self) -> Iterator[str]:
        marker: dict[str, str] = {}
        for _ in range(MOST_PAGES):
            page = self._ask("aliases", lambda _: self._kms.list_aliases(**marker))  # noqa: B023 - called at once
            names = [str(one.get("AliasName", "")).removeprefix("alias/") for one in page.get("Aliases", [])]
            yield from (name for name in names if ALIAS.fullmatch(name) and not name.startswith("aws/"))
            if not page.get("NextMarker"):
                return
            marker = {"Marker": page["NextMarker"]}

    def _ask(self, key_name: str, question: Callable[[str], Any]) -> dict[str, Any]:
        errors = self._errors
        if not ALIAS.fullmatch(key_name):
            raise KeyServiceError("the name of the key is neither an alias nor a key id of AWS KMS")
        try:
            answer = question(key_name if KEY_ID.fullmatch(key_name) else f"alias/{key_name}")
        except errors.ClientError as error:
            raise self._known(key_name, error) from None
        except (errors.NoCredentialsError, errors.PartialCredentialsError, errors.CredentialRetrievalError) as error:
            raise KeyRefused(f"there are no credentials for {self.url} ({type(error).__name__})") from None
        except self._away as error:
            raise KeyServiceAway(f"{self.url} does not answer ({type(error).__name__})") from None
        except (errors.BotoCoreError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
            raise self._not_of_kms() from None
        if not isinstance(answer, dict):
            raise self._not_of_kms()
        return answer

    def _known(self, key_name: str, error: Any) -> KeyServiceError:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in ERRORS:
            kind, why = ERRORS[code]
            return kind(f"the key {key_name}: {why} ({self.url})")
        if code == "KMSInvalidStateException" and "pending deletion" in str(error):
            return KeyDestroyed(f"the key {key_name} is scheduled for deletion ({self.url})")
        if code in LOGIN:  # another 403 is not KMS's, but of a proxy or a load balancer: it says nothing of keys
            return KeyRefused(f"the key {key_name}: {self.url} refuses kproxy's credentials")
        if code in THROTTLED or status == 429 or status >= 500 or code == "KMSInvalidStateException":
            return KeyServiceAway(f"{self.url} answers {status}: it is overloaded or failing, or the key is not ready")
        return KeyServiceAway(f"{self.url} answers {status}, which is no answer of AWS KMS")

    def _plain(self, answer: dict[str, Any]) -> bytes:
        plain = answer.get("Plaintext")
        if not isinstance(plain, bytes) or not plain:
            raise self._not_of_kms()
        return plain

    def _wrapped(self, answer: dict[str, Any]) -> bytes:
        wrapped = answer.get("CiphertextBlob")
        if not isinstance(wrapped, bytes) or not 0 < len(wrapped) <= MOST_WRAPPED:
            raise self._not_of_kms()
        return wrapped

    def _not_of_kms(self) -> KeyServiceAway:
        return KeyServiceAway(f"{self.url} answers what is not AWS KMS's: is it the right address?")


class _Read:
    """The body of an answer, already read, as botocore takes it."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def stream(self) -> Iterator[bytes]:
        yield self._data


def _sender(options: AwsKmsOptions) -> Callable[..., Any]:
    """Return a handler that sends requests in place of botocore, which reads answers of any size."""
    response_class = require("botocore.awsrequest", "aws").AWSResponse
    session = require("botocore.httpsession", "aws").URLLib3Session(
        verify=True if options.ca is None else options.ca, timeout=(options.timeout, options.timeout)
    )

    limit(session._manager)

    def send(request: Any, **_: Any) -> Any:
        request.stream_output = True
        with answered_within(options.timeout):
            answer = session.send(request)
            try:
                data = answer.raw.read(MOST_ANSWER + 1)
            finally:
                answer.raw.close()
        if len(data) > MOST_ANSWER:
            raise ValueError(f"an answer of more than {MOST_ANSWER:,} bytes")
        return response_class(answer.url, answer.status_code, answer.headers, _Read(data))

    return send


def _ms(time: object) -> int | None:
    return int(time.timestamp() * 1_000) if isinstance(time, datetime) else None
