"""Failures that other memory systems had, as tests: Unicode, query syntax, names of groups.

Numbers are rows of the list of public failure reports; `test_failures.py` holds the whole table.
What is a term: bank/test_tokens.py.
"""

from __future__ import annotations

import string
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epimem.bank import lexical
from epimem.bank.tokens import tokens
from epimem.config import Config, EncoderConfig, RecallConfig
from epimem.errors import RecordError
from epimem.memory import ExperienceMemory
from epimem.schema.lesson import IndexText, LessonDraft
from epimem.schema.text import clean_text
from epimem.testing import small_run
from tests.journeys.scripted_memory import (
    PLACES,
    candidates,
    lesson,
    new_memory,
    plain_memory,
    rows_of,
    sound,
)

QUESTION = f"how many stop at the {PLACES[0]}?"


def titled(text):
    return LessonDraft(guidance=text, index=IndexText(topic=text))


QUERIES = {
    "Chinese": ("人工智能技术发展的经验教训", "人工智能"),
    "one character": ("黑猫在窗台上睡觉", "猫"),
    "Japanese": ("黄色い三角形の駅は通過する", "三角形の駅"),
    "half-width kana": ("ガイドを先に読む", "\uff76\uff9e\uff72\uff84\uff9e"),
    "Korean": ("하얀 삼각형 역은 통과한다", "삼각형 역"),
    "Hangul in parts": ("물고기를 세다", "\u1106\u116e\u11af\u1100\u1169\u1100\u1175"),
    "one syllable": ("꽃병은 세지 않는다", "꽃"),
    "Thai": ("นับสถานีรถไฟที่จอดจริงเท่านั้น", "สถานีรถไฟ"),
    "Lao": ("ນັບພາສາລາວ", "ພາສາລາວ"),
    "Russian": ("Белые треугольники Верды не остановки", "треугольники Верды"),
    "Ukrainian": ("Рахуй свіжий комп\u02bc\u044eт\u0435\u0440", "комп'\u044eт\u0435\u0440"),
    "Arabic": ("احسب المحطات البيضاء فقط", "المحطات البيضاء"),
    "vowelled Arabic": ("كَتَبَ الطَّالِبُ الدَّرْسَ", "الطالب الدرس"),
    "pointed Hebrew": ("סְפֹר אֶת הַתַּחֲנוֹת", "ספר התחנות"),
    "Hindi": ("केवल सफेद स्टेशन गिनें", "सफेद स्टेशन"),
    "German": ("Weiße Dreiecke zählen nie mit", "WEISSE DREIECKE"),
    "Turkish": ("İstasyonlar\u0131 \u0131l\u0131k günde say", "ILIK"),
    "decomposed": ("Le café de la gare compte", "cafe\u0301 de la gare"),
    "full width": ("Use platform AB12 for trams", "\uff21\uff22\uff11\uff12"),
    "hyphen": ("Run the pre-edit hook before saving", "pre-edit"),
    "slash": ("Disk reads reach two GB/s here", "GB/s"),
    "apostrophe": ("Signals don't count as stops", "don't count"),
    "other apostrophe": ("Lamps can't be seen by day", "can\u2019t be seen"),
    "id": ("Ticket om_x100b5c is the broken one", "om_x100b5c"),
    "UUID": (
        "Run 0190b2c4-7a11-7def-8abc-0123456789ab fails",
        "0190b2c4-7a11-7def-8abc-0123456789ab",
    ),
    "file": ("Never edit setup_file.py by hand", "setup_file.py"),
    "version": ("Pin release v2.1.3 of it", "v2.1.3"),
    "C++": ("Prefer C++ over anything", "C++"),
    "C#": ("Prefer C# beyond anything", "C#"),
    ".NET": ("Build it on .NET eight", ".NET"),
    "flag": ("Trams under 🇮🇹 turn left", "🇮🇹"),
    "other flag": ("Trams under 🇫🇷 turn right", "🇫🇷"),
    "family": ("Doors with 👨\u200d👩\u200d👧 are wide", "👨\u200d👩\u200d👧"),
    "skin tone": ("Signs with 👍 mean go", "👍🏽"),
    "heart": ("Cards with ❤\ufe0f come last", "❤"),
    "keycap": ("Button 3\ufe0f\u20e3 opens it", "3\u20e3"),
    "currency": ("Fares in € are final", "€"),
    "relation": ("Check that width ≤ height", "≤"),
    "phrase": ("Say the magic word aloud", '"magic word"'),
    "operators": ("Trust the quiet engineer", "quiet NEAR(engineer) OR title:* ^ - AND NOT ("),
    "escape": ("Acme moved\\u0000 hello", "moved\\u0000"),
}


