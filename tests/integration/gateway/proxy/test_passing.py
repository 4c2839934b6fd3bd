"""Two gateways as proxies before a scripted upstream, with a real Kafka and a worker: one conversation, two tenants."""

from typing import Any

from pydantic import SecretStr

from pipeline.gateway.proxy.passing import Proxy
from pipeline.settings import Settings
from tests.support.gateways import Running, Tokens, client, running
from tests.support.upstream import Answering, Asked, chat_answer, chat_chunks, playing
from tests.support.waiting import until
from tests.support.workers import WorkerProcess

CHAT = "/proxy/openai/v1/chat/completions"
HELLO = {"role": "user", "content": "Hello"}


async def play(asked: Asked, answer: Answering) -> None:
    """The answer names the one who asks."""
    name = asked.headers["authorization"].removeprefix("Bearer sk-of-")
    if asked.json.get("stream"):
        await answer.stream(*chat_chunks(f"I am {name}'s", ", streamed."), done=True)
    else:
        await answer.whole(chat_answer(f"I am {name}'s."))


async def ask(gateway: Running, tokens: Tokens, tenant: str, *messages: Any, **more: Any) -> None:
    headers = {"Authorization": f"Bearer sk-of-{tenant}", "Turnmill-Token": getattr(tokens, tenant)}
    async with client(gateway.url) as http:
        answer = await http.post(CHAT, json={"model": "gpt-5", "messages": messages, **more}, headers=headers)
    assert answer.status_code == 200, answer.text


async def threads(gateway: Running, token: str) -> list[dict[str, Any]]:
    """All that a token reaches, whole."""
    async with client(gateway.url, token) as http:
        listed = (await http.get("/v1/threads")).json()["threads"]
        return [(await http.get(f"/v1/threads/{one['thread_id']}")).json() for one in listed]


def texts(document: dict[str, Any]) -> list[str]:
    """What the model said, in its turns."""
    messages = [message for turn in document["turns"] for message in turn.get("messages", ())]
    return [part["content"] for message in messages for part in message.get("parts", ()) if part["part_kind"] == "text"]


async def test_one_conversation_over_two_gateways_and_the_same_words_of_two_tenants(gateway_settings: Settings) -> None:
    tokens = Tokens()
    async with playing(play) as upstream:
        changes = {"gateway_proxy": f"openai={upstream.url}", "gateway_tokens": SecretStr(tokens.setting)}
        settings = gateway_settings.model_copy(update=changes)
        # A home of its own for the second one's spool, and the store of the first.
        second = settings.model_copy(update={"store": settings.store_url, "home": settings.home / "second"})
        quick = gateway_settings.model_copy(update={"checkpoint_interval": 0.2})
        worker = WorkerProcess(quick).start()
        try:
            async with running(settings) as one, running(second) as two:
                for tenant in ("acme", "globex"):
                    await ask(one, tokens, tenant, HELLO)

                async def shared() -> bool:
                    return len(two.app.state.gateway.service(Proxy).conversations) == 2

                await until(shared)
                for tenant in ("acme", "globex"):
                    said = {"role": "assistant", "content": f"I am {tenant}'s."}
                    await ask(two, tokens, tenant, HELLO, said, {"role": "user", "content": "And?"}, stream=True)

                async def stored() -> bool:
                    found = [await threads(one, token) for token in (tokens.acme, tokens.globex)]
                    return all(len(documents) == 1 and len(texts(documents[0])) == 2 for documents in found)

                await until(stored)
                for tenant in ("acme", "globex"):
                    (document,) = await threads(two, getattr(tokens, tenant))
                    assert texts(document) == [f"I am {tenant}'s.", f"I am {tenant}'s, streamed."]
                    words = [turn["parts"][0]["content"] for turn in document["turns"] if turn["turn_type"] == "user"]
                    assert words == ["Hello", "And?"]
        finally:
            worker.stop()
