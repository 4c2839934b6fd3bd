"""Bedrock's Converse API: streams in binary frames, and their JSON as AWS's SDKs yield it."""

from pipeline.dialects.bedrock.events import DIALECT as DIALECT
