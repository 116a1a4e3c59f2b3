"""Each data set by the documented fields: what becomes question, pictures, references and group."""

from __future__ import annotations

import pytest

from epimem.errors import ConfigError, NotFoundError
from tests.training.sources import hub_fixtures as fixtures
from training.sources import hub
from training.sources.question import RowError


def read_all(name, folder, images=None, split=None):
    source = hub.source(name)
    rows = hub.rows(source, folder=folder, split=split or source.split)
    found = []
    for row in rows:
        try:
            found.append(source.read(row, images))
        except RowError as error:
            found.append(error.fault)
    return found


def test_mathnet_shows_the_pictures_of_the_statement_and_not_those_of_the_solution(tmp_path):
    ours, theirs = fixtures.picture(10), fixtures.picture(20)
    row = {
        "id": "p1",
        "country": "Estonia",
        "competition": "Open 2019",
        "problem_markdown": "See ![](attached_image_2.png). Find x.",
        "solutions_markdown": ["By ![](attached_image_1.png), x = 7."],
        "final_answer": "7",
        "images": [fixtures.stored(theirs), fixtures.stored(ours)],
    }
    proof = {**row, "id": "p2", "final_answer": None}
    gone = {**row, "id": "p3", "images": [fixtures.stored(theirs)]}
    none = {**row, "id": "p4", "problem_markdown": "See ![](attached_image_0.png)."}
    folder = tmp_path / "data" / "Estonia"
    fixtures.write_parquet(folder / "train-0.parquet", fixtures.MATHNET, [row, proof, gone, none])
    first, *others = read_all("ShadenA/MathNet", tmp_path)
    assert (first.id, first.references, first.images) == ("p1", ("7",), (ours,))
    assert first.group == "Estonia / Open 2019"
    assert others == ["no_answer", "no_image", "no_image"]


def test_mathv360k_takes_the_pictures_from_their_folder_and_the_answer_out_of_its_sentence(
    tmp_path,
):
    images = tmp_path / "data_images"
    (images / "IconQA" / "images").mkdir(parents=True)
    (images / "IconQA" / "images" / "1.png").write_bytes(fixtures.picture(1))
    (tmp_path / "secret.png").write_bytes(fixtures.picture(2))

    def row(
        image, said="The answer is B.", human="<image>\nQuestion: Which?\nChoices:\n(A) a (B) b"
    ):
        turns = [{"from": "human", "value": human}, {"from": "gpt", "value": said}]
        return {"id": "identity", "image": image, "conversations": turns}

    rows = [
        row("IconQA/images/1.png"),
        row("IconQA/images/1.png", said="12", human="<image>How many?"),
        row("IconQA/images/2.png"),
        row("../secret.png"),
        row("IconQA/images/1.png", said="The answer is ."),
    ]
    fixtures.write_annotations(tmp_path, rows)
    first, second, *others = read_all("Zhiqiang007/MathV360K", tmp_path, images)
    assert first.references == ("B",)
    assert first.question == "Question: Which?\nChoices:\n(A) a (B) b"
    assert (first.family, first.images) == ("IconQA", (fixtures.picture(1),))
    assert (second.question, second.references) == ("How many?", ("12",))
    assert first.id != second.id
    assert others == ["no_image", "bad_path", "no_answer"]


def test_both_chartqa_packagings_give_the_question_its_answers_and_the_chart(tmp_path):
    chart = fixtures.picture(3)
    row = {"image": fixtures.stored(chart), "query": "How much?", "label": ["3.5", "3.5", "7/2"]}
    rows = [row, {**row, "label": []}, {**row, "query": ""}, {**row, "image": None}]
    fixtures.write_parquet(tmp_path / "a" / "train-0.parquet", fixtures.CHARTQA, rows)
    first, *others = read_all("HuggingFaceM4/ChartQA", tmp_path / "a")
    assert (first.question, first.references, first.images) == (
        "How much?",
        ("3.5", "7/2"),
        (chart,),
    )
    assert others == ["no_answer", "no_question", "no_image"]
    other = {"type": "human_test", "question": "How?", "answer": "Yes", "image": row["image"]}
    fixtures.write_parquet(tmp_path / "b" / "test-0.parquet", fixtures.CHARTQA_TEST, [other])
    (found,) = read_all("lmms-lab/ChartQA", tmp_path / "b")
    assert (found.question, found.references, found.images) == ("How?", ("Yes",), (chart,))


