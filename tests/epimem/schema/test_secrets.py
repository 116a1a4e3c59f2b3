from __future__ import annotations

import json
import random
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from epimem.schema.atif import (
    AgentInfo,
    Observation,
    ObservationResult,
    Step,
    ToolCall,
    Trajectory,
)
from epimem.schema.contribution import read_contribution
from epimem.schema.lesson import Evidence, IndexText, LessonDraft
from epimem.schema.region import Region
from epimem.schema.run import Answer, Run, System, Task
from epimem.schema.secrets import redacted, scrubbed, scrubbed_text
from epimem.schema.text import LESSON_BYTES, TAG_BYTES, TITLE_BYTES
from tests.fake_secrets import HARMLESS, KINDS, fakes, harmless

TOKEN = "gh" + "p_" + "a1B2" * 9
MARKED = "[redacted: github-token]"
IMAGE = "0f" * 32
PLACES = ("guidance", "tag or title", "run text", "crop note", "step text")


def lesson(**fields):
    return LessonDraft(**{"guidance": "Count the triangles.", **fields})


def run(text="", *, arguments=None, extra=None, **fields):
    call = ToolCall(tool_call_id="c1", function_name="look", arguments=arguments or {})
    seen = Observation(results=(ObservationResult(source_call_id="c1", content=text),))
    step = Step(step_id=1, source="agent", message="I look.", tool_calls=(call,), observation=seen)
    chain = Trajectory(
        schema_version="ATIF-v1.8",
        agent=AgentInfo(name="solver", version="1"),
        steps=(step,),
        trajectory_id="t1",
        extra=extra,
    )
    return Run(
        run_id="r1",
        created_at="2026-01-01T00:00:00Z",
        task=Task(task_id="1", question="How many?", **fields),
        system=System(harness="test"),
        trajectory=chain,
        answer=Answer(text="Three.", by_actor={"solver": "Three."}),
    )


def placed(text, place):
    """Return a record with the text in one of five places."""
    size = len(text.encode())
    evidence = {"image_id": IMAGE, "region": Region.whole(9, 9)}
    match place:
        case "guidance":
            return lesson(guidance=f"First look. {text}")
        case "tag or title":
            if size <= TAG_BYTES:
                return lesson(tags=("map", text))
            # A key of several hundred bytes fits neither; the longest of our short fields takes it.
            return lesson(title=text) if size <= TITLE_BYTES else lesson(applies_when=text)
        case "run text":
            return run().model_copy(update={"answer": Answer(text=f"Done: {text}")})
        case "crop note":
            return lesson(evidence=(Evidence(note=text, **evidence),))
        case _:
            return run(f"out>\n{text}", arguments={"command": f"show\n{text}"})


def left(record, secrets):
    """Return which secrets are still to be read in any text of a record."""
    texts = []

    def walk(value):
        if isinstance(value, dict):
            for key, item in value.items():
                walk(key)
                walk(item)
        elif isinstance(value, list):
            for item in value:
                walk(item)
        elif isinstance(value, str):
            texts.append(value)

    walk(record.plain())
    return [secret for secret in secrets if any(secret in text for text in texts)]


def test_seventy_two_kinds_in_five_places_are_removed():
    assert len(KINDS) >= 72
    missed, total, marked = [], 0, 0
    for kind, number, planted in fakes(seed=14, each=3):
        for place in PLACES:
            record = placed(planted.text, place)
            assert left(record, planted.secrets), f"{kind} was not planted in {place}"
            clean, counts = scrubbed(record)
            total += 1
            marked += bool(counts) and b"[redacted: " in clean.canonical()
            if left(clean, planted.secrets):
                missed.append((kind, number, place))
            assert read_contribution(clean) is not None
    assert total >= 3 * 360
    removed = 1 - len(missed) / total
    assert removed >= 0.97, (removed, missed)
    assert marked / total >= 0.97


def test_of_harmless_strings_at_most_one_in_a_hundred_is_touched():
    alarms = [
        (kind, text, redacted(text)[0])
        for kind, text in harmless(seed=21, count=5000)
        if redacted(text)[0] != text
    ]
    assert len(HARMLESS) >= 30
    assert len(alarms) <= 50, alarms[:20]


