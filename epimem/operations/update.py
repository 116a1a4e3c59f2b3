"""Update: revise question-level memory by a joint proposal of text, region, gate and stop.

An update that is refused leaves the memory as it was, to the byte. The memory never holds an image that
the question does not have; the crop is cut by code from the region that was accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from epimem.operations.base import name, refusal
from epimem.schema.proposal import Reason, Rejection
from epimem.schema.working_memory import Update, VisualEvidence, WorkingMemory

VisualMode = Literal["none", "frozen", "evolving"]


def apply(
    memory: WorkingMemory,
    proposal: Update,
    *,
    pages: Mapping[str, tuple[int, int]],
    visual: VisualMode,
) -> WorkingMemory | Rejection:
    """Return the revised memory, or why the proposal is refused. Without evidence the gate is shut.

    Args:
        memory: as it is.
        proposal: what the controller wants.
        pages: (width, height) in pixels by image id, of the question's pages.
        visual: "none" keeps text only; "frozen" lets evidence be set once; "evolving" lets it be
            replaced and removed.
    """
    evidence = _evidence(memory, proposal, pages, visual)
    if isinstance(evidence, Rejection):
        return evidence
    if not (proposal.guidance or proposal.cautions or evidence or proposal.stop):
        return _refused(proposal, "schema", "an empty memory, and no stop")
    return WorkingMemory(
        guidance=proposal.guidance,
        applies_when=proposal.applies_when,
        cautions=proposal.cautions,
        evidence=evidence,
        gate=proposal.gate if evidence is not None else 0,
        stop=proposal.stop,
    )


def _evidence(
    memory: WorkingMemory,
    proposal: Update,
    pages: Mapping[str, tuple[int, int]],
    visual: VisualMode,
) -> VisualEvidence | Rejection | None:
    if (proposal.visual == "replace") != (proposal.evidence is not None):
        return _refused(proposal, "schema", "evidence goes with visual `replace`, and only with it")
    if visual == "none":
        return None
    if proposal.visual == "retain" or (visual == "frozen" and memory.evidence is not None):
        return memory.evidence
    if proposal.evidence is None:
        return None
    return _check_region(proposal, proposal.evidence, pages) or proposal.evidence


def _check_region(
    proposal: Update, evidence: VisualEvidence, pages: Mapping[str, tuple[int, int]]
) -> Rejection | None:
    size = pages.get(evidence.image_id)
    if size is None:
        shown = name(evidence.image_id)
        return _refused(proposal, "not_shown", f"not an image of the question: {shown}")
    if (evidence.region.width, evidence.region.height) != size:
        return _refused(proposal, "image", "the region was made for an image of another size")
    return None


def _refused(proposal: Update, reason: Reason, detail: str) -> Rejection:
    return refusal("update", reason, detail, proposal=proposal.plain())
