"""Every number and choice of the method, where it comes from, and the two profiles.

`paper` does what the documents say, taken literally where they say it. `default` departs from it in the
fields of `PAPER`; DECISIONS.md gives the reason of each.
"""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from pydantic import Field

from epimem.errors import ConfigError
from epimem.schema.base import Record, StrictFloat, StrictInt

Structure = Literal["voting", "debate", "generator-critic", "decompose"]
STRUCTURES: tuple[Structure, ...] = get_args(Structure)
Profile = Literal["default", "paper"]
Part = Literal["selector", "structures", "codream", "lifecycle"]
PARTS: tuple[Part, ...] = get_args(Part)


class Settings(Record):
    """The settings of a pool. Table 9 of the paper unless a field says otherwise.

    Attributes:
        agents: N, how many identical agents a pool begins with.
        team: k, members of a team.
        alpha: of the moving average of competence, q <- (1 - alpha) q + alpha r.
        period: tau, tasks between two ticks of the lifecycle.
        theta: rewards below it fire CODREAM; a second attempt has to reach it.
        by_competence, by_synergy, by_distance: lambda_q, lambda_sigma, lambda_omega of the complement.
        by_exposure, by_novelty: lambda_u, lambda_d of the scout.
        synergy_from: tasks of a niche that a pair shares before its synergy counts (appendix E.1).
        synergy: "mean" of the rewards of these tasks (appendix E.1) or "ewma" (as the main text has q).
        fire_on: "team": the reward of the team (main text); "members": the mean of the members' own
            marks where those are known (the case study counts "0/3").
        when_all_fail: "abstain" (appendix I), "run" (the case study did), or "quarantine": run, and keep
            the insight where nobody reads it (ours).
        median: "literal": over the pool; "seen": over the agents that met the niche, and who did not
            has a deficit (ours: among mostly zeros nobody is below the median).
        most_recipients: of one insight; None for no bound (ours).
        same: cosine from which on two insights are one (ours).
        recalled: k, insights shown of a private archive (ours).
        led: k, entries shown to the leader (ours).
        debate_rounds: after the first answers (ours).
        fork_share: top share by rolling reward.
        fork_after: times that an agent was anchor since its last fork before it forks again (ours).
        most_agents: bound of the pool, as a multiple of `agents`; None for none (ours).
        merge_above: cosine of competence.
        merge_from: tasks that both have.
        merge_niches: niches that both met (ours: with one niche every cosine is 1).
        prune_below: share of the pool's mean rolling reward.
        prune_after: tasks in a row, of those it took part in.
        seed_below: pool size below which an agent is added.
        seed_affinity: best competence in a niche below which an agent is added.
        window: W, rewards that the rolling mean takes (figure 3).
        without: parts that are switched off, for ablations.
        transfer: "asymmetric": to agents below the median; "symmetric": to all (a control).
        solve_tokens, dream_tokens: most tokens of a solution and of a phase (appendix E.2).
    """

    profile: Profile = "default"
    agents: StrictInt = Field(default=20, ge=1, le=10_000)
    team: StrictInt = Field(default=3, ge=1, le=16)
    alpha: StrictFloat = Field(default=0.3, gt=0, le=1)
    period: StrictInt = Field(default=10, ge=1)
    theta: StrictFloat = Field(default=0.6, ge=0, le=1)
    by_competence: StrictFloat = 1.0
    by_synergy: StrictFloat = 0.3
    by_distance: StrictFloat = 0.5
    by_exposure: StrictFloat = 0.3
    by_novelty: StrictFloat = 0.5
    synergy_from: StrictInt = Field(default=5, ge=1)
    synergy: Literal["mean", "ewma"] = "mean"
    fire_on: Literal["team", "members"] = "members"
    when_all_fail: Literal["abstain", "run", "quarantine"] = "abstain"
    median: Literal["literal", "seen"] = "seen"
    most_recipients: StrictInt | None = Field(default=5, ge=1)
    same: StrictFloat = Field(default=0.9, gt=0, le=1)
    recalled: StrictInt = Field(default=3, ge=0, le=32)
    led: StrictInt = Field(default=3, ge=0, le=32)
    debate_rounds: StrictInt = Field(default=1, ge=1, le=8)
    fork_share: StrictFloat = Field(default=0.1, gt=0, le=1)
    fork_after: StrictInt = Field(default=3, ge=0)
    most_agents: StrictInt | None = Field(default=2, ge=1)
    merge_above: StrictFloat = Field(default=0.95, gt=0, le=1)
    merge_from: StrictInt = Field(default=10, ge=1)
    merge_niches: StrictInt = Field(default=2, ge=1)
    prune_below: StrictFloat = Field(default=0.8, ge=0, le=1)
    prune_after: StrictInt = Field(default=10, ge=1)
    seed_below: StrictInt = Field(default=15, ge=0)
    seed_affinity: StrictFloat = Field(default=0.4, ge=0, le=1)
    window: StrictInt = Field(default=32, ge=1)
    without: tuple[Part, ...] = ()
    transfer: Literal["asymmetric", "symmetric"] = "asymmetric"
    solve_tokens: StrictInt = Field(default=4096, ge=1)
    dream_tokens: StrictInt = Field(default=2048, ge=1)

    def has(self, part: Part) -> bool:
        """Whether a part is switched on."""
        return part not in self.without


PAPER: Final[dict[str, Any]] = {
    "fire_on": "team",
    "median": "literal",
    "most_recipients": None,
    "fork_after": 0,
    "most_agents": None,
    "merge_niches": 1,
}
"""What the profile `paper` has in place of the defaults: the fields in which those depart from it."""


def settings_of(profile: Profile = "default", **changes: Any) -> Settings:
    """Return the settings of a profile with some changes.

    Raises:
        ConfigError: no such profile.
        RecordError: `invalid_field`, no such setting, or a value out of range.
    """
    if profile not in get_args(Profile):
        raise ConfigError("unknown profile", field="profile", got=profile, hint="default or paper")
    base = PAPER if profile == "paper" else {}
    return Settings.read({"profile": profile, **base, **changes})
