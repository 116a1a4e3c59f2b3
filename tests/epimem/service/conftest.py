from __future__ import annotations

import pytest

from epimem.config import Config, EncoderConfig
from epimem.memory import ExperienceMemory
from tests.cli_program import lesson
from tests.image_files import encoded, picture
from tests.service_process import grant, illustrated, serving


@pytest.fixture(scope="module")
def make_bank(tmp_path_factory):
    """Make a bank with three illustrated lessons in each namespace."""

    def make(*namespaces: str):
        path = tmp_path_factory.mktemp("served") / "bank"
        config = Config(encoder=EncoderConfig(model="none"), gate="always")
        with ExperienceMemory.create(path, config) as memory:
            for number, space in enumerate(namespaces or ("default",)):
                png = encoded(picture(64 + number, 48), "PNG")
                illustrated(memory, png, *(lesson(n) for n in range(3)), namespace=space)
        return path

    return make


@pytest.fixture(scope="module")
def server(make_bank, tmp_path_factory):
    """A server of a small bank, with a token that may do everything."""
    bank = make_bank()
    token = grant(bank, "all", "read", "contribute", "maintain", "admin")
    with serving(bank, log=tmp_path_factory.mktemp("log") / "server.log") as running:
        running.tokens["all"] = token
        yield running
