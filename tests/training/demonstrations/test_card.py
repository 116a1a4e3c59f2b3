from __future__ import annotations

import json
from dataclasses import replace

from controllers.prompts import select
from epimem.protocols import Derived
from epimem.schema.proposal import Consolidate
from tests.controllers.prompts import samples
from tests.training.demonstrations import made
from training.demonstrations.card import is_empty
from training.demonstrations.store import DemonstrationSet


def collected(folder) -> dict:
    """Make a set of eleven demonstrations in four groups, three of them empty, two set aside."""
    with DemonstrationSet.create(folder) as found:
        for at in range(4):
            pages = made.drawn(found, at)
            for name in ("merge", "gate"):
                each = made.demonstration(
                    name, made.request(name, pages), key=f"{name}-{at}", group=f"g{at}"
                )
                found.add(each)
        asked = made.request("select")
        nothing = select.selection(asked, (), None)
        found.add(made.demonstration("select", asked, nothing, key="s", group="g0"))
        apart = made.demonstration("merge", samples.merge(), None, key="m", group="g1")
        origin = replace(
            apart.provenance, teacher="openai:big", reviser="openai:bigger", source="ChartQA"
        )
        found.add(replace(apart, provenance=origin))
        short = made.demonstration(
            "derive", made.request("derive"), Derived((), "short"), key="d", group="g2"
        )
        found.add(short)
        found.set_aside("x", "gate", "g1", "teacher", "no value")
        found.set_aside("y", "place", "g1", "references", "not shown")
        found.set_aside("z", "place", "g1", "references", "not shown")
        return found.finish(seed=7, shares={"train": 0.5, "dev": 0.25, "test": 0.25})


def test_the_card_counts_what_is_in_the_set(tmp_path) -> None:
    card = collected(tmp_path)
    assert card == json.loads((tmp_path / "card.json").read_bytes())
    splits = DemonstrationSet.open(tmp_path).splits()
    assert card["demonstrations"] == 11
    assert card["groups"] == {"all": 4, "train": 2, "dev": 1, "test": 1}
    assert list(card["operations"]) == ["derive", "gate", "merge", "select"]
    gate = {"train": 2, "dev": 1, "test": 1}
    assert card["operations"]["gate"] == gate
    assert card["operations"]["merge"] == {**gate, splits["g1"]: gate[splits["g1"]] + 1}
    alone = {"train": 0, "dev": 0, "test": 0}
    assert card["operations"]["select"] == {**alone, splits["g0"]: 1}
    assert card["operations"]["derive"] == {**alone, splits["g2"]: 1}
    assert card["source"] == {"ChartQA": 1, "samples": 10}
    assert card["teacher"] == {"openai:big": 1, "test": 10}
    assert card["reviser"] == {"openai:bigger": 1}
    assert card["prompt_version"] == {"1": 11}
    assert card["empty"] == {"derive": 1, "merge": 1, "select": 1}
    assert card["images"] == 8
    assert card["set_aside"] == {"references": 2, "teacher": 1}
    assert card["set_aside_by_operation"] == {"gate": 1, "place": 2}
    assert card["skipped"] == {}
    assert card["seed"] == 7
    assert card["shares"] == {"train": 0.5, "dev": 0.25, "test": 0.25}


def test_the_page_says_the_same_in_tables(tmp_path) -> None:
    card = collected(tmp_path)
    text = (tmp_path / "card.md").read_text()
    assert "11 demonstrations in 4 groups, 8 images" in text
    assert "seed 7, shares train 0.5, dev 0.25, test 0.25" in text
    assert "| gate | memory_controller | 2 | 1 | 1 | 4 |" in text
    row = card["operations"]["merge"]
    assert f"| merge | tree_organizer | {row['train']} | {row['dev']} | {row['test']} | 5 |" in text
    assert "| groups |  | 2 | 1 | 1 | 4 |" in text
    assert "## Teachers\n\n- openai:big: 1\n- test: 10\n" in text
    assert "## Set aside, by check\n\n- references: 2\n- teacher: 1\n" in text
    assert "## Lines that cannot be read\n\nNone.\n" in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1


def test_lines_that_cannot_be_read_are_counted_by_code(tmp_path) -> None:
    collected(tmp_path)
    with DemonstrationSet.create(tmp_path) as found:
        path = tmp_path / "demonstrations.jsonl"
        kept = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"{\n[]\n" + b"".join(kept[2:]))
        card = found.finish()
    assert card["skipped"] == {"bad_json": 1, "invalid_field": 1}
    assert card["demonstrations"] == 9
    assert "- bad_json: 1\n" in (tmp_path / "card.md").read_text()


def test_a_name_from_a_source_stays_within_its_line(tmp_path) -> None:
    with DemonstrationSet.create(tmp_path) as found:
        each = made.demonstration("merge", made.request("merge"))
        origin = replace(each.provenance, source="a\n## Not a heading | x", teacher="<b>x</b>")
        found.add(replace(each, provenance=origin))
        found.finish()
    text = (tmp_path / "card.md").read_text()
    assert "\n## Not" not in text
    assert "<b>" not in text


def test_what_says_nothing_is_known_by_operation() -> None:
    empty = {
        "select": select.selection(samples.select(), (), None),
        "merge": None,
        "derive": Derived((), "x"),
        "consolidate": Consolidate(node_id="group-0001"),
    }
    for name, request in samples.REQUESTS.items():
        full = made.demonstration(name, request())
        assert not is_empty(full)
        if name in empty:
            assert is_empty(replace(full, value=empty[name]))
    assert not is_empty(made.demonstration("gate", samples.gate(), 0))
