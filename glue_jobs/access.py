"""Who did what: access records (docs/usage.md), summed up, with those who were refused."""

from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import LongType, StringType, StructField, StructType

from glue_jobs.places import Place

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

_NUMBERS: Final = ("number", "minute", "requests")
SPARK_SCHEMA: Final = StructType(
    [StructField(name, LongType() if name in _NUMBERS else StringType()) for name in COLUMNS]
)


def read_access(session: SparkSession, place: Place) -> DataFrame:
    """The access records of a usage place, each once."""
    names = [found.name for found in place.list(FOLDER) if found.name.endswith(".parquet")]
    if not names:
        return session.createDataFrame([], SPARK_SCHEMA)
    records = session.read.schema(SPARK_SCHEMA).parquet(*(f"{place.url}/{name}" for name in names))
    return records.where(f.col("schema") == SCHEMA).dropDuplicates(["writer", "number"])


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
