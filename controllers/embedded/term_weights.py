"""Class-based term weights: what a group of texts is about, against the other groups.

Source: c-TF-IDF (Grootendorst 2022, "BERTopic"): W(t, c) = tf(t, c) * log(1 + A / f(t)), where
tf(t, c) is the count of term t in class c, f(t) its count over all classes and A the mean number
of words per class.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from controllers.embedded.fitting import fitted
from controllers.embedded.words import content_words
from epimem.schema.text import TITLE_BYTES
from epimem.schema.tree import Node

TITLE_TERMS = 4
_WORD = re.compile(r"[^\W\d_]+")


def class_weights(classes: Sequence[str]) -> list[dict[str, float]]:
    """Return the weight of every term in every class, classes given as their joined texts."""
    counts = [Counter(content_words(text)) for text in classes]
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    mean = sum(total.values()) / len(counts) if counts else 0.0
    return [
        {term: seen * math.log(1 + mean / total[term]) for term, seen in count.items()}
        for count in counts
    ]


def class_titles(classes: Sequence[str]) -> list[str]:
    """Return a title per class: its heaviest terms, in the form its text has them in first."""
    return [
        _title(text, weights) for text, weights in zip(classes, class_weights(classes), strict=True)
    ]


def node_text(node: Node) -> str:
    """Return the text by which a node is named: title, index text, guidance and conditions."""
    parts = [node.title, node.index.text, node.guidance, node.applies_when]
    if node.lesson is not None:
        lesson = node.lesson
        parts += [lesson.title, lesson.guidance, lesson.applies_when]
        if not node.index.text:
            parts.append(lesson.index.text)
    return "\n".join(part for part in parts if part)


def term_vectors(texts: Sequence[str]) -> NDArray[np.float32]:
    """Return unit rows of term weights, shape (len(texts), number of terms), each text a class.

    Used where nodes have no index vectors; a text without words gets a zero row.
    """
    weights = class_weights(texts)
    terms = {term: at for at, term in enumerate(sorted({term for row in weights for term in row}))}
    matrix = np.zeros((len(texts), max(1, len(terms))), dtype=np.float32)
    for row, weight in enumerate(weights):
        for term, value in weight.items():
            matrix[row, terms[term]] = value
    norms = np.linalg.norm(matrix, axis=1, keepdims=True)
    scaled: NDArray[np.float32] = np.divide(matrix, norms, out=matrix, where=norms > 0)
    return scaled


def _title(text: str, weights: dict[str, float]) -> str:
    first = {term: at for at, term in reversed(list(enumerate(content_words(text))))}
    best = sorted(weights, key=lambda term: (-round(weights[term], 9), first[term]))[:TITLE_TERMS]
    forms: dict[str, str] = {}
    for match in _WORD.finditer(text):
        for root in content_words(match.group()):
            forms.setdefault(root, match.group())
    shown = dict.fromkeys(forms.get(term, term) for term in best)
    return fitted(", ".join(shown), TITLE_BYTES)
