"""Holding a local model to a JSON schema: at each token, what would break the schema is ruled out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from controllers.backends.held_schema import held
from controllers.backends.local_packages import package

# Schemas differ by the aliases shown, so there is no end of them (ours).
CACHE_BYTES = 64 * 2**20
SEPARATORS = (",", ":")
"""What stands between the items of a reply, and between name and value."""


class Grammars:
    """Compiles schemas for one tokenizer, and keeps the compiled ones up to `CACHE_BYTES`.

    `vocabulary` is the number of scores the model gives, which is more than the tokenizer has where the
    output layer is padded. The order of properties is that of the schema, no whitespace is left to the
    model's choice, and texts have no bound but the room for the reply. Their lengths are left out: they
    are not held rightly (`held_schema`), and dear: for a vocabulary of 150,000 a schema with six
    of them takes 10 to 60 s to compile, and 0.1 s without.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, stops: Sequence[int]) -> None:
        xgrammar = package("xgrammar")
        about = xgrammar.TokenizerInfo.from_huggingface(
            tokenizer, vocab_size=vocabulary, stop_token_ids=list(stops)
        )
        self._compiler = xgrammar.GrammarCompiler(about, cache_limit_bytes=CACHE_BYTES)

    def compiled(self, schema: Mapping[str, Any]) -> Any:
        """Return the compiled grammar of a schema; raises RuntimeError where there can be none."""
        text = json.dumps(held(schema), ensure_ascii=False)
        # Without spaces, as vLLM has it where white space is not left to the model.
        return self._compiler.compile_json_schema(text, any_whitespace=False, separators=SEPARATORS)

    def processor(self, schemas: Sequence[Mapping[str, Any]]) -> Any:
        """Return what rules tokens out, for one call of `generate` with one row per schema."""
        grammars = [self.compiled(schema) for schema in schemas]
        return package("xgrammar.contrib.hf").LogitsProcessor(grammars)
