from __future__ import annotations

import pytest

from controllers.replies.names import rename, renamed, same_name


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("applies_when", "applies_when"),
        ("appliesWhen", "applies_when"),
        ("Applies When", "applies_when"),
        ("APPLIES-WHEN", "applies_when"),
        ("conditions", "applies_when"),
        ("caution", "cautions"),
        ("Warnings", "cautions"),
        ("supporting", "supported_by"),
        ("category_id", "category"),
        ("selectedRules", "rules"),
        ("the_lesson", "lesson"),
        ("bbox", "box"),
    ],
)
def test_a_field_is_known_by_another_name(given: str, field: str) -> None:
    assert renamed([given], [field, "stop"]) == {given: field}
    assert same_name(given, field)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("no_rules", "rules"),
        ("rejected_rules", "rules"),
        ("other_lesson", "lesson"),
        ("new_category", "category"),
        ("previous_guidance", "guidance"),
        ("thoughts", "guidance"),
        ("id", "lesson"),
        ("\u0430pplies_when", "applies_when"),  # the first letter is Cyrillic
        ("", "rules"),
    ],
)
def test_a_field_of_another_meaning_is_not(given: str, field: str) -> None:
    assert renamed([given], [field]) == {}


def test_the_right_name_wins_over_another() -> None:
    assert renamed(["advice", "guidance"], ["guidance"]) == {"guidance": "guidance"}
    assert renamed(["Guidance", "advice"], ["guidance"]) == {"Guidance": "guidance"}


def test_two_that_match_as_well_match_nothing() -> None:
    assert renamed(["Guidance", "GUIDANCE"], ["guidance"]) == {}
    assert renamed(["advice", "recommendation"], ["guidance"]) == {}
    assert renamed(["new_category"], ["new", "category"]) == {"new_category": "new"}


def test_values_come_under_the_names_wanted() -> None:
    fields, names = rename({"Rules": [1], "why": "x"}, ["rules", "lesson"])
    assert fields == {"rules": [1]}
    assert names == {"Rules": "rules"}
