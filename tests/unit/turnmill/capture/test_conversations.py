"""Which conversation a call belongs to: each rule, and where two calls look alike."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from turnmill.capture.conversations import MAX_ALIKE, Asked, CallPlace, Conversations
from turnmill.capture.normal import NormalMessage, merged
from turnmill.capture.reading import RequestNames
from turnmill.remembered import ENTRY_BYTES


def user(text: str) -> NormalMessage:
    return NormalMessage("user", text)


def model(text: str, *calls: str) -> NormalMessage:
    return NormalMessage("assistant", text, calls)


def asked(*said: NormalMessage, scope: str = "", attempt: object = None, **about: str) -> Asked:
    return Asked(scope, merged(said), RequestNames(**about), attempt)


HELLO = (user("hello"), model("Hi!"))


def begun(known: Conversations, run: str = "r1", answer: NormalMessage = HELLO[1], **about: str) -> CallPlace:
    first = asked(HELLO[0], **about)
    place = known.place(first, run)
    known.answered(place, first, answer)
    return place


def test_a_history_goes_on() -> None:
    known = Conversations()
    assert begun(known) == CallPlace("r1", "r1")
    second = asked(*HELLO, user("Weather?"))
    place = known.place(second, "r2")
    assert place == CallPlace("r1", "r2", continues="r1")
    known.answered(place, second, model("Let me look.", "call_1"))
    third = (*second.messages, model("Let me look.", "call_1"), NormalMessage("tool", "rain", ("call_1",)))
    assert known.place(asked(*third), "r3") == CallPlace("r1", "r3", continues="r2")


def test_another_answer_is_another_conversation() -> None:
    known = Conversations()
    begun(known, "r1")
    begun(known, "r2", model("Good morning!"))
    begun(known, "r3", model("", "call_1"))
    begun(known, "r4", model("", "call_2"))
    weather = user("Weather?")
    result = NormalMessage("tool", "rain", ("call_2",))
    assert known.place(asked(HELLO[0], model("Good morning!"), weather), "r5").thread == "r2"
    assert known.place(asked(HELLO[0], model("", "call_2"), result), "r6").thread == "r4"
    assert known.place(asked(HELLO[0], model("Hallo!"), weather), "r7") == CallPlace("r7", "r7")


def test_the_same_words_begin_two_conversations() -> None:
    known = Conversations()
    assert begun(known, "r1").thread == "r1"
    assert begun(known, "r2").thread == "r2"
    one, two, three = (known.place(asked(*HELLO, user(text)), text) for text in ("a", "b", "c"))
    assert (one.thread, one.continues, one.replaces) == ("r1", "r1", None)
    assert (two.thread, two.continues, two.replaces) == ("r2", "r2", None)
    assert three.replaces == "b"  # none is left that nobody followed


def test_a_changed_message_is_a_branch() -> None:
    known = Conversations()
    begun(known)
    first = asked(*HELLO, user("Weather in Paris?"))
    known.answered(known.place(first, "r2"), first, model("Rain."))
    changed = asked(*HELLO, user("Weather in Rome?"))
    place = known.place(changed, "r3")
    assert place == CallPlace("r1", "r3", continues="r1", replaces="r2")
    known.answered(place, changed, model("Sun."))
    on_the_branch = known.place(asked(*changed.messages, model("Sun."), user("Thanks")), "r4")
    assert on_the_branch == CallPlace("r1", "r4", continues="r3")
    again = known.place(asked(*first.messages), "r5")  # the same question once more
    assert again == CallPlace("r1", "r5", continues="r1", replaces="r3")


def test_a_message_that_goes_on() -> None:
    known = Conversations()
    begun(known, answer=model("Once upon "))
    second = asked(user("hello"), model("Once upon "))  # Anthropic's pause_turn: nobody says anything between
    place = known.place(second, "r2")
    assert place == CallPlace("r1", "r2", continues="r1")
    known.answered(place, second, model("a time"))
    whole = known.place(asked(user("hello"), model("Once upon "), model("a time"), user("On!")), "r3")
    assert whole.thread == "r3", "white space at the end of a message that goes on is not told apart"


def test_retries_are_one_run() -> None:
    known = Conversations()
    first = asked(user("hello"), attempt="same")
    place = known.place(first, "r1")
    known.failed(place, first)
    assert known.place(asked(user("hello"), attempt="other"), "r2").run == "r2"
    assert known.place(asked(user("hello"), attempt="same", scope="another tenant"), "r3").run == "r3"
    again = known.place(first, "r4")
    assert again == CallPlace("r1", "r1", again=True)
    assert known.place(first, "r5") == CallPlace("r5", "r5"), "one failure, one retry"
    known.failed(place, first)
    known.given_up(first.scope, place, first.attempt)
    assert known.place(first, "r6").run == "r6"


def test_what_a_request_says() -> None:
    known = Conversations()
    assert begun(known, "r1", thread="chat-1") == CallPlace("chat-1", "r1")
    second = asked(*HELLO, user("Weather?"), thread="chat-1")
    assert known.place(second, "r2") == CallPlace("chat-1", "r2", continues="r1")
    assert known.place(asked(*HELLO, user("Weather?"), thread="chat-2"), "r3") == CallPlace("chat-2", "r3")
    assert known.place(asked(*HELLO, user("x"), scope="another tenant"), "r4").thread == "r4"


def test_the_response_that_goes_on() -> None:
    known = Conversations()
    first = asked(user("hello"))
    known.answered(known.place(first, "r1"), first, model("Hi!"), "resp_1")
    assert known.place(asked(user("Weather?"), response="resp_1"), "r2") == CallPlace("r1", "r2", continues="r1")
    assert known.place(asked(user("Rome?"), response="resp_1"), "r3") == CallPlace("r1", "r3", "r1", "r2")
    assert known.place(asked(user("Rome?"), response="resp_2"), "r4") == CallPlace("r4", "r4")


def test_a_run_that_is_named_twice() -> None:
    known = Conversations()
    places = [known.place(asked(user(text), thread="t", run="job"), "unused") for text in "abc"]
    assert [(place.run, place.continues) for place in places] == [("job", None), ("job.2", "job"), ("job.3", "job.2")]


def test_facts_of_another_process() -> None:
    here, there = Conversations(), Conversations()
    first = asked(user("hello"))
    fact = here.answered(here.place(first, "r1"), first, model("Hi!"), "resp_1")
    for _ in range(2):
        there.learn(fact)
    assert there.place(asked(*HELLO, user("Weather?")), "r2") == CallPlace("r1", "r2", continues="r1")
    assert there.place(asked(user("x"), response="resp_1"), "r3").thread == "r1"


texts = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(texts, texts, st.booleans()), max_size=60))
def test_memory_is_bounded_and_every_call_has_a_place(steps: Sequence[tuple[str, str, bool]]) -> None:
    known = Conversations()
    for memory in (known._known, known._named, known._followers, known._left_out, known._failed._of):
        memory.size = 5_000  # type: ignore[attr-defined]  # each has it
    history: tuple[NormalMessage, ...] = ()
    for number, (question, answer, fails) in enumerate(steps):
        request = asked(*history, user(question), attempt=question, run=question if number % 7 == 6 else None)
        place = known.place(request, f"r{number}")
        assert place.thread
        assert place.continues != place.run
        if fails:
            known.failed(place, request)
            history = ()
        else:
            known.answered(place, request, model(answer))
            history = (*request.messages, model(answer))
        assert len(known) <= 5_000 // ENTRY_BYTES
        assert len(known._named) <= 5_000 // ENTRY_BYTES
        assert all(len(alike) <= MAX_ALIKE for alike in known._known)


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=8), st.integers(1, 4))
def test_a_conversation_stays_one_thread_however_many_run_beside_it(steps: list[tuple[str, str]], others: int) -> None:
    known = Conversations()
    histories: list[tuple[NormalMessage, ...]] = [
        (user(f"agent {number}"), model("Hi!")) for number in range(others + 1)
    ]
    threads = []
    for number, history in enumerate(histories):
        first = asked(history[0])
        threads.append(known.place(first, f"thread {number}").thread)
        known.answered(CallPlace(threads[-1], threads[-1]), first, history[1])
    before = list(threads)
    for step, (question, answer) in enumerate(steps):
        for number in range(others + 1):
            request = asked(*histories[number], user(question))
            place = known.place(request, f"{number}-{step}")
            assert place == CallPlace(threads[number], f"{number}-{step}", continues=before[number])
            known.answered(place, request, model(answer))
            histories[number], before[number] = (*request.messages, model(answer)), place.run


def test_a_tenant_of_many_conversations_makes_none_of_anothers_forgotten() -> None:
    known = Conversations()
    for memory in (known._known, known._followers):
        memory.size = 100_000  # type: ignore[attr-defined]  # each has it

    def call(scope: str, number: int) -> tuple[Asked, CallPlace]:
        request = Asked(scope, (user(f"{scope} {number}"),), RequestNames(), f"{scope} {number}")
        place = known.place(request, f"{scope}-{number}")
        known.answered(place, request, model("Hi!"))
        return request, place

    first, place = call("acme", 0)
    for number in range(1_000):
        call("evil", number)
    goes_on = Asked("acme", (*first.messages, model("Hi!"), user("And now?")), RequestNames(), "next")
    assert known.place(goes_on, "new").thread == place.thread
    assert 50 < len(known) < 100_000 // ENTRY_BYTES
