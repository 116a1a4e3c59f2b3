from __future__ import annotations

import fcntl
import io
import json
import os
import pickle
import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from PIL import Image

from controllers.prompts import OPERATIONS
from epimem.errors import (
    BankBusyError,
    BankFrozenError,
    ConfigError,
    ImageError,
    NotFoundError,
    RecordError,
    StorageError,
)
from epimem.protocols import Picture
from tests.training.demonstrations import made
from training.demonstrations.store import Aside, DemonstrationSet


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "set"


def filled(folder, names=tuple(OPERATIONS), *, finished: bool = False):
    """Make a set of one demonstration of each operation, each in a group of its own."""
    made_ = []
    with DemonstrationSet.create(folder) as found:
        for seed, name in enumerate(names):
            request = made.request(name, made.drawn(found, seed))
            made_.append(made.demonstration(name, request, group=f"g-{name}"))
            found.add(made_[-1])
        if finished:
            found.finish()
    return made_


def read(folder, *args):
    found = DemonstrationSet.open(folder)
    return list(found.read(*args)), found.skipped


def names_in(folder):
    return {path.name for path in folder.iterdir()}


def lines(folder):
    return (folder / "demonstrations.jsonl").read_bytes().splitlines(keepends=True)


def test_what_was_added_is_read_back_with_its_pictures(folder) -> None:
    added = filled(folder)
    found, skipped = read(folder)
    assert not skipped
    assert found == added
    for before, after in zip(added, found, strict=True):
        for one, other in zip(
            getattr(before.request, "pages", ()), getattr(after.request, "pages", ()), strict=True
        ):
            assert one.png(10**8) == other.png(10**8) is not None
            width, height = Image.open(io.BytesIO(other.png(500))).size
            assert width * height <= 500


def test_only_the_operations_asked_for_are_read(folder) -> None:
    filled(folder)
    found, _ = read(folder, None, ["gate", "merge"])
    assert [each.operation for each in found] == ["gate", "merge"]
    assert read(folder, None, [])[0] == []


def test_each_demonstration_is_in_the_split_of_its_group(folder) -> None:
    added = filled(folder, finished=True)
    splits = json.loads((folder / "splits.json").read_text())
    assert set(splits["groups"]) == {each.group for each in added}
    assert set(splits["groups"].values()) == {"train", "dev", "test"}
    parts = {split: read(folder, split)[0] for split in ("train", "dev", "test")}
    for split, found in parts.items():
        assert found
        assert all(splits["groups"][each.group] == split for each in found)
    assert sorted(each.id for found in parts.values() for each in found) == sorted(OPERATIONS)


