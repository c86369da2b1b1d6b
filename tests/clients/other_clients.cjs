// Scenarios for other clients of npm than the newest SDK, as an application would use them.
//
//     node other_clients.cjs SCENARIO ENDPOINT QUEUE-NAME
//
// prints what the scenario saw as one JSON object. The tests that run it judge.
"use strict";

const aws4 = require("aws4");
const { AwsClient } = require("aws4fetch");
const ofQueryDays = require("client-sqs-of-query-days");

const BODY = "line\r\nline\rend\r";

const KEY = {
  accessKeyId: process.env.AWS_ACCESS_KEY_ID,
  secretAccessKey: process.env.AWS_SECRET_ACCESS_KEY,
};

/** The fields of a form that creates a queue. */
function fields(QueueName) {
  return new URLSearchParams({ Action: "CreateQueue", Version: "2012-11-05", QueueName });
}

async function told(response) {
  const text = await response.text();
  return { status: response.status, url: /<QueueUrl>(.*)<\/QueueUrl>/.exec(text)?.[1] ?? text };
}

const scenarios = {
  /** Forms and XML, as every SDK spoke before the end of 2023. */
  async query_days(endpoint, QueueName) {
    const client = new ofQueryDays.SQS({ endpoint, region: "us-east-1" });
    const { QueueUrl } = await client.createQueue({ QueueName });
    const attribute = { DataType: "String", StringValue: BODY };
    await client.sendMessage({ QueueUrl, MessageBody: BODY, MessageAttributes: { a: attribute } });
    const { Messages } = await client.receiveMessage({
      QueueUrl,
      WaitTimeSeconds: 10,
      MessageAttributeNames: ["All"],
    });
    const [message] = Messages;
    await client.deleteMessage({ QueueUrl, ReceiptHandle: message.ReceiptHandle });
    return {
      same_body: message.Body === BODY,
      same_attribute: message.MessageAttributes.a.StringValue === BODY,
    };
  },

  /** A presigned address; for other services than S3 it says no expiry. */
  async aws4fetch(endpoint, QueueName) {
    const client = new AwsClient({ ...KEY, service: "sqs", region: "us-east-1" });
    const url = `${endpoint}/?${fields(QueueName)}`;
    const { url: signed } = await client.sign(url, { aws: { signQuery: true } });
    return { expires: signed.includes("X-Amz-Expires"), ...(await told(await fetch(signed))) };
  },

  async aws4(endpoint, QueueName) {
    const { host } = new URL(endpoint);
    const request = { service: "sqs", region: "us-east-1", host, path: `/?${fields(QueueName)}` };
    const { path } = aws4.sign({ ...request, signQuery: true }, KEY);
    const response = await fetch(`${endpoint}${path}`);
    return { expires: path.includes("X-Amz-Expires"), ...(await told(response)) };
  },
};

const [name, endpoint, queueName] = process.argv.slice(2);
scenarios[name](endpoint, queueName).then((seen) => console.log(JSON.stringify(seen)));