def test_a_query_in_any_script_finds_its_lesson_without_vectors(tmp_path):  # 56, 59
    with plain_memory(tmp_path / "bank") as memory:
        for guidance, _ in QUERIES.values():
            memory.contribute(titled(guidance))
        found = {name: memory.retrieve(query).items for name, (_, query) in QUERIES.items()}
        texts = {name: [item.guidance for item in items] for name, items in found.items()}
        assert texts == {name: [guidance] for name, (guidance, _) in QUERIES.items()}


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    with plain_memory(tmp_path_factory.mktemp("asked") / "bank") as memory:
        memory.contribute(titled("Count the white triangles twice"))
        yield memory


SPECIAL = [
    "a1#+*-\"':\u0307\u0301\u064b\u20e3\u200d\ufe0f",
    "👩🏽🚀❤🇮🇹☎€≤猫กต้ק\u0627İ\u0131ß½™①\u2212 ",
]
ANY = st.text(st.characters() | st.sampled_from("".join(SPECIAL)), min_size=1, max_size=40)
PRINTABLE = st.text(string.printable, min_size=1, max_size=60)
SPACE = count()


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given((ANY | PRINTABLE).map(clean_text).filter(str.strip))
def test_any_text_with_a_term_finds_itself_first(asked, text):  # 56, 59
    space = f"space-{next(SPACE)}"
    asked.contribute(titled("wholly unrelated things"), namespace=space)
    own = asked.contribute(titled(text), namespace=space).id
    found = candidates(asked, text, namespace=space)
    assert [(item["node_id"], item["passes"]) for item in found[:1]] == (
        [(own, True)] if tokens(text) else []
    )


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=60))
def test_no_printable_question_is_query_syntax(asked, text):  # 59
    if not text.strip():
        with pytest.raises(RecordError):
            asked.retrieve(text)
        return
    assert asked.retrieve(text).searchable == "lexical"
    found = asked.retrieve(f"white triangles {text}").items
    assert [item.guidance for item in found] in ([], ["Count the white triangles twice"])


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.text(st.characters(exclude_categories=()) | st.sampled_from("".join(SPECIAL)), max_size=40)
)
def test_any_question_is_answered_or_refused_by_name(asked, text):  # 58, 59
    try:
        items = asked.retrieve(text).items
    except RecordError as error:
        refused = error
    else:
        assert [item.guidance for item in items] in ([], ["Count the white triangles twice"])
        return
    assert refused.code in {"invalid_text", "invalid_field"}


@pytest.mark.parametrize(
    "question",
    [
        "white AND NOT triangles",
        '"white triangles',
        "white* OR NEAR(triangles, 2)",
        "topic:white ^triangles",
        "(white) + -triangles;",
        "white\ttriangles\n--",
        "%white_triangles%",
        "{white: [triangles]}",
    ],
)
def test_operators_of_query_languages_are_punctuation(asked, question):  # 59
    assert [item.guidance for item in asked.retrieve(question).items] == [
        "Count the white triangles twice"
    ]


def test_nothing_of_the_lexical_index_is_made_while_a_lesson_is_stored(tmp_path, monkeypatch):  # 56
    cache = tmp_path / "bank.side" / "cache"
    with plain_memory(tmp_path / "bank") as memory:
        memory.contribute(titled("Count the white triangles"))
        assert memory.retrieve("white triangles").items
        files = {path: path.read_bytes() for path in sorted(cache.rglob("*")) if path.is_file()}

        def refuse(text):
            raise AssertionError(f"{text} was read for the index while it was stored")

        with monkeypatch.context() as patch:
            patch.setattr(lexical, "document_terms", refuse)
            assert memory.contribute(titled("Zeppelins moor at noon")).status == "stored"
            with pytest.raises(AssertionError, match="Zeppelins"):
                memory.retrieve("when do zeppelins moor?")
        now = {path: path.read_bytes() for path in sorted(cache.rglob("*")) if path.is_file()}
        assert now == files
        assert memory.retrieve("when do zeppelins moor?").items
        schema = rows_of(memory, "select lower(sql) from sqlite_master where sql is not null")
        assert schema
        assert not [sql for (sql,) in schema if "virtual" in sql or "fts" in sql]


def test_the_form_of_the_seed_can_be_chosen_for_a_bank(tmp_path):  # 52
    for mode, searchable in (
        ("dense", "dense"),
        ("fused", "dense+lexical"),
        ("lexical", "lexical"),
    ):
        config = Config(encoder=EncoderConfig(model="table:64"), recall=RecallConfig(mode=mode))
        with ExperienceMemory.create(tmp_path / mode, config) as memory:
            memory.contribute(titled("Count the white triangles"))
            answer = memory.retrieve("Count the white triangles")
            assert (answer.searchable, len(answer.items)) == (searchable, 1)
            (found,) = memory.explain(answer.retrieval_id)["candidates"]
            signals = {name for name in ("dense", "lexical") if found.get(name) is not None}
            assert signals == set(searchable.split("+"))


