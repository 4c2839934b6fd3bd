"""Fields of recorded events that no dialect reads, and why: `dialects/unread.md` is made of it.

`tests/corpus/test_unread.py` finds these fields in the recordings, and compares. A `*` stands for any text; `[]` behind
a name for the elements of a list. What stands below a field that nobody reads is not listed.
"""

import re
from typing import Final, NamedTuple


class Unread(NamedTuple):
    """Fields that nobody reads. `events`, `fields`: patterns, apart by blanks; events by their types, "-" for none."""

    reason: str
    events: str
    fields: str

    def matching(self, name: str) -> list[tuple[str, str]]:
        """Return the patterns of this row that are those of a field, as (event, field). `name`: EVENT:FIELD."""
        event, _, field = name.partition(":")
        return [
            (one, other)
            for one in self.events.split()
            for other in self.fields.split()
            if _fits(one, event or "-") and _fits(other, field)
        ]


def _fits(pattern: str, name: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name, re.DOTALL) is not None


REQUEST: Final = "the history that a request repeats: read for the place of its messages in the thread, not kept again"
TRANSPORT: Final = "counts and ids of the transport"
TIME: Final = "times are those at which events were received"
CONSTANT: Final = "the same in every message"
WHOLE: Final = "whether an item is whole: the end of its response tells it"
REPEATED: Final = "repeats what other events say"
OPENING: Final = "empty or unfinished as it begins: the end has it whole"
LABEL: Final = "only ties events together; they are found by another one"
INVENTED: Final = "made up by a test"

