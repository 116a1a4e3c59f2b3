"""An adapter trained here is as good on a vLLM server as in this process; run by `make test-vllm`.

The adapter learns to decide as its base does not, so that what is served without it shows.
"""

from __future__ import annotations

import pytest

from tests.controllers.backends.test_vllm import ENVIRONMENT
from tests.training.evaluation.small_set import write_set
from tests.training.export.runs import write_run
from training.evaluation.run import run
from training.export.export import export

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3000)]
OPERATIONS = ("gate", "merge")
STEPS = 80
TARGETS = r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)"


def train(base, demonstrations, folder):
    """Fit a LoRA adapter to demonstrations, one after the other, and return its folder."""
    import torch
    from peft import LoraConfig, get_peft_model

    from controllers.backends.local_base import Base
    from training.sft.rows import RowMaker

    torch.manual_seed(0)
    held = Base(str(base))
    maker = RowMaker(held.processor, held.markers)
    rows = [maker.row(demonstration) for demonstration in demonstrations]
    model = get_peft_model(held.model, LoraConfig(r=16, lora_alpha=32, target_modules=TARGETS))
    optimizer = torch.optim.AdamW((it for it in model.parameters() if it.requires_grad), lr=1e-2)
    for step in range(STEPS):
        row = rows[step % len(rows)]
        inputs = {name: value[None] for name, value in row.tokens.items()}
        vision = {
            name: value.to(held.model.dtype) if value.is_floating_point() else value
            for name, value in row.vision.items()
        }
        model(**inputs, **vision, labels=row.labels[None]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save_pretrained(str(folder))
    return folder


def rates(report, controller):
    """How often a controller is right where 0 is wanted, and where 1 is, by operation."""
    found = {}
    for result in report.operations:
        line = result.line(controller)
        assert not line.failed, line
        found[result.operation] = tuple(line.measures[f"right_of_{it}"].mean for it in (0, 1))
    return found


def missed(rate):
    """The class that is less often right."""
    assert rate[0] != rate[1]
    return int(rate[1] < rate[0])


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A folder with a base, an exported adapter on it, and the class that it learnt by operation."""
    from tests.controllers.backends.tiny_qwen3_vl import write_checkpoint
    from training.demonstrations.store import DemonstrationSet

    folder = tmp_path_factory.mktemp("served")
    base = write_checkpoint(folder / "base", dtype="bfloat16")
    path = write_set(folder / "set", groups=5, operations=OPERATIONS)
    report = run(path, [f"transformers:{base}"], folder / "before", split="train")
    learnt = {name: missed(it) for name, it in rates(report, "transformers/base").items()}
    rows = [
        it
        for it in DemonstrationSet.open(path).read()
        if int(bool(it.value)) == learnt[it.operation]
    ]
    finished = write_run(folder / "run", base, adapter=train(base, rows, folder / "learnt"))
    export(finished, folder / "out", merge=True, model=str(base))
    return folder, learnt


def test_accuracy_on_the_server_is_that_in_this_process(exported, monkeypatch):
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    folder, learnt = exported
    base, out = folder / "base", folder / "out"
    specs = [f"{kind}:{base}+{out / 'adapter'}" for kind in ("transformers", "vllm")]
    specs += [f"transformers:{out / 'merged'}", f"vllm:{out / 'merged'}", f"vllm:{base}"]
    report = run(folder / "set", specs, folder / "report", split="test", deadline_s=600.0)
    names = [it.name for it in report.controllers[:5]]
    local, *served, untrained = (rates(report, name) for name in names)
    assert served == [local] * 3, dict(zip(names, served, strict=False))
    for operation, which in learnt.items():
        assert local[operation][which] == 1.0
        assert untrained[operation][which] < 1.0
