"""A real vLLM server with a tiny random model and two adapters; run by `make test-vllm`.

What the model says is noise. That every reply has the form asked for, and that each role speaks through
its own adapter, is not.
"""

from __future__ import annotations

import io
import json
import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from controllers.backends.openai import OpenAIBackend
from controllers.backends.specs import load_vllm
from controllers.prompts import OPERATIONS
from controllers.prompts.message import Message, Prompt, Text
from epimem.config import TreeConfig
from epimem.errors import ControllerError
from epimem.protocols import Picture
from tests.controllers.prompts import samples

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(3000)]
ENVIRONMENT = {
    "EPIMEM_VLLM_ARGS": (
        "--dtype bfloat16 --enforce-eager --max-num-seqs 4 --max-num-batched-tokens 8192 "
        """--limit-mm-per-prompt '{"image":12,"video":0}'"""
    ),
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_HOST_IP": "127.0.0.1",
}
MEMORY = ("derive", "update", "gate")


@pytest.fixture(scope="module")
def controllers(tmp_path_factory):
    from tests.controllers.backends.tiny_qwen3_vl import write_adapters, write_checkpoint

    folder = tmp_path_factory.mktemp("models")
    base = write_checkpoint(folder / "base")
    adapters = write_adapters(base, folder)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        pair = load_vllm(
            memory_controller=f"{base}+{adapters['memory']}",
            tree_organizer=f"{base}+{adapters['organizer']}",
            settings=TreeConfig(),
            deadline_s=600.0,
        )
    yield pair
    for controller in pair:
        controller.close()


@pytest.fixture
def server(controllers):
    return controllers[0]._backend._vllm


def png(colour):
    file = io.BytesIO()
    Image.new("RGB", (96, 64), colour).save(file, "PNG")
    return file.getvalue()


def with_pictures(request):
    """Return a request whose pages can be looked at."""
    if not hasattr(request, "pages"):
        return request
    data = [png("red"), png("blue")]
    pages = tuple(
        Picture(f"image-{number}", 96, 64, number, read=lambda _, it=it: it)
        for number, it in enumerate(data, 1)
    )
    return replace(request, pages=pages)


def test_both_roles_share_one_server(controllers):
    first, second = (controller._backend for controller in controllers)
    assert first._vllm is second._vllm
    assert first.name == "vllm/base+memory"
    assert second.name == "vllm/base+organizer"


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_answered_in_the_form_asked_for(controllers, name):
    controller = controllers[name not in MEMORY]
    request = with_pictures(getattr(samples, name)("Kite Research"))
    (reply,) = getattr(controller, name)([request])
    assert controller._backend.constrained
    assert reply.usage.tokens_in > 0
    assert reply.usage.tokens_out > 0
    # What noise says may be unlawful, but not out of form, unless its length ended it.
    asked = OPERATIONS[name].render(request)
    (completion,) = controller._backend.complete([asked])
    assert not completion.error
    if not completion.truncated:
        said = json.loads(completion.text)
        assert set(asked.schema["required"]) <= set(said) <= set(asked.schema["properties"])
        assert reply.reason != "not_json", reply


def free(text="Say what you see."):
    return Prompt("free", (Message("user", (Text(text),)),), {}, max_tokens=24)


def test_each_role_speaks_through_its_own_adapter(controllers, server):
    base = OpenAIBackend(server.chat, "base")
    said = [it.complete([free()])[0] for it in (*(c._backend for c in controllers), base)]
    assert not any(completion.error for completion in said)
    assert len({completion.text for completion in said}) == 3
    again = controllers[0]._backend.complete([free()])[0]
    assert again.text == said[0].text


def test_a_prompt_longer_than_the_context_is_said_to_be_so(controllers):
    (completion,) = controllers[0]._backend.complete([free("long " * 40_000)])
    assert completion.error == "the prompt is longer than the model takes"


def test_a_batch_is_in_flight_together_and_comes_in_order(controllers):
    asked = [free(f"Number {number}") for number in range(12)]
    backend = controllers[0]._backend
    together = [completion.text for completion in backend.complete(asked)]
    assert all(together)
    assert len(set(together)) > 1


def test_nothing_is_left_of_the_server_after_it_is_closed(controllers, server):
    """Runs last: it stops the server."""
    group, log = server.pid, server.log
    assert group_of(group)
    controllers[0].close()
    assert server.pid == group, "the other role still needs it"
    controllers[1].close()
    assert server.pid is None
    assert wait_for(lambda: not group_of(group)), group_of(group)
    assert not log.exists()
    with pytest.raises(ControllerError, match="stopped"):
        controllers[0].gate([samples.gate()])
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def group_of(group):
    """Return the processes of a group that have not ended."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                # After the name in brackets: state, parent, group.
                state, _, owner = (folder / "stat").read_text().rpartition(")")[2].split()[:3]
                if int(owner) == group and state != "Z":
                    found.append(int(folder.name))
    return found


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.1)
    return condition()
