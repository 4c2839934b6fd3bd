#!/bin/sh
# @platformatic/kafka 1.35: its default partitioner takes murmur2 as an unsigned number, where Java's client clears the
# sign. So in a topic of 12 partitions half of the keys go elsewhere than those of Java's and kafkajs' producers; in one
# of 8 none do, as 8 divides what is left out. Its `compatibilityPartitioner` places keys as Java does.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init -y >/dev/null
npm install --silent --no-audit --no-fund @platformatic/kafka@1.35.0 kafkajs@2.2.4
cat >program.mjs <<'PROGRAM'
import assert from "node:assert";
import { createHash } from "node:crypto";
import { compatibilityPartitioner, defaultPartitioner } from "@platformatic/kafka";
import kafkajs from "kafkajs";

const placed = kafkajs.Partitioners.DefaultPartitioner();
const keys = Array.from({ length: 1000 }, (_, n) => Buffer.from(createHash("sha256").update(`${n}`).digest("hex")));

function elsewhere(partitioner, count) {
  const partitionMetadata = Array.from({ length: count }, (_, partitionId) => ({ partitionId, leader: 1 }));
  const other = (key) => placed({ topic: "t", partitionMetadata, message: { key } });
  return keys.filter((key) => partitioner({}, key) % count !== other(key)).length;
}

const of = (partitioner) => [8, 12].map((count) => elsewhere(partitioner, count));
const found = { default: of(defaultPartitioner), compatible: of(compatibilityPartitioner) };
console.log("@platformatic/kafka 1.35.0, kafkajs 2.2.4: of 1,000 keys elsewhere, with 8 and 12 partitions:", found);
assert.deepEqual(found, { default: [0, 504], compatible: [0, 0] });
PROGRAM
node program.mjs
