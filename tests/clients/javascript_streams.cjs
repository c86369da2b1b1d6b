// Scenarios of streams for the AWS SDK for JavaScript v3, which speaks HTTP/2 for each call.
//
//     node javascript_streams.cjs SCENARIO ENDPOINT STREAM-NAME
//
// prints what the scenario saw as one JSON object. The tests that run it judge.
"use strict";

const {
  Kinesis,
  KinesisServiceException,
  waitUntilStreamExists,
} = require("@aws-sdk/client-kinesis");

const BYTES = Uint8Array.from({ length: 256 }, (_, at) => at);

const hex = (bytes) => Buffer.from(bytes).toString("hex");

async function failure(call) {
  try {
    await call;
  } catch (error) {
    return {
      class: error.constructor.name,
      of_the_service: error instanceof KinesisServiceException,
      name: error.name,
      status: error.$metadata?.httpStatusCode,
      fault: error.$fault,
      message: error.message,
      attempts: error.$metadata?.attempts,
    };
  }
  return { class: null };
}

/** All texts of a shard and of those that it became, as a program reads them. */
async function texts(client, StreamName, ShardId) {
  const found = [];
  const first = { StreamName, ShardId, ShardIteratorType: "TRIM_HORIZON" };
  let { ShardIterator } = await client.getShardIterator(first);
  while (ShardIterator) {
    const page = await client.getRecords({ ShardIterator });
    found.push(...page.Records.map(({ Data }) => Buffer.from(Data).toString()));
    for (const child of page.ChildShards ?? []) {
      found.push(...(await texts(client, StreamName, child.ShardId)));
    }
    ShardIterator = page.Records.length > 0 ? page.NextShardIterator : undefined;
  }
  return found;
}

const scenarios = {
  async round_trip({ client, StreamName }) {
    const began = Date.now();
    const put = await client.putRecord({ StreamName, PartitionKey: "schl\u00fcssel", Data: BYTES });
    const at = {
      StreamName,
      ShardId: put.ShardId,
      ShardIteratorType: "AT_SEQUENCE_NUMBER",
      StartingSequenceNumber: put.SequenceNumber,
    };
    const { ShardIterator } = await client.getShardIterator(at);
    const { Records, MillisBehindLatest } = await client.getRecords({ ShardIterator });
    const [record] = Records;
    const since = { ...at, ShardIteratorType: "AT_TIMESTAMP", StartingSequenceNumber: undefined };
    const late = await client.getShardIterator({ ...since, Timestamp: new Date(began - 60_000) });
    const again = await client.getRecords({ ShardIterator: late.ShardIterator });
    return {
      protocol: client.config.requestHandler.metadata.handlerProtocol,
      records: Records.length,
      same_number: record.SequenceNumber === put.SequenceNumber,
      key: record.PartitionKey,
      data: hex(record.Data),
      arrived_near: Math.abs(record.ApproximateArrivalTimestamp - began) < 3_600_000,
      behind: MillisBehindLatest,
      since: again.Records.map(({ Data }) => hex(Data)),
    };
  },

  async batch({ client, StreamName }) {
    const Records = Array.from({ length: 500 }, (_, at) => ({
      PartitionKey: `${at % 7}`,
      Data: Buffer.from(`${at}`),
    }));
    const put = await client.putRecords({ StreamName, Records });
    const found = [];
    // The SDK's paginator names the stream again with each token, which Kinesis refuses.
    let asked = { StreamName, MaxResults: 1 };
    while (asked) {
      const { Shards, NextToken } = await client.listShards(asked);
      for (const shard of Shards) {
        found.push(...(await texts(client, StreamName, shard.ShardId)));
      }
      asked = NextToken && { NextToken };
    }
    return {
      failed: put.FailedRecordCount,
      answered: put.Records.length,
      found: found.map(Number).sort((one, other) => one - other),
    };
  },

  async split({ client, StreamName }) {
    const put = (text) =>
      client.putRecord({ StreamName, PartitionKey: "a", Data: Buffer.from(text) });
    const { ShardId } = await put("before");
    const half = (2n ** 126n).toString();
    await client.splitShard({ StreamName, ShardToSplit: ShardId, NewStartingHashKey: half });
    await waitUntilStreamExists({ client, maxWaitTime: 60 }, { StreamName });
    const after = await put("after");
    return { moved: after.ShardId !== ShardId, texts: await texts(client, StreamName, ShardId) };
  },

  async errors({ client, StreamName }) {
    const record = { StreamName, PartitionKey: "a", Data: Buffer.from("x") };
    const calls = {
      ResourceNotFoundException: client.putRecord({ ...record, StreamName: "missing" }),
      ResourceInUseException: client.createStream({ StreamName, ShardCount: 1 }),
      ValidationException: client.putRecord({ ...record, PartitionKey: "" }),
      InvalidArgumentException: client.getRecords({ ShardIterator: "wrong" }),
    };
    const failures = await Promise.all(Object.values(calls).map(failure));
    return Object.fromEntries(Object.keys(calls).map((name, at) => [name, failures[at]]));
  },

  async at_once({ client, StreamName }) {
    const puts = Array.from({ length: 100 }, (_, at) =>
      client.putRecord({ StreamName, PartitionKey: `${at}`, Data: Buffer.from(`${at}`) }),
    );
    const answers = await Promise.all(puts);
    const numbers = new Set(answers.map(({ ShardId, SequenceNumber }) => ShardId + SequenceNumber));
    return { stored: numbers.size };
  },
};

async function main([name, endpoint, StreamName]) {
  const client = new Kinesis({ endpoint });
  await client.createStream({ StreamName, ShardCount: 2 });
  process.stdout.write(JSON.stringify(await scenarios[name]({ client, StreamName })));
  client.destroy();
}

main(process.argv.slice(2));
