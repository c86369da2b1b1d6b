// Scenarios for the AWS SDK for JavaScript v3, as an application would use it.
//
//     DIRECT_ENDPOINT=... node javascript_sdk.cjs SCENARIO ENDPOINT QUEUE-NAME
//
// prints what the scenario saw as one JSON object. The tests that run it judge.
"use strict";

const { createHash } = require("node:crypto");
const sqs = require("@aws-sdk/client-sqs");

const BODY = "line\nline\r\ntab\t \u00fc \u{1F600} & < > \" ' ]]>";
const ATTRIBUTES = {
  text: { DataType: "String", StringValue: "gr\u00fc\u00dfe & <b>" },
  number: { DataType: "Number", StringValue: "-12.5e3" },
  bytes: { DataType: "Binary", BinaryValue: Uint8Array.from({ length: 256 }, (_, at) => at) },
  "text.custom": { DataType: "String.json", StringValue: "{}" },
  "bytes-custom": { DataType: "Binary.png", BinaryValue: Buffer.from("\x89PNG", "latin1") },
};
const TEN = Array.from({ length: 10 }, (_, at) => at);

/** The digest of message attributes as the documentation of SQS describes it. */
function md5OfAttributes(attributes) {
  const hash = createHash("md5");
  const update = (value) => {
    const bytes = Buffer.from(value);
    const size = Buffer.alloc(4);
    size.writeUInt32BE(bytes.length);
    hash.update(size).update(bytes);
  };
  for (const name of Object.keys(attributes).sort()) {
    const { DataType, StringValue, BinaryValue } = attributes[name];
    update(name);
    update(DataType);
    hash.update(Buffer.from([BinaryValue ? 2 : 1]));
    update(BinaryValue ?? StringValue);
  }
  return hash.digest("hex");
}

/** JSON has no bytes: show them in hexadecimal. */
function shown(attributes) {
  const entries = Object.entries(attributes).map(([name, { DataType, StringValue, BinaryValue }]) => [
    name,
    [DataType, StringValue ?? Buffer.from(BinaryValue).toString("hex")],
  ]);
  return Object.fromEntries(entries);
}

async function failure(call) {
  try {
    await call;
  } catch (error) {
    return {
      class: error.constructor.name,
      of_the_service: error instanceof sqs.SQSServiceException,
      code: error.Code,
      status: error.$metadata?.httpStatusCode,
      fault: error.$fault,
      message: error.message,
      attempts: error.$metadata?.attempts,
    };
  }
  return { class: null };
}

