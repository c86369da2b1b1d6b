"""Who signs digests: a key in a file, and one of KMS; and where heads are kept."""

import base64
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from glue_jobs.anchors import anchor_of, newest
from glue_jobs.arguments import JobError
from glue_jobs.digest import add_digest, main, tree_of
from glue_jobs.places import place_of
from glue_jobs.signing import FileSigner, KmsSigner, Signer, create_key, signer_of
from glue_jobs.verifier import Head, Known, PublicKey, findings, read_head

HEAD = Head("bills", 3, "2026-11-21T01", "0" * 64)


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        for name in ("bucket", "heads"):
            boto3.client("s3").create_bucket(Bucket=name)
        yield


def kms_key(**options: Any) -> str:
    made = boto3.client("kms").create_key(**options)
    return str(made["KeyMetadata"]["Arn"])


def signing_key() -> str:
    return kms_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY")


def check(signer: Signer) -> None:
    """It signs what others verify with its public key alone."""
    public = PublicKey(signer.public_pem())
    signed = signer.sign(HEAD)
    assert read_head(signed.to_bytes()) == signed
    assert public.id == signer.key == signed.key
    for verify in (public.verify, signer.verify):
        assert verify(signed)
        for other in ({"hash": "1" * 64}, {"chain": "usage"}, {"number": 4}, {"key": "0" * 64}):
            assert not verify(Head(**{**_members(signed), **other}))  # type: ignore[arg-type]
        cut = base64.b64encode(base64.b64decode(signed.signature)[:-1]).decode()
        assert not verify(Head(**{**_members(signed), "signature": cut}))  # type: ignore[arg-type]


def _members(head: Head) -> dict[str, str | int]:
    return {name: getattr(head, name) for name in head.__slots__}


def test_a_key_file_signs(tmp_path: Path) -> None:
    create_key(tmp_path / "key")
    check(FileSigner(tmp_path / "key"))


@pytest.mark.usefixtures("cloud")
def test_a_key_of_kms_signs() -> None:
    check(KmsSigner(signing_key()))


@pytest.mark.usefixtures("cloud")
def test_a_key_of_kms_that_does_not_sign_is_refused_in_a_line() -> None:
    with pytest.raises(JobError, match="arn:aws:kms:us-east-1:"):
        signer_of(kms_key())
    with pytest.raises(JobError, match="it does not sign by ECDSA_SHA_256"):
        signer_of(kms_key(KeySpec="ECC_NIST_P384", KeyUsage="SIGN_VERIFY"))
    with pytest.raises(JobError, match="NotFound"):
        signer_of("arn:aws:kms:us-east-1:123456789012:key/none")


def test_a_key_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "key"
    create_key(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    content = path.read_bytes()
    with pytest.raises(JobError, match="is there already: name a new file"):
        create_key(path)
    assert path.read_bytes() == content
    path.chmod(0o640)
    with pytest.raises(JobError, match="others than its owner may use it"):
        signer_of(str(path))
    path.chmod(0o600)
    path.write_bytes(b"?")
    with pytest.raises(JobError, match="it is no file of a key"):
        signer_of(str(path))
    with pytest.raises(JobError, match="No such file"):
        signer_of(str(tmp_path / "none"))


@pytest.mark.usefixtures("cloud")
def test_the_job_on_aws_signs_by_kms_and_keeps_heads_in_another_bucket(
    capsys: pytest.CaptureFixture[str],
) -> None:
    s3, arn = boto3.client("s3"), signing_key()
    for key in (
        "usage/records/a",
        "usage/writers/w.json",
        "exports/e",
        "bills/b",
        "bills/_drafts/d",
    ):
        s3.put_object(Bucket="bucket", Key=key, Body=b'{"closed":false}')
    given = {
        "--place": "s3://bucket",
        "--apart": "bills/_drafts/",
        "--changing": "usage/writers/",
        "--kept_days": "usage/=1,exports/=34",
        "--every_hours": "1",
        "--signer": arn,
        "--anchor": "s3://heads/stage",
    }
    argv = [word for pair in given.items() for word in pair]
    assert main([*argv, "--hour", "2026-11-21T01"]) == 0
    s3.put_object(Bucket="bucket", Key="usage/writers/w.json", Body=b'{"closed":true}')
    assert main([*argv, "--hour", "2026-11-21T02"]) == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        "digest 1 of 2026-11-21T01: 4 new",
        "digest 2 of 2026-11-21T02: 1 new",
    ]
    keys = [PublicKey(signer_of(arn).public_pem())]
    known = Known(keys, anchor_of("s3://heads/stage").lines(), "", "2026-11-21T03")
    assert list(findings(tree_of("s3://bucket"), known)) == []
    s3.put_object(Bucket="bucket", Key="usage/writers/w.json", Body=b'{"closed":fals}')
    (changed,) = findings(tree_of("s3://bucket"), known)
    assert changed == "changed: usage/writers/w.json: other bytes than before"

    (newest_digest,) = [
        its["Key"]
        for its in s3.list_objects_v2(Bucket="bucket", Prefix="digests/00000002")["Contents"]
    ]
    s3.delete_object(Bucket="bucket", Key=newest_digest)
    assert main([*argv, "--hour", "2026-11-21T03"]) == 1
    assert "digest 2 of 2026-11-21T02 is gone that s3://heads/stage has" in capsys.readouterr().err


def test_a_folder_has_an_object_for_each_head(tmp_path: Path) -> None:
    create_key(tmp_path / "key")
    signer, heads = signer_of(str(tmp_path / "key")), tmp_path / "heads"
    heads.mkdir()
    for hour in ("2026-11-21T01", "2026-11-21T02"):
        add_digest(
            place_of(str(tmp_path / "place")), hour, signer=signer, anchors=[anchor_of(str(heads))]
        )
    anchor = anchor_of(str(heads))
    assert len(anchor.lines()) == 2
    assert [head.number for head in newest(anchor, str(tmp_path / "place"))] == [2, 1]
    assert list(newest(anchor, "another chain")) == []


def test_only_what_is_signed_is_anchored(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="only signed digests are anchored"):
        add_digest(
            place_of(str(tmp_path)), "2026-11-21T01", anchors=[anchor_of(str(tmp_path / "heads"))]
        )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--hour", "yesterday"], "hour: 'yesterday' is not of the form YYYY-MM-DDTHH"),
        (["--kept_days", "usage/"], "kept_days: 'usage/' is not of the form PREFIX=DAYS"),
        (["--apart", "x/", "--every_hours", "often"], "every_hours: 'often' is no number"),
    ],
)
def test_a_wrong_argument_is_told_in_a_line(
    options: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--place", str(tmp_path), "--hour", "2026-11-21T01", *options]) == 1
    assert capsys.readouterr().err == f"digest: {told}\n"
