"""A pool on a bank: who is shown what, what is handed in, and two pools on one bank."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from epimem.config import Config, EncoderConfig
from epimem.errors import AccessError
from epimem.memory import ExperienceMemory
from epimem.schema import strict_json
from epimem.schema.contribution import read_contribution
from epimem.schema.memory_input import Item, MemoryInput
from epimem.schema.run import check_semantics, interleave
from harness_adapters.client import Client
from harness_adapters.evochamber.archive import Insight
from harness_adapters.evochamber.codream import deficient
from harness_adapters.evochamber.problem import Problem
from harness_adapters.evochamber.sharing import LEADERS, Parcel, Sharing
from tests.harness_adapters.evochamber.conftest import INSIGHT, problem, who

FOREIGN = "Read the legend of the line before counting stations."


@pytest.fixture
def bank(tmp_path):
    config = Config(encoder=EncoderConfig(model="none"), gate="always")
    ExperienceMemory.create(tmp_path / "bank", config).close()
    return tmp_path / "bank"


@pytest.fixture
def shared(bank, tmp_path):
    """Open the bank for a group; all are closed at the end."""
    opened = []

    def make(group, *, phase="construction"):
        memory = ExperienceMemory.open(bank, phase=phase)
        opened.append(memory)
        client = Client.local(memory, contributor=group)
        return Sharing(client, group, tmp_path / group, backbone=f"model-of-{group}")

    yield make
    for memory in opened:
        memory.close()


def by_name(right):
    def solve(system, _user):
        known = INSIGHT in system
        return "so it is = 6" if known or who(system) in right else "so it is = 8"

    return solve


def skills(chamber, *values):
    for agent, value in zip(chamber.population.agents, values, strict=False):
        agent.learn("z", value, 1.0)


def asked_for(rule, name):
    """Return the system prompt with which an agent was asked to solve."""
    return next(
        each.system for each in rule.seen if each.tag == "solve" and who(each.system) == name
    )


def dreamt(pool, sharing):
    """Let a pool of six crystallise an insight: agent-001 knows, agents 4 to 6 have a deficit."""
    chamber, rule = pool(by_name({"agent-001"}), sharing=sharing, agents=6)
    skills(chamber, 0.9, 0.8, 0.7, 0.2, 0.1, 0.05)
    done = chamber.solve(problem())
    assert len(done.insights) == 1
    chamber.send()
    return chamber, rule, done


def items(sharing, reader, number=1):
    given = sharing.bank.retrieve(problem(number).question, reader=reader)
    return [item.guidance for item in given.items]


# -- one pool -------------------------------------------------------------------------------------


def test_the_bank_gives_an_insight_to_its_recipients_and_to_other_harnesses_alone(pool, shared):
    sharing = shared("alpha")
    chamber, _, done = dreamt(pool, sharing)
    assert set(done.recipients) == {"agent-004", "agent-005", "agent-006"}
    for agent in chamber.population.agents:
        seen = INSIGHT in items(sharing, sharing.reader(agent.name))
        assert seen is (agent.name in done.recipients), agent.name
    assert INSIGHT in items(sharing, "codex")
    assert INSIGHT in items(sharing, "@beta/agent-001")


def test_symmetric_transfer_is_for_everybody(pool, shared):
    sharing = shared("alpha")
    chamber, _ = pool(by_name({"agent-001"}), sharing=sharing, agents=6, transfer="symmetric")
    skills(chamber, 0.9, 0.8, 0.7, 0.2, 0.1, 0.05)
    chamber.solve(problem())
    chamber.send()
    assert all(INSIGHT in items(sharing, f"@alpha/agent-00{at}") for at in range(1, 7))


def test_what_is_in_quarantine_is_read_by_nobody(pool, shared):
    sharing = shared("alpha")
    chamber, _ = pool(by_name(set()), sharing=sharing, agents=6, when_all_fail="quarantine")
    skills(chamber, 0.9, 0.8, 0.7, 0.2, 0.1, 0.05)
    done = chamber.solve(problem())
    assert len(done.insights) == 1
    chamber.send()
    readers = [
        None,
        "codex",
        "alpha",
        "beta/agent-001",
        *(f"alpha/agent-00{n}" for n in range(1, 7)),
    ]
    assert not any(INSIGHT in items(sharing, reader or "") for reader in readers)


def test_a_run_is_handed_in_with_all_replies_and_a_sealed_outcome(pool, shared, bank):
    sharing = shared("alpha")
    _, rule, done = dreamt(pool, sharing)
    with ExperienceMemory.open(bank, read_only=True) as memory:
        (queued,) = memory.bank.queued_runs(limit=9)
    run = queued.run
    assert check_semantics(run, lambda _: True) == ()
    assert [turn.actor for turn in interleave(run)] == ["host", *done.team]
    assert (run.task.question, run.answer.text) == (problem().question, "so it is = 8")
    assert set(run.answer.by_actor) == set(done.team)
    assert [actor.role for actor in run.actors] == ["host", "anchor", "complement", "scout"]
    assert run.costs.mas.calls == len(rule.seen)
    assert run.system.backbones[0].id == "rule"
    assert "verdict" not in run.canonical().decode()


def test_two_pools_that_do_the_same_hand_in_two_runs(pool, shared, bank, monkeypatch):
    monkeypatch.setattr("time.perf_counter", lambda: 0.0)
    for name in ("alpha", "beta"):
        chamber, _ = pool(lambda *_: "= 6", sharing=shared(name))
        chamber.solve(problem())
        chamber.send()
    with ExperienceMemory.open(bank, read_only=True) as memory:
        assert len(memory.bank.queued_runs(limit=9)) == 2


def test_the_origin_of_a_lesson_is_named(pool, shared, bank):
    sharing = shared("alpha")
    dreamt(pool, sharing)
    with ExperienceMemory.open(bank, read_only=True) as memory:
        (item,) = memory.retrieve(problem().question, reader="codex").items
        lesson = memory.bank.node(item.node_id).lesson
    assert item.agents == ("alpha/agent-001",)
    assert (lesson.method, lesson.backbone) == ("evochamber", "model-of-alpha")
    assert (lesson.contributor, lesson.verdict_source) == ("alpha", "oracle")
    assert lesson.tags == ("subdomain",)
    assert lesson.audience == tuple(f"@alpha/agent-00{n}" for n in (6, 5, 4))


def test_structures_are_for_leaders_and_no_solver_sees_them(pool, shared):
    said = {"review": "Voting suits counting stations of a line."}
    alpha = shared("alpha")
    chamber, _ = pool(lambda *_: "= 6", sharing=alpha, said=said, without=())
    chamber.solve(problem())
    chamber.send()
    asked = "How should a team work together on tasks of the niche z?"
    for reader in ("", "codex", "@alpha/agent-001", "@beta/agent-001"):
        assert alpha.bank.retrieve(asked, reader=reader).items == (), reader
    assert alpha.bank.retrieve(asked, reader=LEADERS).items
    assert alpha.advice("z", "r-1") == (), "a pool's own entries are in its own list"
    beta = shared("beta")
    assert beta.advice("z", "r-2") == (said["review"],)
    chamber, rule = pool(lambda *_: "= 6", sharing=beta, said=said, without=())
    chamber.solve(problem(2))
    assert f"Other pools say:\n- {said['review']}" in rule.seen[0].user
    assert LEADERS not in rule.seen[0].user


def test_verdicts_go_to_what_was_shown(pool, shared, bank):
    sharing = shared("alpha")
    sharing.bank.contribute(lesson_of_codex())
    chamber, _ = pool(lambda *_: "= 6", sharing=sharing)
    done = chamber.solve(problem())
    assert done.retrieved
    chamber.send()
    with ExperienceMemory.open(bank, read_only=True) as memory:
        (shown,) = {each for ids in done.retrieved.values() for each in ids}
        standing = memory.bank.standing([(shown, "default", "z")])[shown]
        assert (standing.used_right, standing.used_wrong) == (1, 0)


def test_a_verdict_is_on_what_was_shown_alone():
    items = [
        Item(node_id="own", kind="lesson", guidance="Ours.", agents=("alpha/agent-003",)),
        Item(node_id="foreign", kind="rule", guidance=FOREIGN, agents=("codex",)),
    ]
    given = MemoryInput(retrieval_id="r", bank_seq=1, items=tuple(items))
    sharing = Sharing(SimpleNamespace(retrieve=lambda *_, **__: given), "alpha", Path("unused"))
    part = sharing.before(problem(), "agent-001", "r-1", deficit=False)
    assert part.texts == ("Ours.",)
    assert [item.node_id for item in part.given.items] == ["own"]
    assert sharing.feedback([part], problem(), right=True) == []
    whole = sharing.before(problem(), "agent-001", "r-1", deficit=True)
    (verdict,) = sharing.feedback([whole], problem(), right=False)
    assert (verdict.key, verdict.body["verdict"]) == ("r", "wrong")


def lesson_of_codex(**more):
    return {
        "guidance": FOREIGN,
        "title": "legends",
        "harness": "codex",
        "index": {"topic": "stations", "scope": "line", "question_anchor": problem().question},
        **more,
    }


def test_what_comes_from_elsewhere_enters_only_who_has_a_deficit(pool, shared):
    sharing = shared("alpha")
    shared("codex").bank.contribute(lesson_of_codex())
    chamber, rule = pool(lambda *_: "= 6", sharing=sharing)
    skills(chamber, 0.9, 0.5, 0.1)
    low = {agent.name for agent in deficient(chamber.population.agents, "z", chamber.settings)}
    assert low == {"agent-003"}
    done = chamber.solve(problem())
    for agent in chamber.population.agents:
        has = agent.name in low
        assert (FOREIGN in asked_for(rule, agent.name)) is has
        assert [each.giver for each in agent.archive.all()] == ["external:codex"] * has
    assert set(done.retrieved) == low


def test_without_a_deficit_no_foreign_lesson_is_shown_however_many_there_are(pool, shared):
    sharing = shared("alpha")
    for number in range(3):
        sharing.bank.contribute(lesson_of_codex(guidance=f"{FOREIGN} {number}"))
    chamber, rule = pool(lambda *_: "= 6", sharing=sharing)
    skills(chamber, 0.9, 0.5, 0.1)
    chamber.solve(problem())
    assert FOREIGN not in asked_for(rule, "agent-001")
    assert FOREIGN in asked_for(rule, "agent-003")


def test_a_pools_own_lessons_are_not_crowded_out_by_a_foreign_one(pool, shared):
    sharing = shared("alpha")
    sharing.bank.contribute(lesson_of_codex())
    own = lesson_of_codex(guidance="Ours.", agent="alpha/agent-003", audience=["@alpha/agent-001"])
    own["index"] = {**own["index"], "question_anchor": "How many stations?"}
    sharing.bank.contribute(own)
    chamber, rule = pool(lambda *_: "= 6", sharing=sharing)
    skills(chamber, 0.9, 0.5, 0.1)
    chamber.solve(problem())
    prompt = asked_for(rule, "agent-001")
    assert "Ours." in prompt
    assert FOREIGN not in prompt


def test_crops_go_along_with_the_pictures_of_the_task(pool, shared, tmp_path):
    sharing = shared("alpha")
    path = tmp_path / "page.png"
    path.write_bytes(picture(90, 60))
    image = sharing.bank.add_image(picture(64, 48))
    region = {"width": 64, "height": 48, "x0": 8, "y0": 8, "x1": 40, "y1": 32}
    sharing.bank.contribute(
        lesson_of_codex(evidence=[{"image_id": image.image_id, "region": region}])
    )
    chamber, rule = pool(lambda *_: "= 6", sharing=sharing)
    skills(chamber, 0.9, 0.5, 0.1)
    chamber.solve(problem(images=(path,)))
    shown = {who(each.system): each.images for each in rule.seen}
    assert shown == {"agent-001": 1, "agent-002": 1, "agent-003": 2}


def picture(width, height):
    image = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(image).polygon([(10, 30), (20, 10), (30, 30)], outline="red")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def test_what_was_sent_before_has_no_effect(pool, shared, bank):
    sharing = shared("alpha")
    chamber, _ = pool(by_name({"agent-001"}), sharing=sharing, agents=6)
    skills(chamber, 0.9, 0.8, 0.7, 0.2, 0.1, 0.05)
    chamber.solve(problem())
    parcels = [Parcel.read(each.plain()) for each in chamber.outbox]
    sharing.send(parcels[:2])
    sharing.send(parcels)
    with ExperienceMemory.open(bank) as memory:
        before = memory.bank.head_seq
        sharing.send(parcels)
        assert memory.bank.head_seq == before
        assert len(memory.bank.queued_runs(limit=9)) == 1


def test_asked_again_after_an_interruption_the_bank_gives_the_same(shared):
    sharing = shared("alpha")
    sharing.bank.contribute(lesson_of_codex())
    first = sharing.before(problem(), "agent-001", "r-1", deficit=True)
    sharing.bank.contribute(lesson_of_codex(guidance="Another and newer one about stations."))
    assert sharing.before(problem(), "agent-001", "r-1", deficit=True) == first


UGLY = st.one_of(
    st.text(),
    st.text(alphabet="\u202e\u200b\ud83d\U0001f469\u0301\n\t\0 a\u56e2", max_size=60),
    st.sampled_from(["\U0001f600" * 400, "\u56e2" * 3000, "a\nb" * 900, "\ud83d", "\u202e" * 9]),
)


@settings(max_examples=120, deadline=None)
@given(text=UGLY, question=UGLY, niche=UGLY, reach=st.sampled_from(["subdomain", "cross_domain"]))
def test_whatever_a_model_says_is_a_lesson_or_none(text, question, niche, reach):
    sharing = Sharing(SimpleNamespace(), "alpha", Path("unused"), backbone=text)
    task = Problem("t", niche, question, lambda _: None)
    insight = Insight.model_construct(text=text, niche=niche, reach=reach, giver="agent-001")
    insight = insight.model_copy(update={"verified": True})
    parcels = sharing.insight(insight, task, "r-1", ["agent-002"])
    parcels.append(sharing.structure(task, "r-1", "agent-001", "voting", text, right=True))
    for parcel in parcels:
        assert read_contribution(parcel.body).guidance.strip()


@pytest.mark.parametrize("noise", ["\ud83d", "\0", "\u202e", "\n" * 5000, "x" * 10**6])
def test_whatever_the_model_says_a_task_is_kept_and_handed_in(pool, shared, bank, noise):
    sharing = shared("alpha")
    told = json.dumps([{"text": noise}])
    said = {
        "imagine": told,
        "crystallize": told,
        "reflect": noise,
        "contrast": noise,
        "choose": noise,
    }
    solve = by_name({"agent-001"})
    chamber, _ = pool(
        lambda *given: f"{noise} {solve(*given)}", sharing=sharing, said=said, agents=6, without=()
    )
    skills(chamber, 0.9, 0.8, 0.7, 0.2, 0.1, 0.05)
    done = chamber.solve(problem())
    strict_json.loads(strict_json.dumps(chamber.state()), max_depth=strict_json.RUN_DEPTH + 8)
    strict_json.loads(done.canonical())
    chamber.send()
    with ExperienceMemory.open(bank, read_only=True) as memory:
        assert len(memory.bank.queued_runs(limit=9)) == 1


# -- two pools ------------------------------------------------------------------------------------


def test_a_lesson_of_one_pool_reaches_a_deficit_agent_of_another_with_its_giver(pool, shared):
    dreamt(pool, shared("alpha"))
    chamber, rule = pool(by_name(set()), sharing=shared("beta"))
    chamber.llm.llm.name = "another backbone"
    skills(chamber, 0.9, 0.5, 0.1)
    done = chamber.solve(problem(1, wanted="6"))
    kept = {a.name: [each.giver for each in a.archive.all()] for a in chamber.population.agents}
    assert kept == {
        "agent-001": [],
        "agent-002": [],
        "agent-003": ["external:alpha/agent-001"],
    }
    assert [INSIGHT in asked_for(rule, f"agent-00{n}") for n in (1, 2, 3)] == [False, False, True]
    assert done.marks["agent-003"] == 1.0


# -- phases ---------------------------------------------------------------------------------------


def test_in_evaluation_the_bank_refuses_what_an_oracle_said_and_takes_what_a_pool_agreed_on(
    pool, shared
):  # E13
    for source, refused in (("oracle", True), ("self", False)):
        sharing = shared(f"pool-{source}", phase="evaluation")
        chamber, _ = pool(lambda *_: "= 6", sharing=sharing)
        chamber.solve(problem(source=source))
        assert chamber.outbox
        if refused:
            with pytest.raises(AccessError):
                chamber.send()
        else:
            chamber.send()


def test_images_are_stored_once(shared, tmp_path):
    sharing = shared("alpha")
    path = tmp_path / "page.png"
    path.write_bytes(picture(90, 60))
    calls = []
    bank = sharing.bank
    sharing.bank = SimpleNamespace(add_image=lambda data: calls.append(1) or bank.add_image(data))
    pages = [sharing.pages(problem(images=(path, path))) for _ in range(2)]
    assert pages[0] == pages[1]
    assert [each.page for each in pages[0]] == [1, 2]
    assert len(calls) == 1
