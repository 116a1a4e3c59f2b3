"""The Agent Trajectory Interchange Format, version 1.8, as records.

Source: the public ATIF v1.8 field list; the package `atif` is used in tests as an oracle only.
Text in here is run text: evidence, kept as given (see `epimem.schema.text`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from epimem.schema.base import Record, StrictBool, StrictFloat, StrictInt
from epimem.schema.text import RunText

ImageMediaType = Literal["image/jpeg", "image/png", "image/gif", "image/webp"]
AudioMediaType = Literal[
    "audio/wav",
    "audio/mpeg",
    "audio/mp4",
    "audio/aac",
    "audio/ogg",
    "audio/flac",
    "audio/webm",
    "audio/aiff",
]
_AUDIO_ALIASES = {
    "audio/mp3": "audio/mpeg",
    "audio/mpga": "audio/mpeg",
    "audio/x-mpeg": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-m4a": "audio/mp4",
    "audio/m4a": "audio/mp4",
    "audio/x-aac": "audio/aac",
    "audio/x-flac": "audio/flac",
    "audio/x-aiff": "audio/aiff",
}


class ImageSource(Record):
    """A picture stored beside the trajectory; in a stored run `path` is `sha256:<blob>`."""

    media_type: ImageMediaType
    path: str


class AudioSource(Record):
    """A recording stored beside the trajectory, `duration_sec` seconds long."""

    media_type: AudioMediaType
    path: str
    duration_sec: StrictFloat | StrictInt | None = Field(default=None, ge=0)

    @field_validator("media_type", mode="before")
    @classmethod
    def _known_name(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        name = value.strip().lower()
        return _AUDIO_ALIASES.get(name, name)


class ContentPart(Record):
    """One part of a message: text, an image or audio."""

    type: Literal["text", "image", "audio"]
    text: RunText | None = None
    source: ImageSource | AudioSource | None = None

    @model_validator(mode="after")
    def _one_payload(self) -> Self:
        if (self.type == "text") != (self.text is not None):
            raise ValueError("a text part has `text`, any other part has none")
        is_image = isinstance(self.source, ImageSource)
        is_audio = isinstance(self.source, AudioSource)
        if (self.type == "image") != is_image or (self.type == "audio") != is_audio:
            raise ValueError("an image or audio part has `source` of its kind, a text part none")
        return self


class ToolCall(Record):
    """One call of a tool."""

    tool_call_id: str
    function_name: str
    arguments: dict[str, Any]
    extra: dict[str, Any] | None = None


class SubagentRef(Record):
    """A pointer to a trajectory of a delegated agent."""

    trajectory_id: str | None = None
    session_id: str | None = None
    trajectory_path: str | None = None
    extra: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _resolvable(self) -> Self:
        if self.trajectory_id is None and self.trajectory_path is None:
            raise ValueError("a reference needs `trajectory_id` or `trajectory_path`")
        return self


class ObservationResult(Record):
    """What one call or event returned."""

    source_call_id: str | None = None
    content: RunText | tuple[ContentPart, ...] | None = None
    subagent_trajectory_ref: tuple[SubagentRef, ...] | None = None
    extra: dict[str, Any] | None = None


class Observation(Record):
    """What came back after a step."""

    results: tuple[ObservationResult, ...]


class Metrics(Record):
    """Token and cost figures of one step; `prompt_tokens` includes `cached_tokens`."""

    prompt_tokens: StrictInt | None = None
    completion_tokens: StrictInt | None = None
    cached_tokens: StrictInt | None = None
    cost_usd: StrictFloat | StrictInt | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    completion_token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    extra: dict[str, Any] | None = None


class FinalMetrics(Record):
    """Totals of a trajectory."""

    total_prompt_tokens: StrictInt | None = None
    total_completion_tokens: StrictInt | None = None
    total_cached_tokens: StrictInt | None = None
    total_cost_usd: StrictFloat | StrictInt | None = None
    total_steps: StrictInt | None = None
    extra: dict[str, Any] | None = None


class AgentInfo(Record):
    """The agent system that made a trajectory."""

    name: str
    version: str
    model_name: str | None = None
    tool_definitions: tuple[dict[str, Any], ...] | None = None
    extra: dict[str, Any] | None = None


class Step(Record):
    """One turn, `step_id` counting from 1.

    Tool calls, metrics and reasoning belong to agent steps; `llm_call_count` 0 says that no model
    made the step.
    """

    step_id: StrictInt = Field(ge=1)
    source: Literal["system", "user", "agent"]
    message: RunText | tuple[ContentPart, ...]
    timestamp: str | None = None
    model_name: str | None = None
    reasoning_effort: str | StrictFloat | None = None
    reasoning_content: RunText | None = None
    tool_calls: tuple[ToolCall, ...] | None = None
    observation: Observation | None = None
    metrics: Metrics | None = None
    llm_call_count: StrictInt | None = Field(default=None, ge=0)
    is_copied_context: StrictBool | None = None
    extra: dict[str, Any] | None = None

    @field_validator("timestamp")
    @classmethod
    def _iso_time(cls, value: str | None) -> str | None:
        if value is not None:
            datetime.fromisoformat(value)
        return value

    @model_validator(mode="after")
    def _agent_only(self) -> Self:
        agent_only = (
            self.model_name,
            self.reasoning_effort,
            self.reasoning_content,
            self.tool_calls,
            self.metrics,
        )
        if self.source != "agent" and any(value is not None for value in agent_only):
            raise ValueError("model, reasoning, tool calls and metrics belong to agent steps only")
        by_model = self.metrics is not None or self.reasoning_content is not None
        if self.source == "agent" and self.llm_call_count == 0 and by_model:
            raise ValueError("a step without a model call has neither metrics nor reasoning")
        return self

    @model_validator(mode="after")
    def _observed_calls(self) -> Self:
        if self.observation and self.tool_calls is not None:
            known = {call.tool_call_id for call in self.tool_calls} | {None}
            if any(result.source_call_id not in known for result in self.observation.results):
                raise ValueError("an observation names a tool call that is not in its step")
        return self

    @property
    def parts(self) -> Iterator[ContentPart]:
        """All content parts of the message and of its observations, in order."""
        results = self.observation.results if self.observation else ()
        for content in (self.message, *(result.content for result in results)):
            if isinstance(content, tuple):
                yield from content

    @property
    def text(self) -> str:
        """The text of the message and of its observations, parts joined by newlines."""
        pieces = [_content_text(self.message)]
        if self.observation:
            pieces += [_content_text(result.content) for result in self.observation.results]
        return "\n".join(piece for piece in pieces if piece)


class Trajectory(Record):
    """An ATIF document: the chain of one agent, with embedded chains of its sub-agents."""

    schema_version: str
    agent: AgentInfo
    steps: tuple[Step, ...]
    session_id: str | None = None
    trajectory_id: str | None = None
    notes: str | None = None
    final_metrics: FinalMetrics | None = None
    continued_trajectory_ref: str | None = None
    extra: dict[str, Any] | None = None
    subagent_trajectories: tuple[Trajectory, ...] | None = None

    @field_validator("schema_version")
    @classmethod
    def _known_version(cls, value: str) -> str:
        if not value.startswith("ATIF-v1."):
            raise ValueError("schema_version must be ATIF-v1.x")
        return value

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if [step.step_id for step in self.steps] != list(range(1, len(self.steps) + 1)):
            raise ValueError("step_id must count 1, 2, 3, ... in order")
        names = [sub.trajectory_id for sub in self.subagent_trajectories or ()]
        if None in names or len(set(names)) != len(names):
            raise ValueError("embedded trajectories need distinct trajectory_id values")
        return self

    def walk(self) -> tuple[Trajectory, ...]:
        """Return this trajectory and all embedded ones, depth first."""
        found: list[Trajectory] = []
        stack = [self]
        while stack:
            item = stack.pop()
            found.append(item)
            stack.extend(reversed(item.subagent_trajectories or ()))
        return tuple(found)


def _content_text(content: str | tuple[ContentPart, ...] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(part.text for part in content if part.text is not None)