UNREAD: Final[dict[str, tuple[Unread, ...]]] = {
    "a2a": (
        Unread(TIME, "-", "*timestamp"),
        Unread("names the thread where its publisher does not", "-", "*contextId"),
        Unread(LABEL, "-", "*taskId *messageId id result.id *task.id"),
        Unread("the part's keys tell its kind", "-", "*kind"),
        Unread("the agent, where it is not the user", "-", "*role"),
        Unread("the state tells whether it ends", "-", "*final"),
        Unread("what an artifact has so far counts, whether or not more comes", "-", "*lastChunk"),
        Unread("how its agent calls the artifact", "-", "*artifact.name"),
        Unread("the data's own keys tell a call and a result", "-", "*message.metadata"),
        Unread("the error's words tell it", "-", "error.code error.data error.details error.status"),
    ),
    "acp": (
        Unread(TRANSPORT, "* -", "jsonrpc id"),
        Unread("names the thread where its publisher does not", "* -", "params.sessionId result.sessionId"),
        Unread("the error's words tell it", "-", "error.code error.data.errorName error.data.service"),
        Unread("the same counts as in `usage`", "-", "result._meta.quota.*"),
        Unread(
            "what the agent can do, and how it is set up",
            "-",
            "result.agentCapabilities result.agentInfo.* result.authMethods result.configOptions result.models"
            " result.modes result.protocolVersion result._meta.steering",
        ),
        Unread("the client's side of the same", "initialize session/new", "params method"),
        Unread("the login, for display", "_auth/status_update", "params method"),
        Unread("the result of the prompt tells that it was cancelled", "session/cancel", "params method"),
        Unread(
            "the context so far: the result of the prompt has the tokens", "session/update", "*update.used *update.size"
        ),
        Unread("lists for display", "session/update", "params.update.availableCommands"),
        Unread(TIME, "session/update", "params.update.updatedAt"),
        Unread(
            "the program's notes on what the fields beside them tell",
            "session/update",
            "*_meta.claudeCode *_meta._claude/* *_meta.codex.error.* *_meta.terminal_exit *_meta.terminal_info"
            " *terminal_id *terminalId",
        ),
        Unread("`rawOutput` is the result, and has it in its own words", "session/update", "*content[].*"),
        Unread("repeats the output", "session/update", "params.update.rawOutput.metadata"),
    ),
    "ag-ui": (
        Unread(TIME, "*", "timestamp"),
        Unread(CONSTANT, "REASONING_MESSAGE_START TOOL_CALL_RESULT", "role"),
        Unread(CONSTANT, "MESSAGES_SNAPSHOT", "messages[].toolCalls[].type"),
        Unread("the thread is the publisher's, or the request's", "RUN_STARTED RUN_FINISHED", "threadId"),
        Unread("the same as at the start", "RUN_FINISHED", "runId"),
        Unread("the request is the publisher's, if it has one", "RUN_STARTED", "input"),
        Unread("the calls without results", "RUN_FINISHED", "outcome.pendingToolCallIds"),
        Unread(
            "the frame of a thought, whose message has an id of its own", "REASONING_START REASONING_END", "messageId"
        ),
        Unread("a heading that the client shows while it waits", "THINKING_START", "title"),
        Unread("the name of a graph's node, for display", "STEP_STARTED STEP_FINISHED", "stepName"),
        Unread("the same as at the message's start", "TEXT_MESSAGE_END", "subagentRunId"),
        Unread(INVENTED, "TEXT_MESSAGE_CONTENT TEXT_MESSAGE_END", "x_future"),
    ),
    "agents-sdk": (
        Unread(CONSTANT, "message.start", "data.role"),
        Unread("for display: events of calls have types of their own", "tool.call tool.delta", "data.state"),
        Unread("the call has it", "tool.result", "data.toolName"),
        Unread("the message that is open", "tool.result", "data.messageId"),
        Unread("a second result of a call: the first counts", "tool.result", "data.output.x"),
        Unread("names the thread where its publisher does not", "meta", "data.conversationId data.sessionId"),
        Unread("the same as at the start", "done", "data.runId"),
    ),
    "anthropic": (
        Unread(CONSTANT, "message_start", "message.role message.type"),
        Unread("the block that is open", "content_block_stop", "index"),
        Unread(
            REQUEST,
            "turnmill.request",
            "request.messages[].content[].id request.messages[].content[].input request.messages[].content[].name"
            " request.messages[].content[].signature request.messages[].content[].thinking"
            " request.messages[].content[].content[].*",
        ),
    ),
    "bedrock": (
        Unread(CONSTANT, "-", "messageStart.role"),
        Unread("the sum of the others", "-", "metadata.usage.totalTokens"),
        Unread("read if it is `error`", "-", "contentBlockStart.start.toolResult.status"),
    ),
    "claude-code": (
        Unread(TRANSPORT, "*", "session_id uuid"),
        Unread("an id that the lines of the message have, too", "stream_event/*", "api_message_id"),
        Unread(CONSTANT, "assistant user stream_event/message_start", "message.role event.message.role"),
        Unread(CONSTANT, "assistant stream_event/message_start", "message.type event.message.type"),
        Unread(
            "the tokens so far; those at the message's end count",
            "assistant stream_event/message_start",
            "message.usage.output_tokens event.message.usage.output_tokens message.usage.cache_creation"
            " message.usage.server_tool_use",
        ),
        Unread(
            "zero in all recordings",
            "stream_event/message_delta",
            "event.usage.output_tokens_details event.usage.server_tool_use",
        ),
        Unread(
            "the line of the finished block follows at once",
            "stream_event/content_block_delta/* stream_event/content_block_start",
            "event.delta.citation event.delta.signature event.delta.type event.content_block.data",
        ),
        Unread("the type of the error's words, which are kept with its status", "assistant", "api_error_type"),
        Unread("the model of such a line tells the same: `<synthetic>`", "assistant", "is_api_error_message"),
        Unread("the message that was refused: it names it itself", "assistant", "refused_message_id"),
        Unread("the retraction of the blocks follows", "stream_event/message_stop", "abandoned_blocks"),
        Unread("how the program shows its thoughts", "stream_event/*", "thinking_display"),
        Unread("measured here", "stream_event/message_start", "ttft_ms"),
        Unread(
            "traffic with tools of the program; calls and results are lines",
            "control_request control_response",
            "request.message request.server_name response.response response.subtype",
        ),
        Unread(
            "the state of the program, for display",
            "system/session_state_changed system/status system/background_tasks_changed",
            "sdk_host_only state status compact_result tasks",
        ),
        Unread(
            "progress of a task; its notice has the sums",
            "system/task_progress",
            "description last_tool_name run_id subagent_type task_id tool_use_id usage",
        ),
        Unread("an estimate: the tokens themselves come", "system/thinking_tokens", "estimated_tokens*"),
    ),
    "codex": (Unread(OPENING, "item.started", "item.status"),),
    "cohere": (
        Unread("what ends is found by its kind", "citation-end content-end tool-call-end", "index"),
        Unread("empty as it begins", "message-start", "delta"),
        Unread(CONSTANT, "tool-call-start", "delta.message.tool_calls.type"),
        Unread("the tokens beside them count", "message-end", "delta.usage.billed_units"),
        Unread(REQUEST, "turnmill.request", "request.messages[].tool_calls request.messages[].tool_plan"),
    ),
    "gemini": (
        Unread(CONSTANT, "-", "candidates[].content.role"),
        Unread("the next piece tells it", "-", "candidates[].content.parts[].functionCall.partialArgs[].willContinue"),
        Unread(
            REQUEST,
            "turnmill.request",
            "request.contents[].parts[].functionCall.args request.contents[].parts[].functionCall.id"
            " request.contents[].parts[].thought request.contents[].parts[].thoughtSignature",
        ),
    ),
    "gemini-cli": (
        Unread(TIME, "*", "timestamp"),
        Unread("the message tells it", "error", "severity"),
        Unread("sums of what the lines before have told", "result", "stats.tool_calls stats.duration_ms"),
        Unread(
            "the input without the cache, and of each model its cached part",
            "result",
            "stats.input stats.models.*.input stats.models.*.cached",
        ),
        Unread("the model of the session, which has used nothing", "result", "stats.models.gemini-*"),
        Unread("the error's words tell it", "result", "error.type"),
    ),
    "gemini-interactions": (
        Unread(TRANSPORT, "error interaction.* step.*", "event_id"),
        Unread(TIME, "interaction.*", "interaction.created interaction.updated"),
        Unread(CONSTANT, "interaction.*", "interaction.object interaction.role"),
        Unread("the same as at the start", "interaction.completed", "interaction.id interaction.model"),
        Unread(OPENING, "interaction.created", "interaction.status"),
        Unread("the sum of the others", "interaction.completed", "interaction.usage.total_tokens"),
        Unread(REPEATED, "interaction.completed", "interaction.usage.input_tokens_by_modality"),
        Unread("it is the one that streams", "interaction.status_update", "interaction_id"),
        Unread("always text", "step.delta", "delta.content.type"),
        Unread("the step that is open", "step.stop", "index"),
        Unread("the call has it", "turnmill.request", "request.input[].name"),
    ),
    "google-adk": (
        Unread("the author tells it", "-", "content.role"),
        Unread(
            "pieces of a call: the event behind them has it whole",
            "-",
            "content.parts[].functionCall.partialArgs content.parts[].functionCall.willContinue",
        ),
        Unread("the text of the same event has it as JSON", "-", "actions.setModelResponse"),
        Unread("an instruction to the agent's own loop", "-", "actions.skipSummarization"),
        Unread("the event's code and message have it", "-", "error_details.error_type"),
        Unread(TIME, "-", "error_details.timestamp"),
        Unread("of the live interface: the last event of an answer tells it", "-", "turnComplete"),
    ),
    "langgraph": (
        Unread(TRANSPORT, "*", "*event_id data.seq *timestamp"),
        Unread(CONSTANT, "*", "*tool_calls[].type *.data.type *.kwargs.type *summary[].type"),
        Unread("`success`, as without it; an error is read", "*", "*.status"),
        Unread("the end of the chunks is that of the call", "*", "*chunk_position"),
        Unread(
            "names of nodes, steps and versions: LangGraph's bookkeeping",
            "*",
            "*checkpoint_ns *langgraph_* *lc_* *ls_* *.thread_id *.run_id data[].assistant_id data[].graph_id"
            " data[].created_by data[].run_attempt *.metadata metadata name data.name tags data.tags data[].triggers"
            " *parent_ids data.params.data.graph_name data.params.data.trigger_call_id data.params.data.namespace"
            " *params.namespace",
        ),
        Unread(
            "the message's calls have it, whole",
            "*",
            "*content[].args *content[].arguments *content[].call_id *content[].extras *content[].id *content[].index"
            " *content[].name *content[].partial_json *summary[].index *invalid_tool_calls *chunk.tool_calls"
            " data[].tool_calls data[][].tool_calls data[][].data.tool_calls data[][].kwargs.tool_calls",
        ),
        Unread("the block that is open", "event/messages messages/*", "*content.index data.params.data.index"),
        Unread(
            "of the model's answer as OpenAI tells it: the message has its own",
            "*",
            "*response_metadata.created_at *response_metadata.id *response_metadata.model *response_metadata.object"
            " *response_metadata.output_version",
        ),
        Unread(
            "of chunks: the message in the state has it",
            "- messages messages/partial event/messages on_chat_model_* events/on_chat_model_* messages/messages/*",
            "*.finish_reason *.stop_reason *metadata.provider data.params.data.metadata *chunk.response_metadata"
            " data[][].data.response_metadata",
        ),
        Unread(
            "of results of tools: the message in the state has it",
            "- messages messages/complete messages/messages/*",
            "data[].name data[][].*.name *.tool_call_id data[][].artifact.rows data[].content data.params.data.content",
        ),
        Unread("the same, of results", "-", "data[].response_metadata"),
        Unread(
            "what a node or a tool was given: the messages before it have it",
            "*",
            "data.input* data.data.input* params.data.input data.params.data.input data[].input",
        ),
        Unread(
            "what a node or a tool wrote: the state has it",
            "*",
            "data.output data.data.output params.data.output.* data.params.data.output.* data[].result"
            " data.chunk.messages data.chunk[].update data.data.chunk data.chunk.tools.messages[].type",
        ),
        Unread("the call's name and id", "*", "*params.data.tool_name *params.data.tool_call_id"),
        Unread("where LangSmith takes feedback; which run this is", "feedback metadata", "data"),
        Unread("a message's description by itself", "messages/metadata", "data.*"),
        Unread(INVENTED, "messages", "data[].brand_new"),
    ),
    "mastra": (
        Unread(TRANSPORT, "*", "runId from payload.messageId"),
        Unread(
            "the sums of all steps, whose own are told", "finish", "payload.output payload.response payload.metadata"
        ),
        Unread("repeats the conversation", "finish step-finish", "payload.messages payload.output.*"),
        Unread("the reason tells it", "finish step-finish", "payload.stepResult.*"),
        Unread("counts, and what a processor said to the model", "finish step-finish", "payload.processorRetry*"),
        Unread("the model's id tells it", "step-finish", "payload.metadata.*"),
        Unread("the request, which the publisher has", "step-start", "payload"),
        Unread("the text has it", "object object-result", "object"),
        Unread("the call has it", "tool-*", "payload.args payload.toolName payload.resumeSchema payload.approval"),
        Unread("the end of the input, which the call has whole", "tool-call-input-streaming-end", "payload"),
        Unread("the message tells it", "error tool-error", "payload.error.*"),
        Unread("the same as the data", "file", "payload.base64"),
        Unread("the agent as it is set up", "start", "payload.id"),
        Unread(CONSTANT, "error text-end", "payload.type"),
        Unread("the result has what the agent said", "tool-output", "payload.output.*"),
        Unread("the reason tells it", "tripwire", "payload.processorId"),
    ),
    "mistral": (
        Unread(TIME, "*", "created_at"),
        Unread(LABEL, "function.call.delta message.output.delta", "id"),
        Unread("the call's own id tells it apart", "function.call.delta tool.execution.done", "output_index"),
        Unread("pieces of a kind are a single text, whatever their number", "message.output.delta", "content_index"),
        Unread(CONSTANT, "message.output.delta", "role content.thinking[].type"),
        Unread(CONSTANT, "turnmill.request", "request.inputs[].object"),
    ),
    "ollama": (
        Unread(TIME, "-", "created_at *_duration"),
        Unread("tokens of the old way to go on", "-", "context"),
        Unread("calls stand in their order", "-", "message.tool_calls[].function.index message.tool_calls[].id"),
        Unread(CONSTANT, "-", "message.role"),
        Unread(
            REQUEST,
            "turnmill.request",
            "request.messages[].thinking request.messages[].tool_calls[].function.arguments",
        ),
    ),
    "openai-agents": (
        Unread(TRANSPORT, "raw_response_event/*", "data.sequence_number"),
        Unread(
            LABEL,
            "raw_response_event/*",
            "data.item_id data.output_index data.content_index data.summary_index data.name",
        ),
        Unread(OPENING, "raw_response_event/response.output_item.added", "data.item.*"),
        Unread(
            "the finished item has it",
            "raw_response_event/*",
            "data.part data.annotation data.annotation_index",
        ),
        Unread(
            "settings of the request",
            "raw_response_event/*",
            "data.response.parallel_tool_calls data.response.temperature data.response.tool_choice data.response.top_p",
        ),
        Unread("the event's type tells it", "raw_response_event/*", "data.response.status data.response.object"),
        Unread(TIME, "raw_response_event/*", "data.response.created_at"),
        Unread("the response's end has it", "raw_response_event/response.in_progress", "data.response"),
        Unread("the finished items were told before", "raw_response_event/response.incomplete", "data.response.output"),
        Unread(
            CONSTANT,
            "raw_response_event/response.completed raw_response_event/response.output_item.done",
            "*.content[].type *.role *.summary[].type",
        ),
        Unread(WHOLE, "raw_response_event/*", "data.response.output[].status data.item.status"),
        Unread("the id of a message: its texts are found by their places", "*output_item.done", "data.item.id"),
        Unread("the tools of an MCP server: no part of the answer", "*output_item.done", "data.item.tools"),
        Unread("the agent as it is set up", "agent_updated_stream_event", "new_agent.*"),
        Unread(
            "the agent that speaks, as the newest event of its change names it",
            "run_item_stream_event/*",
            "item.agent*",
        ),
        Unread(
            "the model's own event of the item has it",
            "run_item_stream_event/*",
            "name item.type item.raw_item.* item.tool_name item.description",
        ),
        Unread(
            "the value in Python: the raw item has what the model gets",
            "run_item_stream_event/tool_output",
            "item.output",
        ),
        Unread("which kind of tool it is: its call tells it", "run_item_stream_event/*", "item.tool_origin"),
    ),
    "openai-agents-js": (
        Unread(
            "of Chat Completions, which the other events have in this SDK's form",
            "raw_model_stream_event/model raw_model_stream_event/response_* raw_model_stream_event/output_text_delta",
            "data.event.choices data.event.created data.event.id data.event.model data.event.object data.event.usage"
            " data.providerData*",
        ),
        Unread(
            "the model's own event has it",
            "raw_model_stream_event/response_done",
            "data.response.output[].* data.response.providerData data.response.usage.requestUsageEntries",
        ),
        Unread(LABEL, "raw_model_stream_event/*", "data.itemId data.event.output_index data.event.summary_index"),
        Unread(TRANSPORT, "raw_model_stream_event/model", "source data.event.sequence_number"),
        Unread("the finished item has it", "raw_model_stream_event/model", "data.event.part"),
        Unread(
            CONSTANT,
            "raw_model_stream_event/model",
            "*.content[].type *.role *.summary[].type data.event.response.object",
        ),
        Unread(TIME, "raw_model_stream_event/model", "data.event.response.created_at"),
        Unread("settings of the request", "raw_model_stream_event/model", "data.event.response.parallel_tool_calls"),
        Unread(
            "the model's events have it, where they are in the stream",
            "run_item_stream_event",
            "item.rawItem.content[].* item.rawItem.output.type item.rawItem.providerData.action item.rawItem.rawContent"
            " item.rawItem.role item.toolName item.functionToolStateKey",
        ),
        Unread("`rawItem` has what the model is told", "run_item_stream_event", "item.output item.executionStatus"),
        Unread("`item` tells what it is", "run_item_stream_event", "name"),
        Unread(WHOLE, "raw_model_stream_event/model", "data.event.response.output[].status data.event.item.status"),
        Unread(WHOLE, "run_item_stream_event", "item.rawItem.status"),
        Unread("the id of a message: its texts are found by their places", "run_item_stream_event", "item.rawItem.id"),
        Unread("the agent that spoke last", "run_item_stream_event", "item.sourceAgent"),
    ),
    "openai-chat": (
        Unread(CONSTANT, "chat.completion.chunk", "choices[].delta.role *.type object"),
        Unread(TIME, "chat.completion.chunk -", "created"),
        Unread("random filling against listeners", "chat.completion.chunk", "obfuscation"),
        Unread("the order is that of the list", "chat.completion.chunk", "choices[].delta.images[].index"),
        Unread("the newest in an answer counts", "-", "choices[].content_filter_results"),
        Unread(REQUEST, "turnmill.request", "request.messages[].tool_calls"),
    ),
    "openai-realtime": (
        Unread(TRANSPORT, "*", "event_id"),
        Unread(LABEL, "response.*", "item_id output_index response_id content_index call_id name"),
        Unread(CONSTANT, "response.done", "response.output[].content[].type"),
        Unread("the session's update has them", "session.created", "session.instructions"),
        Unread("an item of the model: its response has it, too", "conversation.item.*", "item.*"),
        Unread("how much of the audio was played", "conversation.item.truncated", "audio_end_ms content_index item_id"),
        Unread("what the account may still ask", "rate_limits.updated", "rate_limits"),
        Unread("the item's end has it whole", "response.content_part.*", "part"),
        Unread("audio: its transcript is read", "response.output_audio.delta", "delta"),
        Unread(
            "settings of the audio and of the session",
            "response.* session.*",
            "response.audio response.max_output_tokens response.output_modalities session.audio session.expires_at"
            " session.id session.max_output_tokens session.object session.output_modalities session.tool_choice"
            " session.truncation session.type",
        ),
        Unread(CONSTANT, "response.*", "response.object response.output[].role item.role"),
        Unread(OPENING, "response.created", "response.conversation_id response.status"),
        Unread(LABEL, "response.*", "item.id response.output[].id"),
        Unread("that of the response counts", "response.*", "item.status response.output[].status"),
        Unread("the update repeats it", "session.created", "session.model"),
    ),
    "openai-responses": (
        Unread(TRANSPORT, "*", "sequence_number"),
        Unread("random filling against listeners", "*.delta", "obfuscation"),
        Unread(
            LABEL, "response.*", "item_id output_index content_index summary_index command_index annotation_index name"
        ),
        Unread(TIME, "response.*", "response.created_at"),
        Unread(CONSTANT, "response.*", "*.content[].type *.role *.summary[].type response.object"),
        Unread(
            "settings of the request; those of an answer that ended well are kept",
            "response.failed response.in_progress response.created response.queued",
            "response.background response.parallel_tool_calls response.reasoning response.status response.store"
            " response.temperature response.text response.tool_choice response.top_p response.truncation",
        ),
        Unread("`response.in_progress` has it, too", "response.created response.queued", "response.id response.model"),
        Unread(OPENING, "response.output_item.added", "item.encrypted_content item.status"),
        Unread(
            "the id of a message: its texts are found by their places",
            "response.output_item.* response.incomplete",
            "item.id response.output[].id",
        ),
        Unread("the finished item has it", "response.*", "part annotation"),
        Unread("a preview of the picture", "response.image_generation_call.partial_image", "partial_image_* size"),
        Unread(REQUEST, "turnmill.request", "request.input[].*"),
        Unread(INVENTED, "response.*", "x_server"),
    ),
    "opencode": (
        Unread(TIME, "*", "timestamp part.time.start part.state.time"),
        Unread("names the thread where its publisher does not", "*", "sessionID part.sessionID"),
        Unread("the sum of the others", "step_finish", "part.tokens.total"),
        Unread(
            "the error's words tell it",
            "error",
            "error.name error.data.isRetryable error.data.metadata error.data.responseBody error.data.responseHeaders"
            " error.data.statusCode",
        ),
        Unread("a state of the folder, in opencode's own copy", "step_start step_finish", "part.snapshot"),
    ),
    "otel": (
        Unread(
            "the span has the words, too",
            "log",
            "attributes.gen_ai.system body name resource scope scope_version",
        ),
        Unread(
            "repeats what the spans of calls say", "span", "*final_result *pydantic_ai.all_messages *aggregated_usage.*"
        ),
        Unread("the answer of the model has the call, with its arguments", "span", "*tool.call.arguments *tool.name"),
        Unread(
            "the same in other words",
            "span",
            "*agent_name *gen_ai.agent.id *gen_ai.system *model_name *details.cache_read_tokens *finish_reasons"
            " *logfire.msg",
        ),
        Unread(
            "how a call was made, and how well the provider's cache served",
            "span",
            "*agent.call.id *function.invocation.duration *choice.count *pydantic_ai.cache.* *tool.description"
            " *tool.type",
        ),
        Unread("the attributes tell it", "span", "name scope scope_version status"),
        Unread(
            TRANSPORT, "span", "dropped_attributes *server.address *server.port *service.instance.id *telemetry.sdk.*"
        ),
    ),
    "pi-agent": (
        Unread(TIME, "message_start/* message_update/*", "message.timestamp message.durationMs"),
        Unread(
            "the message's end has it",
            "message_start/*",
            "message.content message.details message.customType message.display message.html message.artifactId"
            " message.errorMessage message.isError message.toolCallId message.toolName message.thinkingLevel",
        ),
        Unread(
            "of a response that goes on: the newest update has it, or the message's end",
            "message_start/assistant message_update/*",
            "message.api message.stopReason message.model message.provider message.responseId message.usage*"
            " message.role usage*",
        ),
        Unread(
            "of a response that broke off, which no provider gets back",
            "message_update/*",
            "message.content[].textSignature message.content[].thinkingSignature message.content[].thoughtSignature",
        ),
        Unread(
            "the snapshot beside it has it, or the deltas before",
            "message_update/*",
            "assistantMessageEvent assistantMessageEvent.* message.content[].partialJson",
        ),
        Unread(
            "for display: the result's message has it",
            "tool_execution_*",
            "args durationMs isError partialResult result toolCallId toolName",
        ),
        Unread("the messages were told before", "turn_end/assistant", "message toolResults"),
    ),
    "pi-proxy": (Unread(INVENTED, "usage_update", "usage"),),
    "pydantic-ai": (
        Unread(
            "the run's bookkeeping in Python",
            "agent_run_result",
            "result._output_tool_name result._state.conversation_id result._state.last_model_request_parameters"
            " result._state.output_retries_used result._state.retries result._state.run_id result._state.run_step"
            " result.conversation_id result.output_tool_name result.run_id *.dynamic_ref *.scope *.__pydantic_ai__",
        ),
        Unread("what the program knows of its run", "agent_run_result", "result._state.metadata result.metadata"),
        Unread(
            "the last text, or what the output tool was called with; what a function makes of it is the program's",
            "agent_run_result",
            "result.output",
        ),
        Unread("which tool gives the output: its call follows", "final_result", "tool_call_id tool_name"),
        Unread("made of the content", "*", "*.content_file_digests"),
        Unread("its parts stand beside it", "enqueued_messages", "messages enqueue_id"),
        Unread("a part's event has it", "builtin_tool_call builtin_tool_result", "part result"),
        Unread("an invalid call is answered by a retry", "function_tool_call output_tool_call", "args_valid"),
        Unread("the part that is open", "part_end", "part.tool_call_id"),
    ),
    "strands": (
        Unread(REPEATED, "-", "data delta.* reasoning* message.content[].* message.metadata result.message messages"),
        Unread(REPEATED, "tool_use_stream", "current_tool_use delta.toolUse type"),
        Unread(REPEATED, "multiagent_node_start multiagent_node_stop multiagent_result", "node_* result"),
        Unread(
            REPEATED, "multiagent_node_stream", "event.message.content[].* event.message.metadata event.result.message"
        ),
        Unread("what an agent that is a tool says is in its messages", "tool_stream", "tool_stream_event.data.event.*"),
        Unread("of its own messages, which nothing refers to", "- multiagent_node_stream", "*message.tracking_id"),
        Unread(CONSTANT, "- multiagent_node_stream", "*event.messageStart.role *result.type"),
        Unread("the sum of the others", "- multiagent_node_stream", "*event.metadata.usage.totalTokens"),
        Unread(
            "what ends is the block that is open", "- multiagent_node_stream", "*contentBlockStop.contentBlockIndex"
        ),
    ),
    "vercel-ai": (
        Unread("of another protocol, which the SDK refuses", "-", "delta id"),
        Unread("of data that another event of its id replaces, or that is transient", "data-*", "data"),
        Unread("AI SDK drops it", "file", "filename"),
        Unread("replaced by that of the part's end", "text-start reasoning-start", "providerMetadata.*"),
        Unread("the call's start tells it", "tool-input-error tool-output-available", "dynamic"),
        Unread(INVENTED, "text-start text-delta", "futureField seq"),
    ),
}
