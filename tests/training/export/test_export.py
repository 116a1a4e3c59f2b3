"""Exports of a tiny model: what is written speaks as what was trained; anything else is refused."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

from controllers.prompts import OPERATIONS
from epimem.errors import ConfigError, NotFoundError
from tests.controllers.prompts import samples
from tests.training.evaluation.small_set import write_set
from tests.training.export.runs import write_run
from training.export.command import export as command
from training.export.export import export
from training.export.fingerprint import fingerprint, header

pytestmark = pytest.mark.torchvision


@pytest.fixture(scope="module")
def exported(finished, tmp_path_factory):
    out = tmp_path_factory.mktemp("exports") / "out"
    found = export(finished, out, merge=True)
    assert found.out == out
    return found


def replies(model, adapter=None):
    """What a model says to a request with text alone and to one that is long, greedily."""
    from controllers.backends.transformers import TransformersBackend

    backend = TransformersBackend(str(model), str(adapter) if adapter is not None else None)
    try:
        asked = [OPERATIONS[name].render(samples.REQUESTS[name]()) for name in ("place", "merge")]
        return [completion.text for completion in backend.complete(asked)]
    finally:
        backend.close()


def test_an_exported_adapter_speaks_as_the_one_that_was_trained(exported, finished, checkpoint):
    said = replies(checkpoint, exported.out / "adapter")
    assert all(said)
    assert said == replies(checkpoint, finished / "adapter")
    assert said != replies(checkpoint)


def test_merged_weights_speak_as_base_and_adapter_together(exported, finished, checkpoint):
    assert replies(exported.out / "merged") == replies(checkpoint, finished / "adapter")


def test_merged_logits_are_those_of_base_and_adapter(exported, finished, checkpoint):
    import torch
    from peft import PeftModel
    from transformers import AutoModelForImageTextToText, AutoProcessor

    base = AutoModelForImageTextToText.from_pretrained(checkpoint, dtype="auto").eval()
    inputs = AutoProcessor.from_pretrained(exported.out / "merged").tokenizer(
        "which lesson applies to this question", return_tensors="pt"
    )
    merged = AutoModelForImageTextToText.from_pretrained(exported.out / "merged", dtype="auto")
    with torch.inference_mode():
        alone = base(**inputs).logits
        adapted = PeftModel.from_pretrained(base, str(finished / "adapter")).eval()(**inputs).logits
        found = merged.eval()(**inputs).logits
    assert (found - adapted).abs().max() < 1e-4
    assert (found - alone).abs().max() > 0.1


def test_merged_weights_have_the_type_of_the_base_and_all_that_serving_takes(
    checkpoint, adapters, tmp_path
):
    import torch
    from transformers import AutoModelForImageTextToText

    half = tmp_path / "half"
    shutil.copytree(checkpoint, half)
    model = AutoModelForImageTextToText.from_pretrained(checkpoint, dtype=torch.bfloat16)
    model.save_pretrained(half)
    run = write_run(tmp_path / "run", half, adapter=adapters["memory"])
    export(run, tmp_path / "out", merge=True, model=str(half))
    merged = tmp_path / "out" / "merged"
    tensors, _ = header(merged / "model.safetensors")
    assert {about["dtype"] for about in tensors.values()} == {"BF16"}
    names = {path.name for path in merged.iterdir()}
    assert {"config.json", "tokenizer.json", "chat_template.jinja"} <= names
    assert any("processor" in name for name in names)
    settings = [json.loads((it / "generation_config.json").read_text()) for it in (merged, half)]
    assert settings[0]["temperature"] == settings[1]["temperature"] == 0.7


def test_settings_and_card_tell_nothing_of_this_machine(exported, finished, checkpoint):
    from controllers.prompts import VERSION

    adapter = exported.out / "adapter"
    assert sorted(path.name for path in adapter.iterdir()) == [
        "adapter_config.json",
        "adapter_model.safetensors",
    ]
    trained = (finished / "adapter" / "adapter_model.safetensors").read_bytes()
    assert (adapter / "adapter_model.safetensors").read_bytes() == trained
    card = (exported.out / "MODEL_CARD.md").read_text()
    texts = [card, (adapter / "adapter_config.json").read_text()]
    texts.append((exported.out / "export.json").read_text())
    assert not any(str(checkpoint.parent) in text or str(exported.out) in text for text in texts)
    for said in (
        "# Tree organizer on tiny",
        f"- prompt version: {VERSION};",
        "fingerprint " + fingerprint(checkpoint)[:12],
        "accuracy on the split dev, at the checkpoint that was kept: 0.750",
        '"epochs": 2',
        "--tree-organizer transformers:BASE+adapter",
        "--tree-organizer vllm:merged",
        "vllm.entrypoints.openai.api_server --model BASE",
        '"path": "adapter"',
        "## Licence",
        "Not evaluated",
    ):
        assert said in card, said


def test_an_adapter_of_another_base_is_refused_by_the_layer(finished, tmp_path):
    from tests.controllers.backends.tiny_qwen3_vl import write_checkpoint

    wide = write_checkpoint(tmp_path / "wide", text={"intermediate_size": 96})
    run = shutil.copytree(finished, tmp_path / "run")
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**record, "base": None}))
    with pytest.raises(ConfigError, match="another base") as caught:
        export(run, tmp_path / "out", model=str(wide))
    assert "mlp.down_proj" in caught.value.field
    short = write_checkpoint(tmp_path / "short", text={"num_hidden_layers": 1})
    with pytest.raises(ConfigError, match="no such layer") as caught:
        export(run, tmp_path / "out", model=str(short))
    assert "layers.1" in caught.value.field
    # Nothing is left of an export that failed.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "short", "wide"]


def test_all_weights_are_written_in_the_type_of_the_base(checkpoint, tmp_path):
    from tests.controllers.backends.tiny_qwen3_vl import write_checkpoint

    learnt = write_checkpoint(tmp_path / "learnt", seed=7)
    run = write_run(tmp_path / "run", checkpoint, weights=learnt)
    found = export(run, tmp_path / "out", model=str(checkpoint))
    assert list(found.commands) == ["merged"]
    assert not (tmp_path / "out" / "adapter").exists()
    assert replies(tmp_path / "out" / "merged") == replies(learnt) != replies(checkpoint)
    other = write_checkpoint(tmp_path / "wide", text={"intermediate_size": 96})
    with pytest.raises(ConfigError, match="another base"):
        export(
            write_run(tmp_path / "run 2", checkpoint, weights=other),
            tmp_path / "out 2",
            model=str(checkpoint),
        )


def test_a_folder_that_is_taken_is_left_alone(finished, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="taken"):
        export(finished, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_data_and_evaluation_stand_in_the_card(finished, checkpoint, tmp_path):
    from training.evaluation.run import run as evaluate

    folder = write_set(tmp_path / "set", groups=3, operations=("merge",))
    spec = f"transformers:{checkpoint}+{finished / 'adapter'}"
    report = evaluate(folder, [spec, "teacher"], tmp_path / "r")
    assert report.operation("merge").lines[0].failed == 0
    path = tmp_path / "report.json"
    path.write_text(report.model_dump_json())
    export(finished, tmp_path / "out", demonstrations=folder, report=path)
    card = (tmp_path / "out" / "MODEL_CARD.md").read_text()
    assert "6 demonstrations in 3 groups" in card
    assert "\n\n| operation | controller | train |" in card
    assert "\n### Teachers\n" in card
    assert "This controller is transformers/tiny+adapter in the table." in card
    assert "| merge (2 of 1 groups) | transformers/tiny+adapter |" in card
    others = evaluate(folder, ["teacher"], tmp_path / "r")
    path.write_text(others.model_dump_json())
    export(finished, tmp_path / "out 2", report=path)
    assert "No controller in the table" in (tmp_path / "out 2" / "MODEL_CARD.md").read_text()
    path.write_text(others.model_copy(update={"prompt_version": "0"}).model_dump_json())
    with pytest.raises(ConfigError, match="prompts of another version"):
        export(finished, tmp_path / "out 3", report=path)
    path.write_text("{}")
    with pytest.raises(ConfigError, match="not a report"):
        export(finished, tmp_path / "out 3", report=path)
    with pytest.raises(NotFoundError, match="no report"):
        export(finished, tmp_path / "out 3", report=tmp_path / "gone.json")


def test_the_card_of_another_set_is_refused(finished, tmp_path):
    folder = write_set(tmp_path / "set", groups=3, operations=("merge",))
    run = shutil.copytree(finished, tmp_path / "run")
    record = json.loads((run / "run.json").read_text())
    record["data"]["card"] = "0" * 64
    (run / "run.json").write_text(json.dumps(record))
    with pytest.raises(ConfigError, match="another set"):
        export(run, tmp_path / "out", demonstrations=folder)


def test_the_command_prints_what_serves_the_export(finished, tmp_path):
    out = tmp_path / "out"
    found = CliRunner().invoke(command, [str(finished), str(out)], catch_exceptions=False)
    assert found.exit_code == 0
    printed = json.loads(found.stdout)
    assert printed["role"] == "tree_organizer"
    assert list(printed["commands"]) == ["adapter"]
    assert f"+{out / 'adapter'}" in printed["commands"]["adapter"]["vllm"]
    assert "MODEL_CARD.md" in found.stderr
