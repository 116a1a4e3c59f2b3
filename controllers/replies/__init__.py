"""Reading what models reply: leniently in form, never in content.

    reading ── objects ── lenient     an object in prose, fences, think blocks; spellings near JSON
       │          └────── thinking
       ├───────── echoes              copied from the prompt: no answer
       ├───────── refusals            "I'm sorry, ...": no answer
       ├───────── sections            the second protocol, for models that cannot do JSON
       └───────── shape ── names      field names and types as the schema has them
    asking_again                      the one re-ask

A repair may only do what any person would read; none may add a value (see `lenient`).
"""
