"""Lets a model from nothing learn to see before it learns to work: where the key of a drawn page stands.

Under the product's prompts a picture is one token of sixteen, and a model of random weights never found
out that it matters (benchmarks/RESULTS.md, "Training"). Published bases have seen millions of pictures
before they are fine-tuned; this is the small counterpart: one page, one short question, the box.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path

from benchmarks.training.vision_data import PIXELS, WORLD, small
from controllers.backends.local_base import Base
from controllers.backends.local_grammar import SEPARATORS
from controllers.backends.local_packages import package
from controllers.prompts.message import Image, Message, Prompt, Text
from training.sft.rows import Row, RowMaker, collate
from training.worlds import WORLDS
from training.worlds.house import draw_house
from training.worlds.page import Page

QUESTION = "Where is the key?"
ROWS, RATE, WARMUP, KEYED = 16, 2e-3, 50, 0.75
SEED = 2000
"""Added to the seed: these houses are not those of the demonstrations."""


def learn_to_see(
    folder: Path, steps: int, *, seed: int, tell: Callable[[str], None], rows: int = ROWS
) -> None:
    """Train the checkpoint of a folder on new pages and write its weights back.

    Args:
        folder: as `vision_model.write` leaves it.
        steps: of AdamW, each on pages that come once.
        seed: of the pages.
        tell: told the loss every 50 steps.
        rows: pages a step.
    """
    torch = package("torch")
    base = Base(str(folder))
    maker = RowMaker(base.processor, base.markers)
    model = base.model.float().train()
    model.requires_grad_(True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    lost = 0.0
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = RATE * min(1, (step + 1) / WARMUP) * _cosine(step / steps)
        pages = [drawn(seed, step * rows + at) for at in range(rows)]
        loss = model(**collate([_row(maker, page) for page in pages], maker.pad)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        lost += float(loss.detach())
        if step % 50 == 49:
            tell(f"step {step + 1} of {steps}: loss {lost / 50:.4f}")
            lost = 0.0
    model.save_pretrained(folder)


def drawn(seed: int, number: int) -> Page:
    """Return a page of a house of its own."""
    world, chance = WORLDS[WORLD], random.Random(f"{SEED + seed}/{number}")
    house = draw_house(world.name, number, world.topics, seed=SEED + seed)
    topic = chance.choice(world.topics)
    want = chance.choice(list(topic.options))
    return world.new_page(house, topic, chance, want=want, with_key=chance.random() < KEYED)


def _row(maker: RowMaker, page: Page) -> Row:
    asked = Message("user", (Image(small(page.picture), "P1"), Text(QUESTION)))
    prompt = Prompt("update", (asked,), schema={}, max_tokens=60, max_pixels=PIXELS)
    box = list(page.key.to_scaled()) if page.key is not None else None
    return maker.of(prompt, json.dumps({"box": box}, separators=SEPARATORS), page.image_id)


def _cosine(done: float) -> float:
    """Return the share of the rate after a share of the steps."""
    return 0.5 * (1 + math.cos(math.pi * done))
