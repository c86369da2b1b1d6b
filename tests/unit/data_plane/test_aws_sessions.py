import pytest
from botocore import loaders
from botocore.client import BaseClient
from botocore.session import Session

from data_plane.aws_sessions import new_session


def _open(session: Session, region: str) -> BaseClient:
    return session.create_client(
        "dynamodb", region_name=region, aws_access_key_id="AKID", aws_secret_access_key="secret"
    )


def test_models_are_read_once_for_all_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    _open(new_session(), "us-east-1")

    def read_again(*_: object) -> None:
        raise AssertionError("a model was read again")

    monkeypatch.setattr(loaders.JSONFileLoader, "load_file", read_again)
    assert _open(new_session(), "eu-west-1").meta.region_name == "eu-west-1"


def test_sessions_have_credentials_of_their_own() -> None:
    one, other = new_session(), new_session()
    one.set_credentials("AKIDONE", "secret")
    other.set_credentials("AKIDOTHER", "secret")
    for session, name in ((one, "AKIDONE"), (other, "AKIDOTHER")):
        credentials = session.get_credentials()
        assert credentials is not None
        assert credentials.access_key == name
