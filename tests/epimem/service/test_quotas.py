"""What one contributor may write, by the minute and in all."""

from __future__ import annotations

import httpx2
import pytest

from epimem.errors import AccessError
from epimem.service.quotas import MINUTE_S, Quota, Quotas
from harness_adapters.client import Client
from tests.cli_program import QUESTION, lesson
from tests.service_process import grant, serving


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def none():
    return 0


def test_so_many_writes_a_minute_and_then_no_more_until_they_are_a_minute_old():
    clock = Clock()
    quotas = Quotas(clock)
    for _ in range(3):
        quotas.spend("a", Quota(3, 0), none)
        clock.now += 10
    with pytest.raises(AccessError) as caught:
        quotas.spend("a", Quota(3, 0), none)
    assert (caught.value.code, caught.value.limit, caught.value.retry) == (
        "quota_exceeded",
        3,
        True,
    )
    quotas.spend("b", Quota(3, 0), none)
    clock.now = MINUTE_S + 0.1
    quotas.spend("a", Quota(3, 0), none)
    with pytest.raises(AccessError):
        quotas.spend("a", Quota(3, 0), none)


def test_a_refused_write_is_not_counted_and_zero_is_no_bound():
    quotas = Quotas(Clock())
    for _ in range(5):
        with pytest.raises(AccessError, match="lessons that stand"):
            quotas.spend("a", Quota(2, 7), lambda: 7)
    quotas.spend("a", Quota(2, 7), lambda: 6)
    for _ in range(1000):
        quotas.spend("b", Quota(0, 0), none)


def test_a_server_holds_a_contributor_to_its_quota_whatever_the_token(make_bank, tmp_path):
    bank = make_bank()
    shared = {"contributor": "busy", "writes_per_minute": 3}
    tokens = [grant(bank, name, "read", "contribute", **shared) for name in ("one", "two")]
    with serving(bank, log=tmp_path / "log") as server:
        clients = [
            httpx2.Client(base_url=server.url, headers={"authorization": f"Bearer {token}"})
            for token in tokens
        ]
        answers = [
            clients[n % 2].post("/v1/contribute", json={"item": lesson(300 + n)}) for n in range(5)
        ]
        assert [each.status_code for each in answers] == [200, 200, 200, 429, 429]
        assert answers[-1].json()["error"]["code"] == "quota_exceeded"
        assert answers[-1].headers["retry-after"]
        asked = clients[0].post("/v1/retrieve", json={"question": QUESTION})
        assert asked.status_code == 200
        for client in clients:
            client.close()


def test_lessons_that_wait_for_review_count_as_well(make_bank, tmp_path):
    bank = make_bank()
    token = grant(bank, "one", "contribute", organisation="elsewhere", lessons=2)
    with serving(bank, log=tmp_path / "log") as server, Client.http(server.url, token) as client:
        for number in range(2):
            assert client.contribute(lesson(400 + number)).status == "quarantined"
        with pytest.raises(AccessError, match="lessons that stand"):
            client.contribute(lesson(402))
