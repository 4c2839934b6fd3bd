"""Conversations for programs that run inside an environment with some SDK: what a scripted model says, call by call."""

import json
from dataclasses import dataclass

QUESTION = "What's the weather in Paris and Rome?"
NO_SUCH_PLACE = "There is no such place."


@dataclass(frozen=True)
class Call:
    """What a model asks of a tool; `id` is one for the whole conversation."""

    id: str
    city: str
    name: str = "weather"

    @property
    def arguments(self) -> dict[str, object]:
        return {"city": self.city, "days": 2}

    @property
    def text(self) -> str:
        """The arguments as models write them."""
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True)
class Answer:
    """What one call of the model answers.

    `short`: the limit of tokens has cut it short. `broken`: the connection breaks in the middle of its last part.
    `refused`: the status of an error instead of all that. `counted`: its usage has every count that the API knows.
    """

    thought: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()
    short: bool = False
    broken: bool = False
    refused: int = 0
    counted: bool = False

    @property
    def said(self) -> int:
        """How many tokens it takes; thoughts are a part of them."""
        return len(self.text) + sum(len(call.text) for call in self.calls) + self.thinking

    @property
    def thinking(self) -> int:
        return len(self.thought)


READ, CACHED = 100, 40  # tokens of each call's input, and how many of these a cache held
PARIS, ROME = Call("call_paris", "Paris"), Call("call_rome", "Rome")
ATLANTIS = Call("call_atlantis", "Atlantis – Ατλαντίς 🌊")
FORECAST = "It rains in Paris, as ever: 7 °C. 🌧️\n\nIn Rome the sun shines — “finalmente”."
CASES = {
    "words": (Answer(text=FORECAST),),
    "tools": (
        Answer(thought="Two cities, two calls.", text="Let me look. ", calls=(PARIS, ROME)),
        Answer(thought="Both have answered.", text=FORECAST),
    ),
    "one after the other": (Answer(calls=(PARIS,)), Answer(text="And Rome? ", calls=(ROME,)), Answer(text=FORECAST)),
    "a tool fails": (Answer(calls=(ATLANTIS, ROME)), Answer(text="I know of no such place.")),
    "cut short": (Answer(text="It rains in Par", short=True),),
    "broken off": (Answer(text="Let me look. ", calls=(PARIS,)), Answer(text=FORECAST, broken=True)),
    "broken off in a call": (Answer(text="Let me look. ", calls=(PARIS,), broken=True),),
    "refused": (Answer(calls=(PARIS,)), Answer(refused=400)),
    "every count": (Answer(text=FORECAST, counted=True),),
}
BAD_ENDS = frozenset({"broken off", "broken off in a call", "refused"})


def weather(city: str, days: int) -> str:
    """What the tool gives; raises ValueError where nobody knows the place."""
    if city == ATLANTIS.city:
        raise ValueError(NO_SUCH_PLACE)
    return f"It rains in {city} for {days} days; 7 °C."
