"""Settings of the functions: one clear line for what is missing or wrong."""

import pytest

from control_plane.serverless.settings import (
    FunctionSettings,
    VariableError,
    read_settings,
)

ENVIRON = {
    "AWS_REGION": "eu-west-1",
    "TIDEGATE_TABLE": "tidegate",
    "TIDEGATE_BLOBS": "s3://bodies",
    "TIDEGATE_KMS_KEY": "arn:aws:kms:eu-west-1:111122223333:key/5f1b3a52",
}


def test_what_a_deployment_must_say() -> None:
    assert read_settings(ENVIRON) == FunctionSettings(
        table="tidegate",
        region="eu-west-1",
        blobs="s3://bodies",
        kms_key="arn:aws:kms:eu-west-1:111122223333:key/5f1b3a52",
        endpoint="",
        account="000000000000",
        base_url="",
        long_poll_s_max=20,
        usage="",
        log_level="info",
    )


def test_what_a_deployment_may_say() -> None:
    settings = read_settings(
        {
            **ENVIRON,
            "TIDEGATE_REGION": "us-west-2",
            "TIDEGATE_ENDPOINT": "http://127.0.0.1:4566",
            "TIDEGATE_ACCOUNT": "111122223333",
            "TIDEGATE_BASE_URL": "https://queues.example/prod/",
            "TIDEGATE_LONG_POLL_S_MAX": "0",
            "TIDEGATE_USAGE": "s3://records/usage",
            "TIDEGATE_METADATA_CACHE": "cache.example:11211",
            "TIDEGATE_METADATA_CACHE_LAYOUT": "whole-copy",
            "TIDEGATE_LOG_LEVEL": "warning",
            "TIDEGATE_CELLS": "second,eu-west=eu-west-1/third",
            "TIDEGATE_GRACE_S": "0",
            "TIDEGATE_STRICT_STREAMS": "0",
        }
    )
    assert settings.strict_streams_s == 0
    assert (settings.cells, settings.grace_s) == (
        (("second", settings.region, "second"), ("eu-west", "eu-west-1", "third")),
        0,
    )
    assert settings.metadata_cache == "cache.example:11211"
    assert settings.metadata_cache_layout == "whole-copy"
    assert (settings.region, settings.endpoint) == ("us-west-2", "http://127.0.0.1:4566")
    assert (settings.account, settings.long_poll_s_max) == ("111122223333", 0)
    assert settings.base_url == "https://queues.example/prod"
    assert (settings.usage, settings.log_level) == ("s3://records/usage", "warning")


@pytest.mark.parametrize("cells", ["second=eu-west-1/tidegate", "a-1=us/one,a-2=us/one"])
def test_no_table_has_two_names(cells: str) -> None:
    assert (ENVIRON["AWS_REGION"], ENVIRON["TIDEGATE_TABLE"]) == ("eu-west-1", "tidegate")
    with pytest.raises(VariableError, match=r"^TIDEGATE_CELLS: a table is there under more than"):
        read_settings({**ENVIRON, "TIDEGATE_CELLS": cells})


@pytest.mark.parametrize("name", ["TIDEGATE_TABLE", "TIDEGATE_BLOBS", "TIDEGATE_KMS_KEY"])
@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_variable_is_named(name: str, value: str | None) -> None:
    environ = {key: text for key, text in ENVIRON.items() if key != name}
    if value is not None:
        environ[name] = value
    with pytest.raises(VariableError) as missing:
        read_settings(environ)
    assert str(missing.value) == f"{name}: it is missing, and this function needs it"
    assert missing.value.variable == name


def test_a_region_comes_from_somewhere() -> None:
    environ = {key: text for key, text in ENVIRON.items() if key != "AWS_REGION"}
    with pytest.raises(VariableError, match=r"^TIDEGATE_REGION: it is missing"):
        read_settings(environ)


def test_another_function_needs_other_variables() -> None:
    environ = {"AWS_REGION": "eu-west-1", "TIDEGATE_USAGE": "s3://records/usage"}
    assert read_settings(environ, required=("USAGE",)).usage == "s3://records/usage"
    with pytest.raises(VariableError, match=r"^TIDEGATE_USAGE: "):
        read_settings({"AWS_REGION": "eu-west-1"}, required=("USAGE",))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TIDEGATE_CELLS", "tidegate"),
        ("TIDEGATE_CELLS", "a"),
        ("TIDEGATE_CELLS", "second=third"),
        ("TIDEGATE_GRACE_S", "-1"),
        ("TIDEGATE_GRACE_S", "86401"),
        ("TIDEGATE_DROP_PACE", "1001"),
        ("TIDEGATE_DROP_PACE", "fast"),
        ("TIDEGATE_TABLE", "a b"),
        ("TIDEGATE_TABLE", "ab"),
        ("TIDEGATE_REGION", "Europe"),
        ("TIDEGATE_BLOBS", "/var/bodies"),
        ("TIDEGATE_BLOBS", "s3://UPPER"),
        ("TIDEGATE_KMS_KEY", "a key"),
        ("TIDEGATE_ENDPOINT", "127.0.0.1:4566"),
        ("TIDEGATE_ENDPOINT", "http://h/path"),
        ("TIDEGATE_ACCOUNT", "12"),
        ("TIDEGATE_BASE_URL", "queues.example"),
        ("TIDEGATE_BASE_URL", "https://queues.example/?a"),
        ("TIDEGATE_LONG_POLL_S_MAX", "21"),
        ("TIDEGATE_LONG_POLL_S_MAX", "-1"),
        ("TIDEGATE_LONG_POLL_S_MAX", "1.5"),
        ("TIDEGATE_LONG_POLL_S_MAX", "\u0662"),
        ("TIDEGATE_USAGE", "records"),
        ("TIDEGATE_METADATA_CACHE", "cache:0"),
        ("TIDEGATE_METADATA_CACHE_LAYOUT", "copied"),
        ("TIDEGATE_LOG_LEVEL", "debug"),
        ("TIDEGATE_STRICT_STREAMS", "much"),
        ("TIDEGATE_STRICT_STREAMS", "-1"),
        ("TIDEGATE_STRICT_STREAMS", "nan"),
        ("TIDEGATE_STRICT_STREAMS", "3601"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(VariableError) as wrong:
        read_settings({**ENVIRON, name: value})
    text = str(wrong.value)
    assert text.startswith(f"{name}: ")
    assert repr(value) in text
    assert "\n" not in text


def test_copies_of_a_sandbox_are_refused() -> None:
    with pytest.raises(VariableError, match=r"^AWS_LAMBDA_INITIALIZATION_TYPE: .*SnapStart"):
        read_settings({**ENVIRON, "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start"})
    as_ever = read_settings({**ENVIRON, "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand"})
    assert as_ever == read_settings(ENVIRON)