def test_what_must_stay_stays():
    for kind, text in harmless(seed=22, count=4000):
        if kind[0].isdigit():
            assert redacted(text) == (text, {}), kind


@pytest.mark.parametrize("wrapped", ["{}", "see {}.", "({})", '"{}"', "a={}&b=2", "x\n{}\ny"])
def test_a_token_is_found_whatever_stands_around_it(wrapped):
    text, counts = redacted(wrapped.format(TOKEN))
    assert text == wrapped.format(MARKED)
    assert counts == {"github-token": 1}


@pytest.mark.parametrize("invisible", "\u200b\u200c\u200d\u2060\ufeff\u00ad\u202e\ufe0f")
def test_zero_width_characters_hide_nothing(invisible):
    text = f"\u00e9{invisible} {invisible.join(TOKEN)} end{invisible}"
    assert redacted(text)[0] == f"\u00e9{invisible} {MARKED} end{invisible}"


@pytest.mark.parametrize("place", range(5, 39))
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\n    ", "\n> "])
def test_a_line_break_hides_nothing(place, ending):
    assert redacted(f"is {TOKEN[:place]}{ending}{TOKEN[place:]} now")[0] == f"is {MARKED} now"


def test_a_token_without_fixed_length_is_followed_over_the_line_break():
    token = "sk" + "-proj-" + "a1B2" * 12
    text = f"{token[:40]}\n{token[40:]}\nThe next line stays."
    assert redacted(text)[0] == "[redacted: model-key]\nThe next line stays."


def test_a_value_is_secret_by_its_name_only_where_it_looks_drawn():
    password = "Tram" + "7731!"
    for line in (
        'password = "{}"',
        "DB_PASSWORD={}",
        '{{"password": "{}"}}',
        '{{\\"password\\": \\"{}\\"}}',
        "passwd: {}",
        "login --password {}",
        "The password for the archive is {}.",
    ):
        clean, counts = redacted(line.format(password))
        assert password not in clean, line
        assert counts.total() == 1, line
    for line in (
        "password = getpass()",
        "token = request.headers['token']",
        "max_tokens=4096",
        "token: Optional[str] = None",
        "The password is wrong.",
        "secret_name: step_12_of_the_plan",
        "private_key: ed25519.Ed25519PrivateKey",
        "the token is [redacted: model-key]",
    ):
        assert redacted(line) == (line, {}), line


def test_redacting_twice_changes_nothing():
    texts = [planted.text for _, _, planted in fakes(seed=3, each=4)]
    texts += [" ".join(texts[place : place + 9]) for place in range(0, len(texts), 9)]
    for text in texts:
        once, _ = redacted(text)
        assert redacted(once) == (once, {}), text


PIECES = (
    "[redacted: jwt]",
    "[redacted: ",
    "password",
    "=",
    ": ",
    " is ",
    "://",
    "@",
    "a.com",
    "+49 30 ",
)
PIECES += (
    "123456",
    TOKEN,
    TOKEN[:9],
    "\n",
    '"',
    " ",
    "eyJ",
    ".",
    "-",
    "\u200d",
    "Bearer ",
    "x1y2z3",
)
pieces = st.lists(st.sampled_from(PIECES), max_size=14)


@given(pieces)
@example(["password", "=", "x1y2z3", "[redacted: jwt]"])
def test_redacting_twice_changes_nothing_in_any_mixture(parts):
    once, _ = redacted("".join(parts))
    assert redacted(once) == (once, {})


@given(
    st.text(
        st.characters(categories=("L", "Zs", "Po"), exclude_characters="@:=.'\"/\\"), max_size=200
    )
)
def test_words_come_back_as_they_are(text):
    assert redacted(text) == (text, {})


@given(st.lists(st.integers() | st.floats(allow_nan=False) | st.dates() | st.times() | st.uuids()))
def test_numbers_dates_and_ids_come_back_as_they_are(values):
    text = ", ".join(map(str, values))
    assert redacted(text) == (text, {})