const scenarios = {
  async round_trip({ client, QueueUrl }) {
    const sent = await client.sendMessage({
      QueueUrl,
      MessageBody: BODY,
      MessageAttributes: ATTRIBUTES,
    });
    const { Messages } = await client.receiveMessage({
      QueueUrl,
      WaitTimeSeconds: 10,
      MessageAttributeNames: ["All"],
      MessageSystemAttributeNames: ["All"],
    });
    const [message] = Messages;
    await client.deleteMessage({ QueueUrl, ReceiptHandle: message.ReceiptHandle });
    const after = await client.getQueueAttributes({ QueueUrl, AttributeNames: ["All"] });
    return {
      received: Messages.length,
      same_id: message.MessageId === sent.MessageId,
      same_body: message.Body === BODY,
      sent_attributes: shown(ATTRIBUTES),
      received_attributes: shown(message.MessageAttributes),
      md5_of_attributes: [
        md5OfAttributes(ATTRIBUTES),
        sent.MD5OfMessageAttributes,
        message.MD5OfMessageAttributes,
      ],
      system_attributes: message.Attributes,
      left: [
        after.Attributes.ApproximateNumberOfMessages,
        after.Attributes.ApproximateNumberOfMessagesNotVisible,
      ],
    };
  },

  async spoiled_digests({ client, QueueUrl }) {
    const Entries = [{ Id: "0", MessageBody: BODY }];
    return {
      send: await failure(client.sendMessage({ QueueUrl, MessageBody: BODY })),
      batch: await failure(client.sendMessageBatch({ QueueUrl, Entries })),
      receive: await failure(client.receiveMessage({ QueueUrl, WaitTimeSeconds: 10 })),
    };
  },

  async batches({ client, QueueUrl }) {
    const sent = await client.sendMessageBatch({
      QueueUrl,
      Entries: TEN.map((at) => ({
        Id: `id-${at}`,
        MessageBody: `body ${at}`,
        MessageAttributes: at === 3 ? { wrong: { DataType: "Colour", StringValue: "x" } } : undefined,
      })),
    });
    const messages = [];
    while (messages.length < sent.Successful.length) {
      const { Messages } = await client.receiveMessage({
        QueueUrl,
        MaxNumberOfMessages: 10,
        WaitTimeSeconds: 10,
        VisibilityTimeout: 600,
      });
      messages.push(...Messages);
    }
    const handles = messages.map(({ ReceiptHandle }, at) => ({ Id: `${at}`, ReceiptHandle }));
    const longer = handles.map((entry) => ({ ...entry, VisibilityTimeout: 700 }));
    const changed = await client.changeMessageVisibilityBatch({ QueueUrl, Entries: longer });
    const wrong = { Id: "wrong", ReceiptHandle: "no handle" };
    const deleted = await client.deleteMessageBatch({
      QueueUrl,
      Entries: [...handles.slice(0, 9), wrong],
    });
    return {
      sent: sent.Successful.map(({ Id }) => Id),
      refused: sent.Failed.map(({ Id, SenderFault, Code }) => [Id, SenderFault, Code]),
      received: messages.map(({ Body }) => Body).sort(),
      changed: changed.Successful.length,
      deleted: deleted.Successful.length,
      not_deleted: deleted.Failed.map(({ Id, SenderFault, Code }) => [Id, SenderFault, Code]),
    };
  },

  async long_poll({ client, QueueUrl }) {
    const poll = client.receiveMessage({ QueueUrl, WaitTimeSeconds: 20 });
    let waiting = true;
    poll.then(() => (waiting = false));
    const counts = await client.getQueueAttributes({ QueueUrl, AttributeNames: ["All"] });
    const before = { waiting, messages: counts.Attributes.ApproximateNumberOfMessages };
    const sent = await client.sendMessage({ QueueUrl, MessageBody: "at last" });
    const { Messages } = await poll;
    return { before, same_id: Messages[0].MessageId === sent.MessageId, body: Messages[0].Body };
  },

  async visibility({ client, QueueUrl }) {
    await client.sendMessage({ QueueUrl, MessageBody: "again" });
    const receive = () =>
      client.receiveMessage({
        QueueUrl,
        VisibilityTimeout: 600,
        MessageSystemAttributeNames: ["ApproximateReceiveCount"],
      });
    const first = (await receive()).Messages[0];
    const hidden = (await receive()).Messages ?? [];
    const { ReceiptHandle } = first;
    await client.changeMessageVisibility({ QueueUrl, ReceiptHandle, VisibilityTimeout: 0 });
    const second = (await receive()).Messages[0];
    return {
      hidden: hidden.length,
      counts: [first, second].map(({ Attributes }) => Attributes.ApproximateReceiveCount),
      same_id: first.MessageId === second.MessageId,
      same_handle: first.ReceiptHandle === second.ReceiptHandle,
    };
  },

  async fifo({ client, QueueName }) {
    const { QueueUrl } = await client.createQueue({
      QueueName: `${QueueName}.fifo`,
      Attributes: { FifoQueue: "true", ContentBasedDeduplication: "true" },
    });
    const send = (MessageBody) =>
      client.sendMessage({ QueueUrl, MessageBody, MessageGroupId: MessageBody[0] });
    const sent = [await send("a1"), await send("b1"), await send("a1")];
    const batch = await client.sendMessageBatch({
      QueueUrl,
      Entries: ["a2", "a1", "a3"].map((MessageBody, at) => ({
        Id: `${at}`,
        MessageBody,
        MessageGroupId: "a",
      })),
    });
    const attempt = {
      QueueUrl,
      MaxNumberOfMessages: 10,
      MessageSystemAttributeNames: ["All"],
      VisibilityTimeout: 600,
    };
    const { Messages } = await client.receiveMessage(attempt);
    const held = await client.receiveMessage(attempt);
    const [{ ReceiptHandle }] = Messages;
    await client.deleteMessage({ QueueUrl, ReceiptHandle });
    return {
      sent: [...sent, ...batch.Successful].map(({ MessageId, SequenceNumber }) => [
        MessageId,
        SequenceNumber,
      ]),
      received: Messages.map(({ Body, Attributes }) => [
        Body,
        Attributes.MessageGroupId,
        Attributes.SequenceNumber,
      ]),
      held: held.Messages?.length ?? 0,
      no_group: await failure(client.sendMessage({ QueueUrl, MessageBody: "x" })),
    };
  },

  async dead_letters({ client, QueueUrl, QueueName }) {
    const dead = await client.createQueue({ QueueName: `${QueueName}-dead` });
    const { Attributes } = await client.getQueueAttributes({
      QueueUrl: dead.QueueUrl,
      AttributeNames: ["QueueArn"],
    });
    const policy = { deadLetterTargetArn: Attributes.QueueArn, maxReceiveCount: 1 };
    await client.setQueueAttributes({
      QueueUrl,
      Attributes: { RedrivePolicy: JSON.stringify(policy) },
    });
    const sent = await client.sendMessage({ QueueUrl, MessageBody: "poison" });
    const received = [];
    for (let count = 0; count < 2; count++) {
      const { Messages } = await client.receiveMessage({ QueueUrl, VisibilityTimeout: 0 });
      received.push(Messages?.length ?? 0);
    }
    const { Messages } = await client.receiveMessage({
      QueueUrl: dead.QueueUrl,
      WaitTimeSeconds: 10,
      MessageSystemAttributeNames: ["DeadLetterQueueSourceArn"],
    });
    const sources = await client.listDeadLetterSourceQueues({ QueueUrl: dead.QueueUrl });
    return {
      received,
      same_id: Messages[0].MessageId === sent.MessageId,
      source: Messages[0].Attributes.DeadLetterQueueSourceArn.split(":").at(-1),
      sources: sources.queueUrls.map((url) => url.slice(url.lastIndexOf("/") + 1)),
    };
  },

  async errors({ client, QueueUrl, QueueName }) {
    const missing = `${QueueUrl}-missing`;
    const entry = { Id: "a", MessageBody: "x" };
    const batch = (Entries) => client.sendMessageBatch({ QueueUrl, Entries });
    await client.createQueue({ QueueName: `${QueueName}-deleted` });
    await client.deleteQueue({ QueueUrl: `${QueueUrl}-deleted` });
    await client.purgeQueue({ QueueUrl });
    const calls = {
      QueueDoesNotExist: client.sendMessage({ QueueUrl: missing, MessageBody: "x" }),
      QueueNameExists: client.createQueue({ QueueName, Attributes: { DelaySeconds: "9" } }),
      QueueDeletedRecently: client.createQueue({ QueueName: `${QueueName}-deleted` }),
      PurgeQueueInProgress: client.purgeQueue({ QueueUrl }),
      EmptyBatchRequest: batch([]),
      TooManyEntriesInBatchRequest: batch(TEN.concat(10).map((at) => ({ ...entry, Id: `${at}` }))),
      BatchEntryIdsNotDistinct: batch([entry, entry]),
      InvalidBatchEntryId: batch([{ ...entry, Id: "no id!" }]),
      BatchRequestTooLong: batch(
        ["a", "b"].map((Id) => ({ Id, MessageBody: "x".repeat(600 * 1024) })),
      ),
      InvalidMessageContents: client.sendMessage({ QueueUrl, MessageBody: "\u0001" }),
      ReceiptHandleIsInvalid: client.deleteMessage({ QueueUrl, ReceiptHandle: "no handle" }),
      InvalidAttributeName: client.setQueueAttributes({ QueueUrl, Attributes: { Colour: "red" } }),
      InvalidAttributeValue: client.setQueueAttributes({
        QueueUrl,
        Attributes: { DelaySeconds: "901" },
      }),
    };
    const failures = await Promise.all(Object.values(calls).map(failure));
    return Object.fromEntries(Object.keys(calls).map((name, at) => [name, failures[at]]));
  },

  async retry({ client, QueueUrl }) {
    const sent = await client.sendMessage({ QueueUrl, MessageBody: "once" });
    const messages = [];
    for (let more = [null]; more.length > 0; ) {
      more = (await client.receiveMessage({ QueueUrl, MaxNumberOfMessages: 10 })).Messages ?? [];
      messages.push(...more);
    }
    return {
      attempts: sent.$metadata.attempts,
      sent: sent.MessageId,
      received: messages.map(({ MessageId }) => MessageId),
    };
  },

  async queues({ client, QueueUrl, QueueName }) {
    for (const at of TEN) {
      await client.createQueue({ QueueName: `${QueueName}-${at}` });
    }
    const pages = [];
    const asked = { QueueNamePrefix: `${QueueName}-` };
    for await (const page of sqs.paginateListQueues({ client, pageSize: 4 }, asked)) {
      pages.push(page.QueueUrls.map((url) => url.slice(url.lastIndexOf("-") + 1)));
    }
    await client.setQueueAttributes({ QueueUrl, Attributes: { VisibilityTimeout: "77" } });
    const shown = await client.getQueueAttributes({ QueueUrl, AttributeNames: ["All"] });
    await client.tagQueue({ QueueUrl, Tags: { team: "orders", stage: "test" } });
    await client.untagQueue({ QueueUrl, TagKeys: ["stage"] });
    const { Tags } = await client.listQueueTags({ QueueUrl });
    return { pages, visibility: shown.Attributes.VisibilityTimeout, tags: Tags };
  },
};

async function main([name, endpoint, QueueName]) {
  const client = new sqs.SQS({ endpoint });
  // The queue is made past the proxy, where one spoils what the scenario is answered.
  const direct = new sqs.SQS({ endpoint: process.env.DIRECT_ENDPOINT });
  const { QueueUrl } = await direct.createQueue({ QueueName });
  process.stdout.write(JSON.stringify(await scenarios[name]({ client, QueueUrl, QueueName })));
}

main(process.argv.slice(2));
