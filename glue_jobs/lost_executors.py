"""What a job does about executors that are lost with steps that were done.

A step that is kept by a local checkpoint lies in memory and on disk of the executor that did it,
and Spark has forgotten how it was made. So when an executor is lost (its machine goes, or its
memory is used up) whatever needs such a step fails; nothing comes out wrong or incomplete. A job
that puts the same again where it put something begins again then, in the same session, on executors
that Spark starts anew. Checkpoints in a bucket would survive, but each step would be made twice.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from glue_jobs.arguments import JobError

ATTEMPTS: Final = 3
"""Of a run: a machine may be lost now and then; what always loses executors lacks memory."""

_LOST: Final = "Checkpoint block"
"""Of Spark's message: `Checkpoint block rdd_3_0 not found!` (SparkCoreErrors.scala)."""

T = TypeVar("T")


def begun_again(work: Callable[[], T], say: Callable[[str], None]) -> T:
    """What `work` answers, which is begun again where executors were lost.

    Raises JobError when that did not help, and whatever else `work` raises.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return work()
        except (Py4JJavaError, PySparkException) as error:
            if _LOST not in str(error):
                raise
            say(f"an executor was lost with steps that were done (attempt {attempt} of {ATTEMPTS})")
    raise JobError(
        f"executors were lost in each of {ATTEMPTS} attempts: give the job larger workers, or more"
    )