def test_ids_hashes_and_times_of_a_run_stay():
    names = {"actors": [{"id": "anna@host.org", "traj": "t1"}]}
    events = [
        {
            "seq": 1,
            "kind": "message",
            "from": "anna@host.org",
            "parts": [{"type": "text", "text": TOKEN}],
        }
    ]
    given_run = run(
        f"see {TOKEN}",
        arguments={TOKEN: TOKEN, "password": "Tram" + "7731", "n": 1, "list": [TOKEN, None]},
        extra={"epimem": {**names, "events": events}, "note": TOKEN},
        public={"hint": TOKEN},
        group="group 10.1.2.3",
    ).model_copy(update={"run_id": "run 10.1.2.3"})
    clean, counts = scrubbed(given_run)
    assert left(clean, [TOKEN, "Tram" + "7731"]) == []
    assert counts == {"github-token": 7, "named-secret": 1}
    assert clean.run_id == given_run.run_id
    assert clean.task.group == given_run.task.group
    assert clean.actors == given_run.actors
    assert clean.events[0].sender == "anna@host.org"
    assert list(clean.trajectory.steps[0].tool_calls[0].arguments) == [
        MARKED,
        "password",
        "n",
        "list",
    ]


def test_ids_of_a_lesson_stay_and_its_texts_do_not():
    draft = lesson(
        title=TOKEN,
        cautions=(TOKEN,),
        body=f"long {TOKEN}",
        index=IndexText(topic=TOKEN, scope=TOKEN, question_anchor=TOKEN),
        question_key="anna@host.org",
        audience=("anna@host.org",),
        run_ids=("anna@host.org",),
    )
    clean, counts = scrubbed(draft)
    assert counts == {"github-token": 6}
    assert left(clean, [TOKEN]) == []
    assert (clean.question_key, clean.audience, clean.run_ids) == (
        draft.question_key,
        draft.audience,
        draft.run_ids,
    )


def test_a_record_without_a_secret_is_the_same_record():
    for record in (run("Nothing here."), lesson(title="Stations")):
        clean, counts = scrubbed(record)
        assert clean is record
        assert not counts


def test_a_short_field_that_grew_is_cut_between_markers():
    clean, counts = scrubbed(lesson(tags=("a@b.co " * 9,), guidance="a@b.co " * 2000))
    assert counts["e-mail"] > 2000
    assert len(clean.tags[0].encode()) <= TAG_BYTES
    assert clean.tags[0].count("[") == clean.tags[0].count("]") == 3
    assert len(clean.guidance.encode()) <= LESSON_BYTES
    assert scrubbed(clean) == (clean, {})
    assert scrubbed_text("x a@b.co", 12) == ("x ", 1)


HOSTILE = (
    "a",
    "1",
    "-",
    "@",
    ".",
    ":",
    "\n",
    "sk-",
    "eyJ",
    "password=",
    "://a:",
    "+1 ",
    "A1",
    "<",
    "PRIVATE KEY-----",
)
HOSTILE += (
    "-----BEGIN PRIVATE KEY-----",
    "mysql ",
    "curl -u ",
    "0 ",
    "01 ",
    "a\u200d",
    "\u0130",
    "MII",
    "sk-\n",
    "=",
)


@pytest.mark.parametrize("piece", HOSTILE)
def test_a_million_repeated_characters_take_seconds_at_most(piece):
    text = (piece * (10**6 // len(piece) + 1))[: 10**6]
    before = time.process_time()
    redacted(text)
    assert time.process_time() - before < 5


def test_the_time_grows_with_the_size_and_no_faster():
    rng = random.Random(5)
    lines = [text for _, text in harmless(seed=5, count=2000)] + [p.text for _, _, p in fakes(5, 2)]
    rng.shuffle(lines)
    piece = "\n".join(lines)

    def seconds(times):
        before = time.process_time()
        redacted(piece * times)
        return time.process_time() - before

    assert seconds(16) < 16 * max(seconds(2), seconds(2)) + 0.5


def test_a_run_of_ten_megabytes_takes_a_few_seconds():
    words = " ".join(text for _, text in harmless(seed=6, count=3000))
    steps = run(words * (10_000_000 // len(words) + 1))
    before = time.process_time()
    scrubbed(steps)
    assert time.process_time() - before < 20


def test_counts_name_kinds_and_never_the_secret():
    text, counts = redacted(f"{TOKEN} and a@b.com")
    assert TOKEN not in json.dumps([text, counts])
    assert counts == {"github-token": 1, "e-mail": 1}
