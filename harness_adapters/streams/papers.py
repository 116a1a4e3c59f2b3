"""The streams that EvoChamber was measured on, built from public data sets by their hub ids.

    hard-math   MATH, levels 4 and 5: 262; AIME 2022 to 2025: 30 each                     382 tasks
    hard-code   MBPP: 257; CodeContests: 165; HumanEval, which the tables leave out: 164  586 tasks
    aflow       GSM8K, MATH, HotpotQA, HumanEval, MBPP, DROP: 100 each, in this order     600 tasks

Which 262 problems of MATH and which 100 of each AFlow domain were taken is not said, and AFlow's own
files could not be had: ours are drawn by seed. The 257 of "MBPP+" are as many as the test split of
MBPP sanitized has, and are taken from there. Domains come in blocks, as in the paper's default order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from epimem.errors import NotFoundError, PluginError, RecordError
from harness_adapters.streams import gsm8k
from harness_adapters.streams.sampling import sampled
from harness_adapters.streams.task import StreamTask

Rows = Iterable[Mapping[str, Any]]
Load = Callable[[str, str | None, str], Rows]
"""Loads a data set: its hub id, its configuration, its split."""

COUNTS: Mapping[str, Mapping[str, int]] = {
    "hard-math": {"math_hard": 262, "aime22": 30, "aime23": 30, "aime24": 30, "aime25": 30},
    "hard-code": {"mbpp": 257, "codecontests": 165, "humaneval": 164},
    "aflow": dict.fromkeys(("gsm8k", "math", "hotpotqa", "humaneval", "mbpp", "drop"), 100),
}
SUBJECTS = (
    "algebra",
    "counting_and_probability",
    "geometry",
    "intermediate_algebra",
    "number_theory",
    "prealgebra",
    "precalculus",
)
BOX = "\n\nPut the final answer into \\boxed{}."
FENCE = "\n\nAnswer with one Python program in a fence of three backticks."


def tasks(stream: str, seed: int, load: Load | None = None) -> Iterator[StreamTask]:
    """Yield the tasks of a stream, domain by domain.

    Args:
        stream: "hard-math", "hard-code" or "aflow".
        seed: for what is drawn.
        load: loads a data set; from the hub where None.

    Raises:
        PluginError: the package datasets is not installed.
        NotFoundError: a data set cannot be loaded.
        RecordError: a domain has fewer tasks than the paper took, or other columns than it had.
    """
    load = load or from_hub
    for niche, count in COUNTS[stream].items():
        found = _built(niche, load)
        if len(found) < count:
            raise RecordError(
                f"{niche} has fewer tasks than the stream takes", got=len(found), limit=count
            )
        chosen = sampled(found, count, seed, niche) if len(found) > count else found
        yield from (task.model_copy(update={"niche": niche}) for task in chosen)


def _built(niche: str, load: Load) -> list[StreamTask]:
    try:
        return DOMAINS[niche](load)
    except (KeyError, TypeError, IndexError) as error:
        raise RecordError(
            f"the data set of {niche} has other columns than it had", got=str(error)
        ) from error


def from_hub(name: str, config: str | None, split: str) -> Rows:
    """Yield the rows of a data set of the hub; streamed, so that no other split is loaded.

    Raises:
        PluginError: the package datasets is not installed.
        NotFoundError: there is no such data set, or no way to it.
    """
    try:
        import datasets
    except ImportError as error:
        raise PluginError(
            "the package datasets is not installed", hint="pip install 'epimem[streams]'"
        ) from error
    try:
        yield from datasets.load_dataset(name, config, split=split, streaming=True)
    # The library lets through what its network, its files and the hub's answers raise.
    except Exception as error:
        raise NotFoundError(
            f"the data set cannot be loaded: {type(error).__name__}",
            field=name,
            hint="check the network and the address of the hub",
        ) from error


def _math(load: Load, least: int) -> list[StreamTask]:
    """Return the problems of MATH's test split from a level on."""
    return [
        StreamTask(
            task_id=f"math-{subject}-{number}",
            niche="math",
            question=row["problem"] + BOX,
            checker="math",
            reference=row["solution"],
        )
        for subject in SUBJECTS
        for number, row in enumerate(load("EleutherAI/hendrycks_math", subject, "test"))
        if _level(row["level"]) >= least
    ]


def _level(text: str) -> int:
    """Return the level in "Level 5"; 0 where there is none ("Level ?")."""
    return int("".join(filter(str.isdigit, text)) or 0)


