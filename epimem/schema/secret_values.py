"""Values and words: what stands beside the name of a secret, and what merely looks drawn at random."""

from __future__ import annotations

import re

Match = re.Match[str]


def drawn(match: Match) -> bool:
    """Tell whether a token holds a digit or letters of both cases; else it is a word."""
    value = match.group()
    return any(map(str.isdecimal, value)) or not (value.islower() or value.isupper())


def drawn_token(match: Match) -> bool:
    """Tell whether what follows a common beginning is no chain of words and numbers."""
    return not chain_of_words(match.group())


def chain_of_words(value: str) -> bool:
    """Tell whether a value is nothing but words and short numbers, joined by signs or humps."""
    return all(_word(part) for part in re.split(r"[\W_]+", value) if part)


def _word(part: str) -> bool:
    if part.isdecimal():
        return len(part) <= 4
    if part.isalpha():
        return part.islower() or part.isupper() or _mean_of_humps(part) >= 3
    # A name with numbers in it: `Ed25519PrivateKey`. What is drawn at random has shorter humps.
    return part[0].isalpha() and not part.islower() and _mean_of_humps(part) >= 3.5


def _mean_of_humps(part: str) -> float:
    humps = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+|.", part)
    return len(part) / max(1, len(humps))


LABELS = (
    *("password", "passwd", "passphrase", "passcode", "pwd", "_pass", "_pw", "secret", "token"),
    *("api_key", "api-key", "apikey", "api key", "access_key", "access-key", "accesskey"),
    *("auth_key", "account_key", "accountkey", "private_key", "private-key", "privatekey"),
    *("signing_key", "encryption_key", "master_key", "service_key", "routing_key", "sdk_key"),
    *("integration_key", "license_key", "client_key", "credential", "_dsn", "geniekey"),
)
ANY_LABEL = "|".join(re.escape(label) for label in sorted(LABELS, key=len, reverse=True))
_KEY_NAME = re.compile(rf"(?i)[\w. -]{{0,40}}?(?:{ANY_LABEL}|auth|pin)s?[\w-]{{0,12}}")
_OF_PASSWORD = re.compile(r"(?i)pass|pwd|_pw|pin\b")
_PLACEHOLDER = re.compile(
    r"(?i)[<$%{\[(*#].*|\.{2,}.*|x{3,}.*|your[-_ ].*|(?:none|null|true|false|undefined|string|str|bytes"
    r"|pwd|passwd|pass|required|optional|changeme|example|redacted|hidden|secret|password|token|empty|bearer|basic)\W*"
)
_CODE = re.compile(r"[A-Za-z_][\w.]*[(\[{<].*|(?:https?|file)://.*|[~.]{0,2}/[\w./-]*")
_DOTTED_NAME = re.compile(r"[A-Za-z_]\w{0,23}(?:\.[A-Za-z_]\w{0,23})+")
_NUMBERS = re.compile(r"[\d.,:+/%eE-]+|\d{4}-\d\d-\d\d[T ][\d:.Z+-]*")
_SENTENCE_END = ".,;:!?)]}>"


def named_secret(name: str, value: str) -> bool:
    """Tell whether a field of this name holds a secret: `password`, `x-api-key`, `GITHUB_TOKEN`."""
    fits = len(name) <= 64 and 4 <= len(value) <= 512 and re.search(r"\s", value) is None
    return fits and _KEY_NAME.fullmatch(name) is not None and _value_counts(name, value)


def named_value(match: Match) -> bool:
    """Tell whether the value beside a name counts as a secret."""
    return _value_counts(match.string[match.start() : match.start("secret")], match["secret"])


def _value_counts(label: str, value: str) -> bool:
    """Tell whether a value that stands beside the name of a secret is one, not a word or code."""
    value = value.rstrip(_SENTENCE_END)
    if placeholder(value) or _CODE.fullmatch(value):
        return False
    if _OF_PASSWORD.search(label):
        return len(value) >= 6 and (value.isdecimal() or not _plain(value))
    if len(value) < 10 or not any(map(str.isdecimal, value)) or _DOTTED_NAME.fullmatch(value):
        return False
    return not (_plain(value) or chain_of_words(value))


def placeholder(value: str) -> bool:
    """Tell whether a value stands for one: `<token>`, `${KEY}`, `None`, `xxxx`."""
    return _PLACEHOLDER.fullmatch(value) is not None


def _plain(value: str) -> bool:
    """Tell whether a value is a number, a time, a word, or words joined by signs."""
    if _NUMBERS.fullmatch(value) or value.isalpha():
        return True
    # One word with a number at its end may be a password; several are an identifier.
    return re.fullmatch(r"[\w.:/-]*[\W_][\w.:/-]*", value) is not None and chain_of_words(value)


def spoken_value(match: Match) -> bool:
    """The password is ...: quoted, or with a digit or sign in it; "the password is wrong" is none."""
    value = match["secret"].rstrip(_SENTENCE_END)
    if placeholder(value) or len(value) < 4:
        return False
    return match["quote"] is not None or re.fullmatch(r"[A-Za-z'\u2019-]+", value) is None


def credential(match: Match) -> bool:
    """Tell whether a credential is more than a word, a placeholder or a piece of code."""
    value = match["secret"].rstrip(_SENTENCE_END)
    return not (placeholder(value) or value.isalpha() or _CODE.fullmatch(value) or "{" in value)


def no_template(match: Match) -> bool:
    """Tell whether no part of a match is still to be filled in."""
    return "{" not in match.group()
