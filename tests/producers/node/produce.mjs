// node produce.mjs CLIENT BROKERS TOPIC FILE: writes the records of FILE, one {"key", "value"} a line, each in a send of
// its own where CLIENT ends with "-singly", else all in a single send.
import { readFileSync } from "node:fs";

const [client, brokers, topic, file] = process.argv.slice(2);
const records = readFileSync(file, "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));

const CLIENTS = {
  async kafkajs(options = {}) {
    const { Kafka, Partitioners, logLevel } = (await import("kafkajs")).default;
    const kafka = new Kafka({ brokers: brokers.split(","), logLevel: logLevel.ERROR });
    const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner });
    await producer.connect();
    return { send: (messages) => producer.send({ topic, messages, ...options }), close: () => producer.disconnect() };
  },
  async "kafkajs-gzip"() {
    const { CompressionTypes } = (await import("kafkajs")).default;
    return CLIENTS.kafkajs({ compression: CompressionTypes.GZIP });
  },
  async platformatic(options = {}) {
    const { Producer, stringSerializers } = await import("@platformatic/kafka");
    const producer = new Producer({
      clientId: "producer", bootstrapBrokers: brokers.split(","), serializers: stringSerializers, ...options,
    });
    const named = (message) => ({ topic, key: message.key ?? undefined, value: message.value });
    return { send: (messages) => producer.send({ messages: messages.map(named) }), close: () => producer.close() };
  },
  async "platformatic-compatible"() {
    const { compatibilityPartitioner } = await import("@platformatic/kafka");
    return CLIENTS.platformatic({ partitioner: compatibilityPartitioner });
  },
};

const producer = await CLIENTS[client.replace(/-singly$/, "")]();
for (const messages of client.endsWith("-singly") ? records.map((record) => [record]) : [records]) await producer.send(messages);
await producer.close();
