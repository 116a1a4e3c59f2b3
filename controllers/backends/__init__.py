"""Backends: what turns a prompt into a model's reply. See `base` for the protocol.

base -> openai, scripted, transformers        one prompt in, one completion out
        openai <- vllm                        a local server of our own
specs                                         entry points: spec strings to controllers
fake_server                                   a chat server that misbehaves on request, for tests
"""
