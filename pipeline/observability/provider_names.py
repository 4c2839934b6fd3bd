"""Providers of models under the names of OpenTelemetry's closed set, for `gen_ai.provider.name`.

Values: https://github.com/open-telemetry/semantic-conventions-genai, docs/registry/attributes/gen-ai.md
"""

import re
from typing import Final

# The convention's name -> what SDKs, frameworks and gateways write, in lower case, with hyphens.
SPELLINGS: Final = {
    "anthropic": "anthropic claude",
    "aws.bedrock": "aws-bedrock bedrock amazon-bedrock bedrock-converse bedrock-mantle",
    "azure.ai.inference": "azure-ai-inference az-ai-inference azure-ai azure-ai-foundry",
    "azure.ai.openai": "azure-ai-openai az-ai-openai azure azure-openai azure-cognitive-services",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "gcp.gemini": "gcp-gemini gemini google-gla google-genai google-generative-ai google-ai google-gemini",
    "gcp.gen_ai": "gcp-gen-ai google",
    "gcp.vertex_ai": "gcp-vertex-ai vertex-ai vertex google-vertex google-vertexai google-vertex-ai google-cloud "
    "google-vertex-anthropic vertexai vertex-ai-beta",
    "groq": "groq",
    "ibm.watsonx.ai": "ibm-watsonx-ai watsonx ibm ibm-watsonx watsonx-ai",
    "mistral_ai": "mistral-ai mistral mistralai",
    "openai": "openai",
    "perplexity": "perplexity perplexity-ai",
    "x_ai": "x-ai xai grok",
}
NAMES: Final = {spelling: name for name, spellings in SPELLINGS.items() for spelling in spellings.split()}
API: Final = re.compile(r"-(?:chat|responses|completions?|messages)$")  # AI SDK appends it: `google.vertex.chat`


def provider_name(written: str) -> str:
    """Return the conventions' name of a provider; others keep the name that was written."""
    spelled = re.sub(r"[\s._/-]+", "-", written[:100].casefold())
    return NAMES.get(spelled) or NAMES.get(API.sub("", spelled)) or written
