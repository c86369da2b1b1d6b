"""Who did what: access records (docs/usage.md), summed up, with those who were refused."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType, StructField, StructType

from glue_jobs.records import Kind

FOLDER: Final = "access/"
SCHEMA: Final = "tidegate.access/1"
WHO: Final = ("account", "principal", "access_key_id", "client")
WHAT: Final = ("region", "queue", "operation", "status", "code")
COLUMNS: Final = ("schema", "writer", "number", "minute", *WHO, *WHAT, "requests")
"""Of a record, in its order."""

DENIALS: Final = frozenset(
    {
        *("AccessDenied", "AccessDeniedException", "InvalidClientTokenId", "InvalidAccessKeyId"),
        *("SignatureDoesNotMatch", "IncompleteSignature", "IncompleteSignatureException"),
        *("MissingAuthenticationToken", "MissingAuthenticationTokenException"),
        *("InvalidSignatureException", "UnrecognizedClientException", "NotAuthorized"),
        *("KMS.AccessDeniedException", "KmsAccessDenied", "InvalidSecurity", "RequestExpired"),
    }
)
"""Codes of requests that were refused for who asked."""

_NUMBERS: Final = {"number": 1, "minute": 0, "requests": 1}
_TEXT_CHARS_MAX: Final = 2048
"""An ARN has as many."""

ACCESS: Final = Kind(FOLDER, SCHEMA, COLUMNS, _NUMBERS, _TEXT_CHARS_MAX)
SPARK_SCHEMA: Final = StructType(
    [StructField(name, LongType() if name in _NUMBERS else StringType()) for name in COLUMNS]
)


def read_access(session: SparkSession, urls: Sequence[str]) -> DataFrame:
    """The access records of screened files, each once."""
    if not urls:
        return session.createDataFrame([], SPARK_SCHEMA)
    return session.read.schema(SPARK_SCHEMA).parquet(*urls).dropDuplicates(["writer", "number"])


def who_did_what(records: DataFrame) -> DataFrame:
    """Requests by who, what, and how it ended; `denied` where it was for who asked."""
    return (
        records.groupBy(*WHO, *WHAT)
        .agg(
            f.sum("requests").alias("requests"),
            f.min("minute").alias("first_minute"),
            f.max("minute").alias("last_minute"),
        )
        .withColumn("denied", f.col("code").isin(*DENIALS))
        .orderBy(f.desc("denied"), *WHO, *WHAT)
    )
