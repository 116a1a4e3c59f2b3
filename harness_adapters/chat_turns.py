"""The messages of one chat conversation as the steps of one or several chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from epimem.errors import ImageError, RecordError
from epimem.schema import strict_json
from epimem.schema.atif import (
    AgentInfo,
    ContentPart,
    Observation,
    ObservationResult,
    Step,
    ToolCall,
    Trajectory,
)
from epimem.schema.run import Actor
from harness_adapters.documents import Foreign
from harness_adapters.importer import FieldTally, split_sealed
from harness_adapters.pictures import Pictures, from_data_url

Content = str | tuple[ContentPart, ...]
MAIN = ""
_TEXT_TYPES = frozenset({"text", "input_text", "output_text", "refusal"})
_IMAGE_TYPES = frozenset({"image_url", "input_image"})


class Function(Foreign):
    """The function of a tool call; `arguments` is a JSON object, written as text or plain."""

    name: str
    arguments: str | dict[str, Any] = ""


class Call(Foreign):
    """One tool call of an assistant message."""

    id: str | None = None
    type: str | None = None
    function: Function | None = None
    custom: dict[str, Any] | None = None


class Message(Foreign):
    """One message; `function` and `function_call` are the older form of `tool`."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: Any = None
    name: str | None = None
    tool_calls: tuple[Call, ...] | None = None
    tool_call_id: str | None = None
    function_call: Function | None = None
    reasoning_content: str | None = None
    refusal: str | None = None

    @property
    def by_model(self) -> bool:
        """Whether it holds what only a model writes."""
        return bool(self.tool_calls or self.function_call or self.reasoning_content or self.refusal)