def test_groups_that_show_the_same_page_or_crop_stand_in_one_split(folder) -> None:
    with DemonstrationSet.create(folder) as found:
        for at in range(12):
            # Two groups share a page: 0 and 1, 2 and 3, and so on.
            pages = made.drawn(found, at // 2)
            request = replace(made.request("gate", pages[at % 2 :]), question=f"question {at}")
            if at % 2:
                other = found.add_image(made.pixels(5, 5, at), 1)
                crop = Picture(pages[1].image_id, 5, 5, 0, other.read)
                request = replace(made.request("select", (other,)), crops={"node-0000": (crop,)})
            name = "select" if at % 2 else "gate"
            found.add(made.demonstration(name, request, key=f"d{at}", group=f"g{at}"))
        found.finish(seed=3, shares={"train": 0.5, "dev": 0.25, "test": 0.25})
        splits = found.splits()
    assert set(splits.values()) == {"train", "dev", "test"}
    assert all(splits[f"g{at}"] == splits[f"g{at + 1}"] for at in range(0, 12, 2))


def test_groups_that_show_the_same_pixels_under_two_ids_stand_in_one_split(folder) -> None:
    with DemonstrationSet.create(folder) as found:
        for at in range(12):
            same = found.add_image(made.pixels(5, 5, at // 2))
            crop = Picture(f"{at:064x}", 5, 5, 0, same.read)
            request = replace(made.request("select"), crops={"node-0000": (crop,)})
            found.add(made.demonstration("select", request, key=f"d{at}", group=f"g{at}"))
        found.finish(seed=3, shares={"train": 0.5, "dev": 0.25, "test": 0.25})
        splits = found.splits()
    assert set(splits.values()) == {"train", "dev", "test"}
    assert all(splits[f"g{at}"] == splits[f"g{at + 1}"] for at in range(0, 12, 2))


def test_what_is_set_aside_is_noted_and_done(folder) -> None:
    with DemonstrationSet.create(folder) as found:
        found.set_aside("d1", "gate", "g", "teacher", "no value came")
        assert found.done == {"d1"}
        with pytest.raises(RecordError, match="is there"):
            found.set_aside("d1", "gate", "g", "teacher", "again")
    again = DemonstrationSet.open(folder)
    assert list(again.asides()) == [Aside("d1", "gate", "g", "teacher", "no value came")]
    assert again.done == {"d1"}
    assert list(again.read()) == []


def test_a_job_goes_on_where_it_was(folder) -> None:
    filled(folder, ("gate", "merge"))
    with DemonstrationSet.create(folder) as found:
        assert found.done == {"gate", "merge"}
        with pytest.raises(RecordError, match="is there"):
            found.add(made.demonstration("gate", made.request("gate")))
        place = made.demonstration("place", made.request("place"))
        found.add(place)
        with pytest.raises(RecordError, match="is there"):
            found.add(place)
    assert [each.id for each in read(folder)[0]] == ["gate", "merge", "place"]


def test_what_does_not_pass_a_check_is_not_taken(folder) -> None:
    with DemonstrationSet.create(folder) as found:
        bad = made.demonstration("place", made.request("place"))
        bad = replace(bad, value=bad.value.model_copy(update={"lesson_id": "another"}))
        with pytest.raises(RecordError, match="references"):
            found.add(bad)
        assert not found.done
    assert not lines(folder)


def test_a_picture_that_is_gone_is_refused_and_nothing_is_written(folder) -> None:
    with DemonstrationSet.create(folder) as found:
        request = made.request("gate", (Picture("0" * 64, 4, 4, 1),))
        with pytest.raises(ImageError):
            found.add(made.demonstration("gate", request))
        assert not found.done
    assert not lines(folder)


@pytest.mark.parametrize("question", ["a \ud800 b", "NaN", "big"])
def test_what_json_cannot_hold_is_refused(folder, question) -> None:
    with DemonstrationSet.create(folder) as found:
        request = made.request("gate")
        if question == "NaN":
            request = made.request("merge")
            request = replace(request, likeness=float("nan"))
        elif question == "big":
            request = replace(request, question_images=2**70)
        else:
            request = replace(request, question=question)
        name = "merge" if question == "NaN" else "gate"
        with pytest.raises(RecordError):
            found.add(made.demonstration(name, request))
    assert not lines(folder)


def test_what_would_be_lost_on_the_way_is_refused(folder) -> None:
    request = replace(made.request("gate"), crops={1: 2})
    with DemonstrationSet.create(folder) as found:
        with pytest.raises(RecordError, match="without loss"):
            found.add(made.demonstration("gate", request))
    assert not lines(folder)


def spoil(folder, change) -> None:
    found = lines(folder)
    found[1] = change(found[1])
    (folder / "demonstrations.jsonl").write_bytes(b"".join(found))


def field(name, value):
    return lambda line: json.dumps({**json.loads(line), name: value}).encode() + b"\n"


@pytest.mark.parametrize(
    ("change", "code", "says"),
    [
        (lambda _: b"{\n", "bad_json", "not JSON"),
        (lambda _: b"\xff\xfe\n", "bad_json", "UTF-8"),
        (lambda _: pickle.dumps(3).replace(b"\n", b"") + b"\n", "bad_json", ""),
        (lambda _: b"[1]\n", "invalid_field", "object"),
        (lambda _: b"\n", "bad_json", ""),
        (field("format", "epimem-demonstration/2"), "invalid_field", "format"),
        (field("surplus", 1), "invalid_field", "surplus"),
        (field("operation", ["gate"]), "invalid_field", "operation"),
        (field("group", 7), "invalid_field", "group"),
        (field("id", "derive"), "invalid_field", "earlier line"),
        (lambda line: line[:-1] + b",}\n", "bad_json", "not JSON"),
        (lambda line: b'{"id":"x",' + line[1:], "bad_json", "duplicate"),
    ],
)
def test_a_bad_line_is_named_and_the_rest_is_read(folder, change, code, says) -> None:
    filled(folder, ("derive", "update", "gate"))
    spoil(folder, change)
    found, skipped = read(folder)
    assert [each.id for each in found] == ["derive", "gate"]
    assert [(each.line, each.code) for each in skipped] == [(2, code)]
    assert says in skipped[0].message


def test_a_line_cut_short_is_named_even_where_it_is_whole_json(folder) -> None:
    filled(folder, ("derive", "update"))
    data = (folder / "demonstrations.jsonl").read_bytes()
    (folder / "demonstrations.jsonl").write_bytes(data[:-1])
    found, skipped = read(folder)
    assert [each.id for each in found] == ["derive"]
    assert (skipped[0].line, skipped[0].code) == (2, "bad_json")
    assert "cut short" in skipped[0].message


def bad_image(path, kind: str) -> None:
    data = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "folder":
        path.unlink()
        path.mkdir()
    elif kind == "pickle":
        path.write_bytes(pickle.dumps({"weights": list(range(50))}))
    elif kind == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif kind == "bit":
        path.write_bytes(data[:60] + bytes([data[60] ^ 1]) + data[61:])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "size":
        Image.new("RGB", (7, 7)).save(path, "PNG")
    elif kind == "jpeg":
        Image.new("RGB", (40, 30)).save(path, "JPEG")


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("missing", "not_found"),
        ("folder", "not_found"),
        ("pickle", "unsupported_type"),
        ("cut", "invalid_image"),
        ("bit", "invalid_image"),
        ("empty", "invalid_image"),
        ("size", "invalid_image"),
        ("jpeg", "invalid_image"),
    ],
)
def test_a_bad_image_is_named_and_the_rest_is_read(folder, kind, code) -> None:
    added = filled(folder, ("derive", "update", "gate"), finished=True)
    page = added[1].request.pages[0]
    bad_image(folder / "images" / f"{page.image_id}.png", kind)
    found, skipped = read(folder)
    assert [each.id for each in found] == ["derive", "gate"]
    assert [(each.line, each.code) for each in skipped] == [(2, code)]
    if kind != "size":
        assert added[1].request.pages[0].png(100) is None


def test_other_pixels_of_the_same_size_are_found_when_the_set_is_finished(folder) -> None:
    added = filled(folder, ("derive", "update", "gate"))
    path = folder / "images" / f"{added[1].request.pages[0].image_id}.png"
    Image.new("RGB", (40, 30), "red").save(path, "PNG")
    with DemonstrationSet.create(folder) as found:
        card = found.finish()
        assert "other pixels" in found.skipped[0].message
        assert set(found.splits()) == {"g-derive", "g-gate"}
    assert card["skipped"] == {"invalid_image": 1}
    assert card["demonstrations"] == 2


def test_a_group_without_a_split_is_named_when_a_split_is_read(folder) -> None:
    filled(folder, ("derive", "update", "gate"), finished=True)
    spoil(folder, field("group", "new"))
    kept = [each.id for split in ("train", "dev", "test") for each in read(folder, split)[0]]
    assert sorted(kept) == ["derive", "gate"]
    skipped = read(folder, "train")[1]
    assert [(each.line, each.code) for each in skipped] == [(2, "invalid_field")]


def test_more_demonstrations_make_splits_and_card_out_of_date(folder) -> None:
    filled(folder, ("derive", "update", "gate"), finished=True)
    with DemonstrationSet.create(folder) as found:
        assert found.splits()
        found.add(made.demonstration("place", made.request("place"), group="new"))
        assert not {"splits.json", "card.json", "card.md"} & names_in(folder)
        with pytest.raises(NotFoundError, match="no splits"):
            found.read("train")
        found.finish()
        assert "new" in found.splits()


@pytest.mark.parametrize("text", ["[]", "{}", '{"groups": {"g": "exam"}}', '{"groups": {"g": []}}'])
def test_damaged_splits_are_refused(folder, text) -> None:
    filled(folder, ("merge",), finished=True)
    (folder / "splits.json").write_text(text)
    with pytest.raises(RecordError):
        DemonstrationSet.open(folder).read("train")


def test_a_finish_gives_the_same_files_again(folder) -> None:
    filled(folder, finished=True)
    names = ("splits.json", "card.json", "card.md")
    before = [(folder / name).read_bytes() for name in names]
    with DemonstrationSet.create(folder) as found:
        found.finish()
    assert [(folder / name).read_bytes() for name in names] == before
    assert not list(folder.rglob("*.tmp"))


def test_an_empty_set_can_be_finished(folder) -> None:
    with DemonstrationSet.create(folder) as found:
        assert found.finish()["demonstrations"] == 0
        assert list(found.read("train")) == []


def test_a_set_opened_for_reading_takes_nothing(folder) -> None:
    filled(folder, ("merge",))
    found = DemonstrationSet.open(folder)
    for write in (
        lambda: found.add(made.demonstration("place", made.request("place"))),
        lambda: found.set_aside("x", "gate", "g", "teacher", ""),
        lambda: found.add_image(made.pixels(2, 2)),
        found.finish,
    ):
        with pytest.raises(BankFrozenError):
            write()


def test_there_must_be_a_set_to_open_and_no_other_folder_to_create_in(folder) -> None:
    with pytest.raises(NotFoundError):
        DemonstrationSet.open(folder)
    folder.mkdir()
    with pytest.raises(NotFoundError):
        DemonstrationSet.open(folder)
    (folder / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="no set"):
        DemonstrationSet.create(folder)
    with pytest.raises(ConfigError, match="no set"):
        DemonstrationSet.create(folder / "thesis.txt")
    with pytest.raises(StorageError):
        DemonstrationSet.create(folder / "thesis.txt" / "set")
    assert names_in(folder) == {"thesis.txt"}


OTHER = """
import sys
from epimem.errors import BankBusyError
from training.demonstrations.store import DemonstrationSet
try:
    DemonstrationSet.create(sys.argv[1])
except BankBusyError as error:
    print(error)
else:
    print("written")
print(len(list(DemonstrationSet.open(sys.argv[1]).read())))
"""


def test_two_processes_do_not_write_one_set(folder) -> None:
    filled(folder, ("merge",))

    def other() -> list[str]:
        return subprocess.run(
            [sys.executable, "-c", OTHER, str(folder)], check=True, capture_output=True, text=True
        ).stdout.splitlines()

    with DemonstrationSet.create(folder):
        refused, read_ = other()
        assert "another process writes this set" in refused
        assert read_ == "1"
        with pytest.raises(BankBusyError):
            DemonstrationSet.create(folder)
    assert other() == ["written", "1"]


def test_a_lock_that_a_killed_writer_is_about_to_leave_is_waited_for(folder) -> None:
    filled(folder, ("merge",))
    held = os.open(folder / ".lock", os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    release = threading.Timer(0.15, os.close, [held])
    release.start()
    with DemonstrationSet.create(folder) as found:
        assert found.done == {"merge"}
    release.join()
