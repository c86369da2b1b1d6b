"""What an application does with AWS's extended client for Python, which keeps bodies in S3.

python extended_client.py QUEUE-NAME prints what it saw as JSON. Importing the client changes boto3
for the whole process, so it has one of its own.
"""

import json
import sys

import boto3
import sqs_extended_client  # noqa: F401 - it puts its session in the place of boto3's

BUCKET = "bodies"
MESSAGES = 12


def main() -> None:
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    sqs = boto3.client("sqs")
    sqs.large_payload_support = BUCKET  # type: ignore[attr-defined]
    sqs.delete_payload_from_s3 = True  # type: ignore[attr-defined]
    sqs.always_through_s3 = True  # type: ignore[attr-defined]
    url = sqs.create_queue(QueueName=sys.argv[1])["QueueUrl"]
    seen = []
    for number in range(MESSAGES):
        sqs.send_message(QueueUrl=url, MessageBody=f"body {number}")
        received = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10)["Messages"]
        handle = received[0]["ReceiptHandle"]
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=60)
        sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
        seen.append(received[0]["Body"])
    left = sqs.get_queue_attributes(
        QueueUrl=url,
        AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"],
    )["Attributes"]
    in_s3 = s3.list_objects_v2(Bucket=BUCKET)["KeyCount"]
    print(json.dumps({"seen": seen, "left": left, "in_s3": in_s3}))


if __name__ == "__main__":
    main()
