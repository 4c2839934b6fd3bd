"""The bounds on input: bytes, values, names, remembered entries.

Each constant is followed by its reason, a sentence that `docs/limits.md` shows. SETTINGS names the options that are
such bounds. Batch sizes, time limits and bounds on our work stay where they are used.
"""

from typing import Final

RECORD_BYTES: Final = 900_000
"""The largest record that a publisher writes: by default, brokers refuse records over 1 MB."""

BATCH_BYTES: Final = 4_194_304
"""The largest batch of records that brokers accept for the events topic; larger than a record may be, so that a record
that is too large becomes a dead letter and isn't lost."""

OUTPUT_BYTES: Final = 20_971_520
"""The largest batch on topics that the pipeline writes: a turn of many messages, or a dead letter that is a batch."""

UNPACKED_BYTES: Final = OUTPUT_BYTES
"""A batch of records that is unpacked as a whole: 40 KB can unpack to a gigabyte. A larger one is read in pieces."""

PIECE_BYTES: Final = 4_194_304
"""A piece of a batch that is read so, unpacked."""

PIECE_RECORDS: Final = 10_000
"""Records of such a piece: each becomes objects, however small it is."""

PIECED_BYTES: Final = 268_435_456
"""A batch that is read piece by piece, unpacked: what it costs is bounded. The rest of a larger one is a dead letter,
which `turnmill dlq redrive` brings back record by record."""

PIECED_RECORDS: Final = 1_000_000
"""Records of a batch that is read piece by piece; what is larger is a dead letter, as above."""

FETCHED_BYTES: Final = 33_554_432
"""All batches of a response of a broker, unpacked; the rest is fetched again when these are read."""

POLLED_BYTES: Final = 8_388_608
"""Records that a role of a worker takes at once, unpacked: up to five times as many wait there to be handled."""

BATCH_RECORDS: Final = 50_000
"""Records of a batch that is read as a whole, and of all of a response: each becomes objects, however small it is."""

LEVELS: Final = 1024
"""Levels of nesting in JSON from outside: code that walks it recurses once per level."""

OWN_LEVELS: Final = 1100
"""Levels of nesting in records that the pipeline makes of such JSON, which contain it some levels further down."""

TENANT_CHARACTERS: Final = 200
"""The longest name of a tenant, since it is a part of database keys and of object names."""

DECODED_BYTES: Final = 2_097_152
"""Records that a gateway decodes at a time: a megabyte of `[],[],…` takes 22 MB as objects."""

NAMED_CHARACTERS: Final = 1_000
"""The longest id or name of a run, thread, agent, model, provider: they are remembered for days, and repeated
in each list."""

EVENT_BYTES: Final = 16_777_216
"""One event of a stream or file: it is held in memory until it is complete."""

PUBLISHED_BYTES: Final = 8_388_608
"""The body of a request to `/v1/records`, which the gateway holds in memory as a whole."""

OTLP_BYTES: Final = 16_777_216
"""The body of a request to `/v1/traces` or `/v1/logs`, also when it is unpacked."""

COMMENT_CHARACTERS: Final = 10_000
"""The comment of a feedback record: each view of its thread contains it."""

STEER_CHARACTERS: Final = 10_000
"""A message to a run that is under way: it is sent to the topic, to all listening processes, and to the run."""

ANSWER_BYTES: Final = 65_536
"""The value of an answer as JSON: gateways hold answers in memory until they are taken up."""

FEEDBACK_CHARACTERS: Final = 1_000
"""A name, a label or an author of feedback: lists repeat them."""

PROXIED_BYTES: Final = 67_108_864
"""The body of a request that the proxy passes on: it is held in memory until the response."""

CAPTURED_ANSWER_BYTES: Final = 8_388_608
"""A captured response that is no stream, or an event of a stream: it is held in the agent's process."""

CAPTURED_REQUEST_BYTES: Final = 33_554_432
"""A captured request, unpacked: the call of a larger one is published without its request."""

CAPTURED_STREAM_BYTES: Final = 268_435_456
"""All bytes of a captured response, unpacked: a longer one still reaches the program, and is published as cut off."""

CAPTURED_EVENTS: Final = 10_000
"""Events that a captured response may have beyond one for each byte as it came: 4 KB can unpack to five million."""

ENCODINGS: Final = 2
"""Content encodings of a body: each costs a pass over all bytes."""

JSON_VALUES: Final = 200_000
"""Values in the JSON of a captured request or response, counted before parsing: each takes 20 times its bytes."""

PUBLISHED_LINE_BYTES: Final = 2_097_152
"""A line of a request to `/v1/records`, before parsing; its record is then bounded like any of the events topic."""

REFUSALS: Final = 1000
"""Refused records of a request to `/v1/records`: with more, the rest isn't read, and no record of it is published."""

REFUSALS_SHOWN: Final = 20
"""Refused events of an upload that a response describes."""

CAPTURE_QUEUE_BYTES: Final = 33_554_432
"""Captured data in a process that is not published yet, so that an agent's memory never grows with a slow broker."""

SEARCH_CHARACTERS: Final = 500
"""The text of a search."""

SEARCH_TERMS: Final = 16
"""Words and phrases of a search: the database looks each of them up."""

SEARCH_WORDS: Final = 64
"""Words of all terms of a search: a phrase in Chinese has nearly as many words as characters."""

USAGE_ROWS: Final = 200_000
"""Rows of a usage report: groups times buckets."""

TREE_THREADS: Final = 500
"""Threads in a response that shows a thread with those that it has spawned."""

LISTED_BYTES: Final = 33_554_432
"""Memory for the open runs that a gateway or worker lists, some 20,000; beyond it, runs of the tenant with the most
are left out."""

LISTED_MARKS: Final = 500_000
"""Closed runs that the list of runs remembers, so that a late record doesn't reopen them."""

OVER_BYTES: Final = 8_388_608
"""Memory for ended runs in that list, unless a reader of live streams asks for more."""

NAME_CHARACTERS: Final = 200
"""Characters of an agent's, model's or thread's name that lists and live figures keep."""

WEBHOOKS: Final = 100
"""Webhooks of a tenant: each turn is checked against all of them."""

VIEWS: Final = 500
"""Saved views of a tenant: a page of the dashboard lists all of them."""

LINKS: Final = 1000
"""Links to threads of a tenant: each gateway holds all of them in memory."""

DATASETS: Final = 100
"""Data sets of a tenant: a page of the dashboard lists all of them."""

DATASET_TURNS: Final = 10_000
"""Turns of a data set: a list of data sets counts all of them."""

TOKENS: Final = 1000
"""Tokens of a tenant made by the API: each gateway holds all of them in memory."""

BUDGETS: Final = 1000
"""Budgets of an installation: each of them is checked when a turn is stored."""

ALERTS: Final = 100
"""Alerts of an installation: for each of them the usage of its time is read twice a minute."""

PRICES: Final = 1000
"""Configured prices of an installation: each of them is compared with each new model."""