def test_docvqa_keeps_the_pages_of_a_document_together_and_infographics_by_their_address(tmp_path):
    page = fixtures.stored(fixtures.picture(4))
    document = {
        "questionId": "337",
        "question": "What is the date?",
        "image": page,
        "docId": 279,
        "ucsf_document_id": "xnbl0037",
        "answers": ["1/8/93", "1/8/93", "8 January"],
    }
    hidden = {**document, "questionId": "338", "answers": None}
    fixtures.write_parquet(
        tmp_path / "DocVQA" / "validation-0.parquet", fixtures.DOCVQA, [document, hidden]
    )
    graphic = {
        "questionId": "9",
        "question": "Which year?",
        "image": page,
        "image_url": "http://x/y.jpg",
        "answers": ["2011"],
    }
    fixtures.write_parquet(
        tmp_path / "InfographicVQA" / "validation-0.parquet", fixtures.INFOGRAPHIC, [graphic]
    )
    first, other = read_all("lmms-lab/DocVQA:DocVQA", tmp_path)
    assert (first.id, first.group, first.references) == (
        "337",
        "xnbl0037",
        ("1/8/93", "8 January"),
    )
    assert other == "no_answer"
    (found,) = read_all("lmms-lab/DocVQA:InfographicVQA", tmp_path)
    assert (found.id, found.group, found.references) == ("9", "http://x/y.jpg", ("2011",))


def test_chartnet_takes_the_tagged_answer_of_the_reasoning_else_all_of_it(tmp_path):
    chart = fixtures.stored(fixtures.picture(5))
    row = {"id": "c1", "image": chart, "complex_question": "Which is largest?"}
    tagged = {**row, "full_reasoning": "<think>so</think> <answer> Coal </answer>"}
    plain = {**row, "id": "c2", "full_reasoning": "Coal, for it is the tallest."}
    fixtures.write_parquet(
        tmp_path / "reasoning" / "train_0.parquet", fixtures.CHARTNET, [tagged, plain]
    )
    first, second = read_all("ibm-granite/ChartNet", tmp_path)
    assert (first.id, first.question, first.references) == ("c1", "Which is largest?", ("Coal",))
    assert second.references == ("Coal, for it is the tallest.",)


def test_a_row_without_a_documented_field_is_named_and_the_others_are_read(tmp_path):
    features = {name: kind for name, kind in fixtures.CHARTQA.items() if name != "label"}
    row = {"image": fixtures.stored(fixtures.picture(6)), "query": "How much?"}
    fixtures.write_parquet(tmp_path / "a.parquet", features, [row])
    full = {**row, "label": ["1"]}
    assert read_all("HuggingFaceM4/ChartQA", tmp_path) == ["missing_field"]
    fixtures.write_parquet(tmp_path / "a.parquet", fixtures.CHARTQA, [full])
    assert read_all("HuggingFaceM4/ChartQA", tmp_path)[0].references == ("1",)


def test_the_files_of_the_split_are_read_and_not_those_of_another(tmp_path):
    for split, answer in (("train", "1"), ("val", "2")):
        row = {"image": fixtures.stored(fixtures.picture(7)), "query": "?", "label": [answer]}
        fixtures.write_parquet(tmp_path / f"{split}-0.parquet", fixtures.CHARTQA, [row])
    name = "HuggingFaceM4/ChartQA"
    assert [found.references for found in read_all(name, tmp_path)] == [("1",)]
    assert [found.references for found in read_all(name, tmp_path, split="val")] == [("2",)]


def test_a_name_that_stands_for_nothing_or_for_two_sets_is_refused_with_what_there_is(tmp_path):
    with pytest.raises(ConfigError) as none:
        hub.source("someone/else")
    assert "ShadenA/MathNet" in none.value.hint
    with pytest.raises(ConfigError) as two:
        hub.source("lmms-lab/DocVQA")
    assert two.value.hint == "one of lmms-lab/DocVQA:DocVQA, lmms-lab/DocVQA:InfographicVQA"
    with pytest.raises(NotFoundError):
        read_all("HuggingFaceM4/ChartQA", tmp_path)


def test_the_help_names_every_data_set_there_is():
    from training.sources.command import NAMES

    assert tuple(hub.SOURCES) == NAMES


def test_references_are_not_printed(tmp_path):
    row = {"image": fixtures.stored(fixtures.picture(8)), "query": "?", "label": ["CANARY-4711"]}
    fixtures.write_parquet(tmp_path / "train.parquet", fixtures.CHARTQA, [row])
    (found,) = read_all("HuggingFaceM4/ChartQA", tmp_path)
    assert "CANARY-4711" in found.references
    assert "CANARY-4711" not in repr(found)
