"""Small data sets in the documented fields of the hub, as parquet of the test that reads them."""

from __future__ import annotations

import io
import json

import datasets
from PIL import Image


def picture(shade: int, size: tuple[int, int] = (24, 16), kind: str = "PNG") -> bytes:
    made = Image.new("RGB", size, (shade, 40, 90))
    made.putpixel((1, 1), (255, 255, 255))
    buffer = io.BytesIO()
    made.save(buffer, format=kind)
    return buffer.getvalue()


def stored(data: bytes | None) -> dict | None:
    return None if data is None else {"bytes": data, "path": "page.png"}


TEXT = datasets.Value("string")
TEXTS = datasets.List(TEXT)
PICTURE = datasets.Image()

MATHNET = {
    "id": TEXT,
    "country": TEXT,
    "competition": TEXT,
    "problem_markdown": TEXT,
    "solutions_markdown": TEXTS,
    "topics_flat": TEXTS,
    "language": TEXT,
    "problem_type": TEXT,
    "final_answer": TEXT,
    "images": datasets.List(PICTURE),
}
CHARTQA = {
    "image": PICTURE,
    "query": TEXT,
    "label": TEXTS,
    "human_or_machine": datasets.ClassLabel(names=["human", "machine"]),
}
CHARTQA_TEST = {"type": TEXT, "question": TEXT, "answer": TEXT, "image": PICTURE}
DOCVQA = {
    "questionId": TEXT,
    "question": TEXT,
    "question_types": TEXTS,
    "image": PICTURE,
    "docId": datasets.Value("int64"),
    "ucsf_document_id": TEXT,
    "ucsf_document_page_no": TEXT,
    "answers": TEXTS,
    "data_split": TEXT,
}
INFOGRAPHIC = {
    "questionId": TEXT,
    "question": TEXT,
    "answers": TEXTS,
    "answer_type": TEXTS,
    "image": PICTURE,
    "image_url": TEXT,
    "operation/reasoning": TEXTS,
    "ocr": TEXT,
    "data_split": TEXT,
}
CHARTNET = {"id": TEXT, "image": PICTURE, "complex_question": TEXT, "full_reasoning": TEXT}


def write_parquet(path, features, rows):
    """Write rows as the library does, so that the file says which fields are pictures."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = {name: [row.get(name) for row in rows] for name in features}
    datasets.Dataset.from_dict(columns, features=datasets.Features(features)).to_parquet(path)
    return path


def write_annotations(folder, rows):
    (folder / "train_samples_all_tuning.json").write_text(json.dumps(rows), encoding="utf-8")
    return folder