class Chains:
    """Turns messages into steps, chain by chain, under one running `seq`."""

    def __init__(self, messages: Sequence[Message], pictures: Pictures, tally: FieldTally) -> None:
        self._pictures = pictures
        self._tally = tally
        names = [message.name for message in messages if message.role == "assistant"]
        speakers = list(dict.fromkeys(name for name in names if name))
        self._speakers = speakers if len(speakers) > 1 else []
        self._only = speakers[0] if len(speakers) == 1 else ""
        self._steps: dict[str, list[Step]] = {MAIN: [], **{name: [] for name in self._speakers}}
        # Calls that a result may still answer in time, and all calls: (chain, place of the step).
        self._open: dict[str, tuple[str, int]] = {}
        self._made: dict[str, tuple[str, int]] = {}
        self._seq = 0
        self.calls = 0
        self.sealed: dict[str, Any] = {}
        self.question = ""
        self.question_parts: tuple[ContentPart, ...] = ()
        self.answer = ""
        for number, message in enumerate(messages):
            self._take(number, message)

    def actors(self) -> list[dict[str, Any]]:
        """Return the actors of the envelope, the main chain's first."""
        main = Actor(id=self._only or ("main" if self._speakers else "assistant"), traj=MAIN)
        named = [Actor(id=name, traj=name) for name in self._speakers]
        return [actor.plain() for actor in (main, *named)]

    def trajectory(
        self,
        *,
        name: str,
        model: str | None,
        tools: tuple[dict[str, Any], ...] | None,
        extra: dict[str, Any],
    ) -> Trajectory:
        """Return all chains as one document; `name` names the agent where no message does."""
        agent = AgentInfo(
            name=self._only or name, version="unknown", model_name=model, tool_definitions=tools
        )
        subs = tuple(
            Trajectory(
                schema_version="ATIF-v1.8",
                trajectory_id=speaker,
                agent=AgentInfo(name=speaker, version="unknown", model_name=model),
                steps=tuple(self._steps[speaker]),
            )
            for speaker in self._speakers
        )
        return Trajectory(
            schema_version="ATIF-v1.8",
            agent=agent,
            steps=tuple(self._steps[MAIN]),
            subagent_trajectories=subs or None,
            extra=extra,
        )

    def _take(self, number: int, message: Message) -> None:
        if message.role != "assistant" and message.by_model:
            raise RecordError("only an assistant calls tools or reasons", field="messages")
        extra = self._extra(number, message)
        content = self._content(message.content)
        if message.role in {"tool", "function"}:
            self._result(message, content, extra)
        elif message.role == "assistant":
            self._agent(number, message, content, extra)
        else:
            source: Literal["user", "system"] = "user" if message.role == "user" else "system"
            self._add(MAIN, Step(step_id=1, source=source, message=content, extra=extra))
            self._open = {}
            if source == "user" and not self.question and not self.question_parts:
                self.question = content if isinstance(content, str) else _text(content)
                self.question_parts = () if isinstance(content, str) else content

    def _extra(self, number: int, message: Message) -> dict[str, Any]:
        """Return what is kept of a message beside its content: role, name, unknown fields.

        What may be a reference or a score among the unknown fields is sealed.
        """
        visible, sealed = split_sealed(message.model_extra or {})
        self.sealed |= {f"messages.{number}.{path}": value for path, value in sealed.items()}
        for key in sorted(message.model_fields_set):
            self._tally.count(f"messages[].{key}", "extra" if key in visible else "mapped")
        extra: dict[str, Any] = {"role": message.role}
        if message.name:
            extra["name"] = message.name
        if visible:
            extra["native"] = visible
        return extra

    def _agent(
        self, number: int, message: Message, content: Content, extra: dict[str, Any]
    ) -> None:
        chain = message.name if message.name in self._steps and message.name else MAIN
        calls = self._calls(number, message)
        if message.refusal:
            extra = {**extra, "refusal": message.refusal}
        step = Step(
            step_id=1,
            source="agent",
            message=content or message.refusal or "",
            reasoning_content=message.reasoning_content,
            tool_calls=calls or None,
            extra=extra,
        )
        self._add(chain, step)
        self.calls += 1
        self._open = {call.tool_call_id: (chain, len(self._steps[chain]) - 1) for call in calls}
        self._made |= self._open
        said = content if isinstance(content, str) else _text(content)
        if said.strip():
            self.answer = said

    def _result(self, message: Message, content: Content, extra: dict[str, Any]) -> None:
        call_id = message.tool_call_id or self._called_by_name(message.name)
        result = ObservationResult(source_call_id=call_id, content=content, extra=extra)
        if call_id in self._open:
            chain, place = self._open[call_id]
            step = self._steps[chain][place]
            earlier = step.observation.results if step.observation else ()
            seen = Observation(results=(*earlier, result))
            self._steps[chain][place] = step.model_copy(update={"observation": seen})
            return
        known = call_id in self._made
        detail = "after another message" if known else "for a call that is not there"
        self._tally.note("late_tool_result" if known else "orphan_tool_result", detail)
        chain, _ = self._made.get(call_id or "", (MAIN, 0))
        seen = Observation(results=(result,))
        self._add(chain, Step(step_id=1, source="system", message="", observation=seen))

    def _called_by_name(self, name: str | None) -> str | None:
        """Return the open call of a function in the older form, whose results carry no id."""
        for call_id, (chain, place) in self._open.items():
            calls = self._steps[chain][place].tool_calls or ()
            if any((call.tool_call_id, call.function_name) == (call_id, name) for call in calls):
                return call_id
        return None

    def _add(self, chain: str, step: Step) -> None:
        steps = self._steps[chain]
        extra = {**(step.extra or {}), "epimem": {"seq": self._seq}}
        steps.append(step.model_copy(update={"step_id": len(steps) + 1, "extra": extra}))
        self._seq += 1

    def _calls(self, number: int, message: Message) -> tuple[ToolCall, ...]:
        calls = [
            self._call(call, call.id or f"call-{number}-{place}")
            for place, call in enumerate(message.tool_calls or ())
        ]
        if message.function_call is not None:
            older = Call(function=message.function_call)
            calls.append(self._call(older, f"call-{number}"))
        return tuple(calls)

    def _call(self, call: Call, call_id: str) -> ToolCall:
        extra = dict(call.model_extra or {})
        if call.function is None:
            custom = call.custom or {}
            name, arguments = str(custom.get("name", call.type or "")), dict(custom)
            arguments.pop("name", None)
        else:
            name, arguments = call.function.name, self._arguments(call.function)
            extra |= call.function.model_extra or {}
        return ToolCall(
            tool_call_id=call_id, function_name=name, arguments=arguments, extra=extra or None
        )

    def _arguments(self, function: Function) -> dict[str, Any]:
        if isinstance(function.arguments, dict):
            return function.arguments
        try:
            value = strict_json.loads(function.arguments or "{}")
        except RecordError:
            value = None
        if isinstance(value, dict):
            return value
        self._tally.note("arguments_kept_as_text", "tool arguments are not a JSON object")
        return {"text": function.arguments}

    def _content(self, content: Any) -> Content:
        if content is None or isinstance(content, str):
            return content or ""
        parts = content if isinstance(content, list) else [content]
        return tuple(self._part(part) for part in parts)

    def _part(self, part: Any) -> ContentPart:
        if isinstance(part, str):
            return ContentPart(type="text", text=part)
        if not isinstance(part, dict):
            raise RecordError("a content part is an object or a text", field="messages.content")
        kind = str(part.get("type", "text"))
        for key in sorted(set(part) - {"type", "text", "refusal", "image_url"}):
            self._tally.count(f"messages[].content[].{key}", "native_only")
        text = part.get("refusal" if kind == "refusal" else "text")
        if kind in _TEXT_TYPES and isinstance(text, str):
            self._tally.count(f"messages[].content[{kind}]", "mapped")
            return ContentPart(type="text", text=text)
        if kind in _IMAGE_TYPES:
            return self._image(part.get("image_url"), kind)
        self._tally.count(f"messages[].content[{kind[:40]}]", "native_only")
        self._tally.note("unsupported_part", f"content part {kind[:40]!r}")
        return ContentPart(type="text", text=f"[content part not imported: {kind[:40]}]")

    def _image(self, image: Any, kind: str) -> ContentPart:
        url = image
        if isinstance(image, dict):
            url = image.get("url")
            for key in sorted(set(image) - {"url"}):
                self._tally.count(f"messages[].content[].image_url.{key}", "native_only")
        if not isinstance(url, str):
            raise RecordError("an image part needs `image_url`", field="messages.content")
        inline = url[:5].lower() == "data:"
        try:
            data, declared = from_data_url(url)
            part = self._pictures.part(data, "data URL", declared)
        except ImageError as error:
            self._tally.count(f"messages[].content[{kind}]", "native_only")
            return self._pictures.placeholder(error, "" if inline else url)
        self._tally.count(f"messages[].content[{kind}]", "mapped")
        return part


def _text(parts: Sequence[ContentPart]) -> str:
    return "\n".join(part.text for part in parts if part.text is not None)
