"""Hook of LocalStack, run in its own process when it is ready: what Tidegate stands on."""

import os
import runpy

defined = runpy.run_path(os.environ["TIDEGATE_HOME"] + "/localstack/provision.py")
defined["provision"](os.environ["TIDEGATE_CELL_ENDPOINT"])