def test_a_run_with_what_nothing_can_store_is_kept_visibly_and_flagged(tmp_path):  # 58
    run = small_run(1, answer="Acme moved\0 hello \ud83d", family="fa\0mily")
    task = run.task.model_copy(update={"public": {"n\0te": "x\udc00"}})
    with new_memory(tmp_path / "bank") as memory:
        assert memory.contribute(run.model_copy(update={"task": task})).status == "queued"
        (queued,) = memory.bank.queued_runs(limit=9)
        assert queued.run.answer.text == "Acme moved\\u0000 hello \\ud83d"
        assert queued.run.task.public == {"n\\u0000te": "x\\udc00"}
        assert queued.run.replaced == 3, "the answer was escaped when the run was made"
        raw = memory.contribute(b'{"trajectory":' + raw_trajectory() + b"}").status
        assert raw == "queued"
        assert memory.ingest().states["derived"] == 2
        assert sound(memory)


def raw_trajectory():
    """Return a trajectory with escapes that nothing can store, and the rest of its run."""
    step = '{"step_id": 1, "source": "agent", "message": "found \\u0000 and \\ud83d"}'
    agent = '{"name": "solver", "version": "1"}'
    chain = f'{{"schema_version": "ATIF-v1.8", "agent": {agent}, "steps": [{step}]}}'
    rest = '"run_id": "r-raw", "created_at": "2026-01-01T00:00:00Z"'
    task = '"task": {"task_id": "t", "question": "what \\udfff?"}, "system": {"harness": "h"}'
    return f'{chain}, {rest}, {task}, "answer": {{"text": "\\ud83d!"}}'.encode()


@pytest.mark.parametrize("bad", ["Acme moved\0", "hello \ud83d", "\udc00"], ids=ascii)
def test_a_lesson_or_question_with_it_is_refused_by_name(tmp_path, bad):  # 58
    with plain_memory(tmp_path / "bank") as memory:
        for call in (
            lambda: memory.contribute({"guidance": bad}),
            lambda: memory.retrieve(bad),
            lambda: memory.contribute({"guidance": "fine", "index": {"scope": bad}}),
        ):
            with pytest.raises(RecordError) as refused:
                call()
            assert refused.value.code == "invalid_text"
        assert memory.bank.head_seq == 0
        assert memory.contribute({"guidance": "Acme moved"}).status == "stored"


SPACES = (
    "my-team",
    "0198f2c4-7d1e-7c3a-9f00-5b1e2d3c4a5f",
    'it\'s "quoted"',
    "100% _under*score",
    "a OR b; DROP TABLE nodes --",
    "équipe",
    "团队",
    "../up/and\\down",
)


def test_any_name_of_a_namespace_works_and_stays_apart(tmp_path):  # 60
    with new_memory(tmp_path / "bank") as memory:
        ids = {space: memory.contribute(lesson(1), namespace=space).id for space in SPACES}
        assert memory.maintain().placed == len(SPACES)
        assert memory.bank.namespaces() == tuple(sorted(SPACES))
        for space, node_id in ids.items():
            shown = candidates(memory, QUESTION, namespace=space)
            assert [item["node_id"] for item in shown] == [node_id]
            assert memory.tree(space).lessons()[0].node_id == node_id
        decomposed = "e\u0301quipe"
        assert memory.contribute(lesson(1), namespace=decomposed).status == "duplicate"
        assert memory.retrieve(QUESTION, namespace=decomposed).items
        assert sound(memory)


def test_any_name_of_a_reader_is_matched_whole_and_any_group_key_counts_apart(tmp_path):  # 60
    """A name is compared, never searched for: not even a part or a pattern of one matches."""
    with new_memory(tmp_path / "bank") as memory:
        ids = {}
        for number, name in enumerate(SPACES):
            draft = lesson(number, audience=(name,), group_key=name, question_key=f"q-{name}")
            ids[name] = memory.contribute(draft).id
        assert len(set(ids.values())) == len(SPACES)
        memory.maintain()
        for name, node_id in ids.items():
            shown = candidates(memory, QUESTION, reader=name)
            assert [item["node_id"] for item in shown] == [node_id]
            stored = memory.bank.node(node_id).lesson
            assert (stored.group_key, stored.question_key) == (name, f"q-{name}")
        for other in ("my", "my-team*", "MY-TEAM", "my_team", "%", "team OR my"):
            assert candidates(memory, QUESTION, reader=other) == []
        assert candidates(memory, QUESTION) == []
        assert memory.contribute(lesson(0, audience=("my-team",))).status == "folded"
        assert sound(memory)
