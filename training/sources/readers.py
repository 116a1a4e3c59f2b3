"""From a row of each data set to a question: one function a data set, by its documented fields.

The fields are those of the cards of the hub (seen 2026-11-30), named in each function.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from epimem.schema.ids import sha256
from training.sources.question import (
    RowError,
    RowFault,
    SourceQuestion,
    image_bytes,
    image_of,
    text_of,
    texts_of,
)

Row = Mapping[str, Any]
_ATTACHED = re.compile(r"attached_image_(\d+)\.")
_ANSWER_IS = re.compile(r"^the answer is:?\s+", re.IGNORECASE)
_ANSWER_TAG = re.compile(r"<answer>(.*?)</answer>", re.IGNORECASE | re.DOTALL)


def mathnet(row: Row, _: Path | None) -> SourceQuestion:
    """Read id, country, competition, problem_markdown, final_answer and images.

    `images` holds those of the solutions too; shown are the ones that the statement names (numbered from
    1). A proof has no final answer, and cannot be judged without a person.
    """
    question = text_of(row, "problem_markdown", "no_question")
    held = row.get("images") or []
    images = []
    for number in dict.fromkeys(int(found) for found in _ATTACHED.findall(question)):
        if not 1 <= number <= len(held):
            raise RowError("no_image", f"image {number} is not in the row", field="images")
        images.append(image_bytes(held[number - 1], "images"))
    country, competition = (str(row.get(name) or "").strip() for name in ("country", "competition"))
    return SourceQuestion(
        id=text_of(row, "id"),
        question=question,
        images=tuple(images),
        references=(text_of(row, "final_answer", "no_answer"),),
        family="mathematics olympiad",
        group=" / ".join(part for part in (country, competition) if part),
    )


def mathv360k(row: Row, images: Path | None) -> SourceQuestion:
    """Read id, image (a path below the folder of images) and conversations.

    The first turn of "human" is the question, the first of "gpt" says "The answer is ...". Ids repeat
    over the 24 sources, so that the path of the image goes into ours.
    """
    path = text_of(row, "image", "no_image")
    human, said = _turn(row, "human", "no_question"), _turn(row, "gpt", "no_answer")
    question = human.replace("<image>", "").strip()
    answer = _ANSWER_IS.sub("", said).rstrip(".").strip()
    if not question or not answer:
        fault: RowFault = "no_answer" if question else "no_question"
        raise RowError(fault, "the turn is empty", field="conversations")
    return SourceQuestion(
        id=_made_id(row.get("id"), path, human),
        question=question,
        images=(_beside(images, path),),
        references=(answer,),
        family=PurePosixPath(path).parts[0],
    )


def chartqa(row: Row, _: Path | None) -> SourceQuestion:
    """Read image, query and label (a list); the card of HuggingFaceM4."""
    image, question = image_of(row, "image"), text_of(row, "query", "no_question")
    references = texts_of(row, "label", "no_answer")
    return _chart(row.get("id"), question, image, references)


def chartqa_test(row: Row, _: Path | None) -> SourceQuestion:
    """Read image, question and answer; the card of lmms-lab, which has the test split alone."""
    image, question = image_of(row, "image"), text_of(row, "question", "no_question")
    return _chart(row.get("id"), question, image, (text_of(row, "answer", "no_answer"),))


def docvqa(row: Row, _: Path | None) -> SourceQuestion:
    """Read questionId, question, image, docId, ucsf_document_id and answers.

    A document has several pages, each with a docId of its own: the document keeps questions together.
    """
    document = row.get("ucsf_document_id") or text_of(row, "docId")
    return SourceQuestion(
        id=text_of(row, "questionId"),
        question=text_of(row, "question", "no_question"),
        images=(image_of(row, "image"),),
        references=texts_of(row, "answers", "no_answer"),
        family="document questions",
        group=str(document),
    )


def infographicvqa(row: Row, _: Path | None) -> SourceQuestion:
    """Read questionId, question, image, image_url and answers."""
    return SourceQuestion(
        id=text_of(row, "questionId"),
        question=text_of(row, "question", "no_question"),
        images=(image_of(row, "image"),),
        references=texts_of(row, "answers", "no_answer"),
        family="infographic questions",
        group=str(row.get("image_url") or ""),
    )


def chartnet(row: Row, _: Path | None) -> SourceQuestion:
    """Read id, image, complex_question and full_reasoning (configuration `reasoning`).

    The reference is what the reasoning puts into an answer tag, else the reasoning as a whole (ours):
    the card names no field for the answer alone.
    """
    reasoning = text_of(row, "full_reasoning", "no_answer")
    tagged = [found.strip() for found in _ANSWER_TAG.findall(reasoning) if found.strip()]
    return SourceQuestion(
        id=text_of(row, "id"),
        question=text_of(row, "complex_question", "no_question"),
        images=(image_of(row, "image"),),
        references=(tagged[-1] if tagged else reasoning,),
        family="chart reasoning",
    )


def _chart(
    known: object, question: str, image: bytes, references: tuple[str, ...]
) -> SourceQuestion:
    return SourceQuestion(
        id=_made_id(known, sha256(image), question),
        question=question,
        images=(image,),
        references=references,
        family="chart questions",
    )


def _turn(row: Row, speaker: str, fault: RowFault) -> str:
    turns = row.get("conversations")
    if not isinstance(turns, list):
        raise RowError("missing_field", "a list is wanted", field="conversations")
    said = [
        turn.get("value")
        for turn in turns
        if isinstance(turn, dict) and turn.get("from") == speaker
    ]
    if not said or not isinstance(said[0], str):
        raise RowError(fault, f"no turn of {speaker}", field="conversations")
    return said[0].strip()


def _made_id(*parts: object) -> str:
    """Return an id for a row that has none of its own, or none that is unique."""
    return sha256("\n".join(str(part) for part in parts).encode("utf-8", "backslashreplace"))[:24]


def _beside(folder: Path | None, name: str) -> bytes:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise RowError("bad_path", "a path that leaves the folder of images", field="image")
    if folder is None:
        raise RowError("no_image", "images lie in a folder of their own", field="image")
    try:
        return (folder / path).read_bytes()
    except OSError as error:
        raise RowError("no_image", "no such file in the folder of images", field="image") from error
