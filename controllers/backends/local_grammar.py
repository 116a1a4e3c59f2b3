"""Holding a local model to a JSON schema: at each token, what would break the schema is ruled out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from controllers.backends.local_packages import package

# Schemas differ by the aliases shown, so there is no end of them (ours).
CACHE_BYTES = 64 * 2**20


class Grammars:
    """Compiles schemas for one tokenizer, and keeps the compiled ones up to `CACHE_BYTES`.

    `vocabulary` is the number of scores the model gives, which is more than the tokenizer has where the
    output layer is padded. The order of properties is that of the schema, no whitespace is left to the
    model's choice, and texts have no bound but the room for the reply (`without_lengths`).
    """

    def __init__(self, tokenizer: Any, vocabulary: int, stops: Sequence[int]) -> None:
        xgrammar = package("xgrammar")
        about = xgrammar.TokenizerInfo.from_huggingface(
            tokenizer, vocab_size=vocabulary, stop_token_ids=list(stops)
        )
        self._compiler = xgrammar.GrammarCompiler(about, cache_limit_bytes=CACHE_BYTES)

    def compiled(self, schema: Mapping[str, Any]) -> Any:
        """Return the compiled grammar of a schema; raises RuntimeError where there can be none."""
        text = json.dumps(without_lengths(schema), ensure_ascii=False)
        return self._compiler.compile_json_schema(text, any_whitespace=False)

    def processor(self, schemas: Sequence[Mapping[str, Any]]) -> Any:
        """Return what rules tokens out, for one call of `generate` with one row per schema."""
        grammars = [self.compiled(schema) for schema in schemas]
        return package("xgrammar.contrib.hf").LogitsProcessor(grammars)


def without_lengths(schema: Any) -> Any:
    """Return a schema whose texts have no least or greatest length.

    In xgrammar (0.2.8) a text with a length can hold no escape, so no quotation mark and no line break,
    but does hold raw control characters, which JSON does not allow. And it is dear: a schema with six
    such texts takes 10 to 60 s to compile for a vocabulary of 150,000, and 0.04 s without lengths.
    """
    if isinstance(schema, Mapping):
        lengths = ("minLength", "maxLength") if schema.get("type") == "string" else ()
        return {name: without_lengths(part) for name, part in schema.items() if name not in lengths}
    if isinstance(schema, list):
        return [without_lengths(part) for part in schema]
    return schema
