"""The bounds on what input may become: bytes, values, names, entries that are remembered.

Each constant is followed by the reason for it, one sentence that `docs/limits.md` shows. SETTINGS names the options
that bound the same kind of thing. Batch sizes, time limits and what only bounds our own work stay where they are used.
"""

from __future__ import annotations

from typing import Final

RECORD_BYTES: Final = 900_000
"""The largest record that a publisher writes: brokers refuse records over 1 MB unless they are told otherwise."""

BATCH_BYTES: Final = 4_194_304
"""The largest batch of records that brokers take for the events topic; larger than a record, so that one that is too
large becomes a dead letter and isn't lost."""

OUTPUT_BYTES: Final = 20_971_520
"""The largest batch on the topics that hold what the pipeline makes: a turn of many messages, a dead letter's batch."""

UNPACKED_BYTES: Final = OUTPUT_BYTES
"""One batch of records unpacked: Kafka's codecs make a gigabyte of 40 KB, and a client unpacks a batch as a whole."""

FETCHED_BYTES: Final = 67_108_864
"""All batches of one answer of a broker, unpacked; beyond it the rest is fetched again when these are read."""

BATCH_RECORDS: Final = 50_000
"""Records of one batch, and of all batches of one answer: each becomes objects, however little it holds."""

LEVELS: Final = 1024
"""Levels of nesting in JSON that others send: programs that follow it call themselves once a level."""

OWN_LEVELS: Final = 1100
"""The same in records that the pipeline makes of such JSON, which hold it some levels further down."""

TENANT_CHARACTERS: Final = 200
"""The longest name of a tenant, since it is a part of keys in databases and of names of objects."""

DECODED_BYTES: Final = 2_097_152
"""Records that a gateway holds decoded at a time: a megabyte of `[],[],…` takes 22 MB as objects."""

NAMED_CHARACTERS: Final = 1_000
"""The longest id or name of a run, thread, agent, model, provider: they are remembered for days, and repeated
in each list."""

EVENT_BYTES: Final = 16_777_216
"""One event in a stream or file that is read: until its end has come, it is held in memory."""

PUBLISHED_BYTES: Final = 8_388_608
"""The body of one request to `/v1/records`, which the gateway holds in memory as a whole."""

COMMENT_CHARACTERS: Final = 10_000
"""The comment of one feedback: each view of its thread has it."""

STEER_CHARACTERS: Final = 10_000
"""A message to a run that is under way: it goes to the topic, to all who listen, and into the run."""

ANSWER_BYTES: Final = 65_536
"""The value of one answer as JSON: gateways hold what is answered and not taken up."""

FEEDBACK_CHARACTERS: Final = 1_000
"""A name, a label or an author of feedback: lists repeat them."""

PROXIED_BYTES: Final = 67_108_864
"""The body of one request that the proxy passes on, which is held until the request is answered."""

CAPTURED_ANSWER_BYTES: Final = 8_388_608
"""A captured answer that is no stream, and one event of an answer that is one: they are held in the agent's process."""

CAPTURED_REQUEST_BYTES: Final = 33_554_432
"""A captured request, unpacked: beyond it the call is published without what was asked."""

CAPTURED_STREAM_BYTES: Final = 268_435_456
"""All bytes of one captured answer, unpacked: an answer that never ends passes on, and is published as broken off."""

ENCODINGS: Final = 2
"""Content encodings of one body: each of them costs a pass over all bytes."""

JSON_VALUES: Final = 200_000
"""Values in the JSON of one captured request or answer, counted before it is read: each costs 20 times its bytes."""

PUBLISHED_LINE_BYTES: Final = 2_097_152
"""A line of such a body, before it is read; the record that it becomes is bounded as one of the events topic."""

REFUSALS: Final = 1000
"""Refused records of one request to `/v1/records`, behind which the rest isn't read, and nothing of it is published."""

REFUSALS_SHOWN: Final = 20
"""Refused events of an upload that an answer describes."""

CAPTURE_QUEUE_BYTES: Final = 33_554_432
"""What capture holds in one process until it is published, so that an agent never grows with a slow broker."""

SEARCH_CHARACTERS: Final = 500
"""The text of one search."""

SEARCH_TERMS: Final = 16
"""Words and phrases of one search: the database looks each of them up."""

SEARCH_WORDS: Final = 64
"""Words of all terms of one search: a phrase in Chinese has nearly as many as characters."""

USAGE_ROWS: Final = 200_000
"""Rows of one usage report: groups times buckets."""

TREE_THREADS: Final = 500
"""Threads in one answer that shows a thread with those that it has spawned."""

LISTED_RUNS: Final = 20_000
"""Open runs that a gateway or worker lists; beyond it, runs of the tenant that has the most are left out."""

LISTED_MARKS: Final = 500_000
"""Closed runs that the list of runs remembers, so that a late record opens none of them again."""

OVER_BYTES: Final = 8_388_608
"""Memory for runs of that list that are over, unless a reader of live streams asks for more."""

NAME_CHARACTERS: Final = 200
"""Characters of an agent's, model's or thread's name that lists and figures hold."""

WEBHOOKS: Final = 100
"""Webhooks of one tenant: each turn is offered to all of them."""

VIEWS: Final = 500
"""Saved views of one tenant: a page of the dashboard lists all of them."""

TOKENS: Final = 1000
"""Tokens of one tenant that the API makes: each gateway holds all of them."""

BUDGETS: Final = 1000
"""Budgets of one installation: each of them is looked at when a turn is stored."""

PRICES: Final = 1000
"""Own prices of one installation: each of them is compared with each model that is new."""

SETTINGS: Final = (
    "assembly_bytes",
    "content_threshold",
    "fetch_records",
    "gateway_body_bytes",
    "gateway_caller_requests",
    "gateway_connections",
    "gateway_header_bytes",
    "gateway_live_bytes",
    "gateway_rate",
    "gateway_response_bytes",
    "max_record_bytes",
    "metric_series",
    "run_bytes",
    "spool_bytes",
    "window_bytes",
    "window_events",
)