def _aime(year: int) -> Callable[[Load], list[StreamTask]]:
    def rows(load: Load) -> Rows:
        if year == 2025:
            return load("math-ai/aime25", None, "test")
        every = load("AI-MO/aimo-validation-aime", None, "train")
        return [row for row in every if f"{year}_AIME" in row["url"]]

    def made(load: Load) -> list[StreamTask]:
        return [
            StreamTask(
                task_id=f"aime{year}-{number}",
                niche="aime",
                question=row["problem"] + BOX,
                checker="number",
                reference=str(row["answer"]),
            )
            for number, row in enumerate(rows(load), 1)
        ]

    return made


def _mbpp(load: Load) -> list[StreamTask]:
    return [
        StreamTask(
            task_id=f"mbpp-{row['task_id']}",
            niche="mbpp",
            # One test is shown, as in the set's own paper: it names the function.
            question=f"{row['prompt']}\n\nIt has to pass: {row['test_list'][0]}{FENCE}",
            checker="code",
            reference={
                "setup": "\n".join(row["test_imports"]),
                "tests": [{"kind": "statement", "text": text} for text in row["test_list"]],
            },
        )
        for row in load("google-research-datasets/mbpp", "sanitized", "test")
    ]


def _codecontests(load: Load) -> list[StreamTask]:
    return [
        StreamTask(
            task_id=f"codecontests-{number}",
            niche="codecontests",
            question=row["description"] + FENCE,
            checker="code",
            reference={"tests": _pairs(row, ("public_tests", "private_tests"))},
        )
        for number, row in enumerate(load("deepmind/code_contests", None, "test"))
    ]


def _pairs(row: Mapping[str, Any], names: Sequence[str]) -> list[dict[str, str]]:
    return [
        {"kind": "output", "text": given, "output": wanted}
        for name in names
        for given, wanted in zip(row[name]["input"], row[name]["output"], strict=True)
    ]


def _humaneval(load: Load) -> list[StreamTask]:
    return [
        StreamTask(
            task_id=row["task_id"].replace("/", "-").lower(),
            niche="humaneval",
            question=f"Complete this function, with its imports:\n\n{row['prompt']}{FENCE}",
            checker="code",
            reference={
                # What stands before the function: imports and helpers that a reply may leave out.
                "setup": row["prompt"].partition(f"def {row['entry_point']}")[0],
                "tests": [
                    {"kind": "statement", "text": f"{row['test']}\ncheck({row['entry_point']})"}
                ],
            },
        )
        for row in load("openai/openai_humaneval", None, "test")
    ]


def _gsm8k(load: Load) -> list[StreamTask]:
    rows = load("openai/gsm8k", "main", "test")
    return [
        gsm8k.task(f"gsm8k-{number}", row["question"], row["answer"])
        for number, row in enumerate(rows)
    ]


def _hotpotqa(load: Load) -> list[StreamTask]:
    return [
        StreamTask(
            task_id=f"hotpotqa-{row['id']}",
            niche="hotpotqa",
            question=f"{_paragraphs(row['context'])}\n\n{row['question']}",
            checker="f1",
            reference=row["answer"],
        )
        for row in load("hotpotqa/hotpot_qa", "distractor", "validation")
    ]


def _paragraphs(context: Mapping[str, Any]) -> str:
    parts = zip(context["title"], context["sentences"], strict=True)
    return "\n\n".join(f"{title}: {''.join(sentences)}" for title, sentences in parts)


def _drop(load: Load) -> list[StreamTask]:
    return [
        StreamTask(
            task_id=f"drop-{re.sub(r'[^0-9A-Za-z-]', '-', row['query_id'])}",
            niche="drop",
            question=f"{row['passage']}\n\n{row['question']}",
            checker="f1",
            reference=list(dict.fromkeys(row["answers_spans"]["spans"])),
        )
        for row in load("ucinlp/drop", None, "validation")
    ]


DOMAINS: Mapping[str, Callable[[Load], list[StreamTask]]] = {
    "math_hard": lambda load: _math(load, 4),
    "aime22": _aime(2022),
    "aime23": _aime(2023),
    "aime24": _aime(2024),
    "aime25": _aime(2025),
    "mbpp": _mbpp,
    "codecontests": _codecontests,
    "humaneval": _humaneval,
    "gsm8k": _gsm8k,
    "math": lambda load: _math(load, 1),
    "hotpotqa": _hotpotqa,
    "drop": _drop,
}
