"""AWS KMS as a key service, against moto's server."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from kproxy.encryption.services import KeyDestroyed, KeyRefused, KeyService, KeyServiceError
from kproxy.encryption.services.aws_kms import CONTEXT, AwsKms, AwsKmsOptions
from kproxy.errors import UsageError
from kproxy.options import read_options
from kproxy.testing.key_services import HttpFaults, KeyServiceContract

REGION = "eu-central-1"
SECRET = "canary-of-the-secret"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAKPROXY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/none")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/none")


@pytest.fixture(scope="module")
def session() -> Any:
    import boto3  # noqa: PLC0415

    return boto3.session.Session()


@pytest.fixture
def one_session(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of boto3's sessions reads AWS's description of KMS again, which takes longer than a test."""
    monkeypatch.setattr("boto3.session.Session", lambda: session)


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - a second, which only slow tests pay

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def service(moto: str) -> Iterator[AwsKms]:
    with closing(AwsKms(AwsKmsOptions(region=REGION, url=moto, timeout=60.0))) as made:  # its first answer imports KMS
        for name in ("orders", "bills"):
            if name not in {one.name for one in made.list_keys()}:
                made.make(name)
        yield made


@pytest.mark.slow
class TestAwsKms(KeyServiceContract):
    key_name, other_key_name = "orders", "bills"


@pytest.mark.usefixtures("one_session")
class TestFaultsOfAwsKms(HttpFaults):
    def service_at(self, url: str) -> KeyService:
        return AwsKms(AwsKmsOptions(region=REGION, url=url, timeout=1.0))


@pytest.mark.slow
def test_nothing_else_of_the_account_is_decrypted(service: AwsKms, moto: str) -> None:
    """What another program has encrypted with the same key has another context; ARNs and keys of AWS are not taken."""
    import boto3  # noqa: PLC0415

    kms = boto3.client("kms", region_name=REGION, endpoint_url=moto)
    for context in ({}, {"kproxy": "other"}):
        other = kms.encrypt(KeyId="alias/orders", Plaintext=bytes(32), EncryptionContext=context)["CiphertextBlob"]
        with pytest.raises(KeyServiceError, match="has not wrapped this data key"):
            service.unwrap("orders", other)
    made = service.new_data_key("orders")
    same = kms.decrypt(KeyId="alias/orders", CiphertextBlob=made.wrapped, EncryptionContext=CONTEXT)
    assert same["Plaintext"] == made.plain
    arn = kms.describe_key(KeyId="alias/orders")["KeyMetadata"]["Arn"]
    with pytest.raises(KeyServiceError, match="neither an alias nor a key id"):
        service.unwrap(arn, made.wrapped)
    assert service.unwrap(arn.rpartition("/")[2], made.wrapped) == made.plain


@pytest.mark.slow
def test_a_key_that_is_to_be_deleted(service: AwsKms) -> None:
    service.make("gone")
    with pytest.raises(KeyServiceError, match="there is a key gone already"):
        service.make("gone")
    with pytest.raises(KeyServiceError, match="by an alias"):
        service.make("1234abcd-12ab-34cd-56ef-1234567890ab")
    service.destroy("gone", dry_run=True)
    assert service.describe_key("gone").destroyed_at is None
    with pytest.raises(KeyServiceError, match="leave out --before"):
        service.destroy("gone", before=2)
    service.destroy("gone")
    assert service.describe_key("gone").destroyed_at is not None


def test_no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with closing(AwsKms(AwsKmsOptions(region=REGION))) as made, pytest.raises(KeyRefused, match="no credentials"):
        made.new_data_key("orders")


@pytest.mark.usefixtures("one_session")
@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        ("KMSInvalidStateException", "arn:... is pending deletion.", KeyDestroyed),
        ("DisabledException", "arn:... is disabled.", KeyRefused),
        ("ExpiredTokenException", "canary", KeyRefused),
        ("InvalidCiphertextException", "canary", KeyServiceError),
    ],
)
def test_codes_of_aws(code: str, message: str, expected: type[Exception]) -> None:
    """As the API reference has them; moto does not answer all of them."""
    from botocore.exceptions import ClientError  # noqa: PLC0415

    answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": 400}}
    service = AwsKms(AwsKmsOptions(region=REGION))
    error = service._known("orders", ClientError(answer, "Decrypt"))
    assert type(error) is expected and "canary" not in str(error) and "orders" in str(error)


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"region": "Frankfurt am Main"}, "region"),
        ({"region": REGION, "url": "http://kms.example.com"}, "url"),
        ({"region": REGION, "url": "https://user:canary@kms"}, "url"),
        ({"region": REGION, "url": "kms"}, "url"),
        ({"region": REGION, "ca": "/none"}, "ca"),
    ],
)
def test_options_with_a_mistake(given: dict[str, str], path: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_options(AwsKmsOptions, given)
    assert str(caught.value).startswith(f"{path}: ") and "canary" not in str(caught.value)
