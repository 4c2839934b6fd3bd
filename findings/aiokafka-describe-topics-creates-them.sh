#!/bin/sh
# aiokafka 0.14: its admin client's `describe_topics` asks in a way that lets brokers create the topics that it names
# (`allow_auto_topic_creation`), where Java's admin client forbids it. With `auto.create.topics.enable`, which is on in
# Apache Kafka as it comes, to look whether a topic is there makes it, with a partition and the broker's settings.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet aiokafka==0.14.0
cat >program.py <<'PROGRAM'
import asyncio
import struct

from aiokafka.admin import AIOKafkaAdminClient

METADATA, API_VERSIONS = 3, 18
asked = []  # (names, whether the broker may create them)


def text(data, at):
    (length,) = struct.unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + length].decode(), at + 2 + length


async def broker(reader, writer):
    """The least that a broker says: the two APIs, and itself as the cluster, with no topics."""
    host, port = writer.get_extra_info("sockname")
    try:
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            request = await reader.readexactly(size)
            key, version, number = struct.unpack_from(">hhi", request)
            if key == API_VERSIONS:
                answer = struct.pack(">hi", 0, 2) + struct.pack(">hhhhhh", METADATA, 0, 5, API_VERSIONS, 0, 0)
            else:
                assert (key, version) in ((METADATA, 1), (METADATA, 5)), (key, version)
                at = text(request, 8)[1]
                (count,) = struct.unpack_from(">i", request, at)
                at, names = at + 4, []
                for _ in range(max(count, 0)):
                    name, at = text(request, at)
                    names.append(name)
                if names:
                    asked.append((names, bool(request[at])))
                name = host.encode()
                answer = struct.pack(">iiih", 0, 1, 1, len(name)) + name + struct.pack(">ih", port, -1)
                answer += struct.pack(">h", 1) + b"c" + struct.pack(">ii", 1, 0)
            writer.write(struct.pack(">ii", len(answer) + 4, number) + answer)
    except asyncio.IncompleteReadError:
        writer.close()


async def main():
    server = await asyncio.start_server(broker, "127.0.0.1", 0)
    client = AIOKafkaAdminClient(bootstrap_servers="127.0.0.1:%d" % server.sockets[0].getsockname()[1])
    await client.start()
    await client.describe_topics(["is-it-there"])
    await client.close()
    server.close()


asyncio.run(main())
print("aiokafka 0.14.0: describe_topics sent (topics, may be created):", asked)
assert asked == [(["is-it-there"], True)], asked
PROGRAM
venv/bin/python program.py
