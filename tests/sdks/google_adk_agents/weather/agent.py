"""An agent as `adk create` lays it out, with a scripted model; `adk api_server` and `adk web` find it by its folder."""

from collections.abc import AsyncGenerator

from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.genai.types import Content, Part


class Scripted(BaseLlm):
    """Says the same, whatever is asked."""

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT001, FBT002  # as BaseLlm has it
    ) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=Content(role="model", parts=[Part(text="It rains.")]))


root_agent = Agent(name="weather", model=Scripted(model="speaks"))
