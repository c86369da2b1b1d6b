"""Hook of LocalStack, run in its own process when it is ready: Tidegate answers calls of SQS.

So `awslocal sqs` and every client of LocalStack's one address reach Tidegate, which serves beside
it. All other services stay LocalStack's.
"""

import os
from typing import Any

from localstack.aws.handlers import serve_custom_service_request_handlers
from localstack.http.proxy import forward

TIDEGATE = os.environ["TIDEGATE_URL"]


def hand_over(chain: Any, context: Any, response: Any) -> None:
    """Have Tidegate answer, where the call is one of SQS."""
    if context.service is None or not context.service.service_name.startswith("sqs"):
        return
    answer = forward(context.request, TIDEGATE)
    response.status_code = answer.status_code
    response.headers.update(answer.headers)
    response.set_response(answer.data)
    chain.stop()


serve_custom_service_request_handlers.append(hand_over)
