"""Well-formed fakes of 72 kinds of secrets, made when a test runs, and harmless look-alikes.

No literal secret stands here: prefixes are joined from pieces, the rest is drawn.
"""

from __future__ import annotations

import base64
import json
import random
import string
import uuid
from collections.abc import Callable
from dataclasses import dataclass

LETTERS = string.ascii_letters
ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
LOWER = string.ascii_lowercase + string.digits
HEX = "0123456789abcdef"
URLSAFE = ALNUM + "-_"
_WORD_LIST = (
    "abandon ability absent across acid actor adapt admit agent album alert almost apple arrow autumn"
    " balance bamboo beach bitter bridge bronze camera canyon cargo cement circle clever copper cotton"
    " dolphin dragon eagle echo elbow engine fabric falcon garden ginger harvest hidden island jungle"
    " kitten ladder lemon magnet marble nephew ocean orbit palace pepper quantum ribbon river salmon"
)
WORDS = _WORD_LIST.split()
FRAME = "PRIVATE KEY-----"
PEOPLE = ("marlowe", "okafor", "lindqvist", "tanaka", "beaumont", "ferreira")


@dataclass(frozen=True)
class Planted:
    """A text that holds a secret, and the parts of which none may be left."""

    text: str
    secrets: tuple[str, ...]


def _drawn(rng: random.Random, alphabet: str, length: int) -> str:
    """Draw letters of which some are digits: without one a token is a word."""
    while True:
        value = "".join(rng.choice(alphabet) for _ in range(length))
        if any(c in string.digits for c in value) and any(c in LETTERS for c in value):
            return value


def _password(rng: random.Random) -> str:
    return rng.choice(WORDS).capitalize() + str(rng.randrange(10, 9999)) + rng.choice("!#%*?")


Make = Callable[[random.Random], Planted]
KINDS: dict[str, Make] = {}


def _kind(name: str) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        KINDS[name] = make
        return make

    return add


def _token(name: str, *pieces: str, tail: tuple[str, int], end: str = "") -> None:
    """Add a kind whose fakes are a beginning, drawn characters and an end."""

    def make(rng: random.Random) -> Planted:
        value = "".join(pieces) + _drawn(rng, *tail) + end
        return Planted(
            rng.choice(("use {}", "{}", "key={}", "the key is {} here")).format(value), (value,)
        )

    KINDS[name] = make


def _around(name: str, around: str, alphabet: str, length: int) -> None:
    """Add a kind whose fakes are known by the words around them only."""

    def make(rng: random.Random) -> Planted:
        value = _drawn(rng, alphabet, length)
        return Planted(around.format(value), (value,))

    KINDS[name] = make


_token("01 cloud access key id", "AK", "IA", tail=(UPPER, 16))
_around("02 cloud secret key", "aws_secret_access_key = {}", ALNUM + "/+", 40)
_token("03 cloud session token", "IQoJb3", "JpZ2lu", tail=(ALNUM + "/+", 200), end="==")
_token("04b cloud API key", "AI", "za", tail=(URLSAFE, 35))
_around("06 signed URL", "https://b.s3.example/k?X-Amz-Expires=60&X-Amz-Signature={}", HEX, 64)
_around(
    "06b shared access signature", "https://a.blob.example/c?sv=2024-11-04&sig={}%3D", ALNUM, 43
)
_token("07 code host, classic", "gh", "p_", tail=(ALNUM, 36))
_token("08 code host, fine-grained", "github", "_pat_", tail=(ALNUM, 82))
_token("09 code host, app", "gh", "s_", tail=(ALNUM, 36))
_token("09b another code host", "gl", "pat-", tail=(URLSAFE[:-2], 20))
_token("11 package registry", "np", "m_", tail=(ALNUM, 36))
_token("11b package registry", "py", "pi-", "AgEIcHlwaS5vcmc", tail=(URLSAFE, 120))
_around("12 container registry", '{{"auths": {{"r.example": {{"auth": "{}"}}}}}}', ALNUM, 32)
_token("13 chat bot", "xo", "xb-", "12345678901-", tail=(ALNUM, 24))
_token("13b chat bot", "123456789", ":A", "A", tail=(URLSAFE[:-2], 33))
_around(
    "14 chat webhook", "https://hooks.slack" + ".com/services/T0AAAAAAA/B0BBBBBBB/{}", ALNUM, 24
)
_around(
    "14b chat webhook", "https://discord" + ".com/api/webhooks/123456789012345678/{}", ALNUM, 60
)
_token("16 payment", "sk", "_live_", tail=(ALNUM, 24))
_token("17 payment webhook", "wh", "sec_", tail=(ALNUM, 32))
_around("18 mail", "S" + "G.abcdefghij1234567890AB.{}", ALNUM, 43)
_token("19 SMS", "S", "K", tail=(HEX, 32))
_token("21 model vendor, first", "sk", "-ant-", "api03-", tail=(URLSAFE[:-2], 90))
_token("21b model vendor, second", "sk", "-proj-", tail=(ALNUM, 60))
_token("21c model vendor, third", "h", "f_", tail=(ALNUM, 34))
_token("21d model vendor, old", "s", "k-", tail=(ALNUM, 48))
_token("22 memory vendor, first", "m", "0-", tail=(ALNUM, 40))
_token("22b memory vendor, second", "sk", "-let-", tail=(ALNUM, 60))
_token("22c memory vendor, ours", "ep", "m_", tail=(ALNUM, 43))
_token("23 vector database", "pc", "sk_", tail=(ALNUM, 60))
_token("27 paging", "pd", "us+_0XBPWQQ_", tail=(ALNUM, 24))
_token("28 OAuth client secret", "GOC", "SPX-", tail=(ALNUM, 28))
_token("29 OAuth refresh token", "1/", "/0g", tail=(URLSAFE[:-2], 60))
_around("32 session cookie", "Cookie: theme=dark; sessionid={}", LOWER, 32)
_around("32b set cookie", "Set-Cookie: sid={}; HttpOnly; Path=/", ALNUM, 40)
_around("33 Authorization Bearer", "Authorization: Bearer {}", ALNUM, 40)
_around("36 PostgreSQL URL", "postgres" + "ql://app:{}@db.example:5432/main", ALNUM, 14)
_around("37 Redis URL", "redis" + "://:{}@cache.example:6379/0", ALNUM, 20)
_around("38 Mongo URL", "mongodb" + "+srv://root:{}@c0.example/?retryWrites=true", ALNUM, 16)
_token("43 age key", "AGE-SECRET", "-KEY-1", tail=(UPPER, 58))
_token("43b minisign key", "RWRT", "Y0Iy", tail=(ALNUM + "+/", 200))
_token("46 vault", "hv", "s.", tail=(ALNUM, 24))
_around("47 export", "export SERVICE_API_KEY={}", ALNUM, 32)
_around(
    "51 TOTP",
    "otpauth" + "://totp/Host:me?secret={}&issuer=Host",
    string.ascii_uppercase + "234567",
    32,
)


def _one_of(name: str, template: str, value: Callable[[random.Random], str]) -> None:
    def make(rng: random.Random) -> Planted:
        made = value(rng)
        return Planted(template.format(made), (made,))

    KINDS[name] = make


_one_of("48 prose", "For the archive the password is {}.", _password)
_one_of("49 shell history", "mysql -u root -p{} shop", _password)
_one_of("49b shell history", "curl -u deploy:{} https://repo.example/x", _password)


@_kind("04 service account")
def _service_account(rng: random.Random) -> Planted:
    body = _drawn(rng, ALNUM + "+/", 90)
    key = "\n".join((f"-----BEGIN {FRAME}", body[:64], body[64:], f"-----END {FRAME}", ""))
    text = json.dumps({"type": "service_account", "private_key": key})
    return Planted(text, (body[:64], body[64:]))


def _uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


_one_of("24 feature flags", "client = connect('sd" + "k-{}')", _uuid)
_one_of(
    "26 error tracker",
    "dsn https://{}@o450.ingest.example/451",
    lambda rng: _drawn(rng, HEX, 32),
)


def _part(data: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(data).encode()).decode().rstrip("=")


@_kind("31 JWT without signature")
def _jwt(rng: random.Random) -> Planted:
    value = _part({"alg": "HS256"}) + "." + _part({"sub": rng.randrange(10**9), "r": rng.random()})
    return Planted(f"token {value}.", (value,))


@_kind("34 Authorization Basic")
def _basic(rng: random.Random) -> Planted:
    value = base64.b64encode(f"{rng.choice(PEOPLE)}:{_password(rng)}".encode()).decode()
    return Planted(f'headers={{"Authorization": "Basic {value}"}}', (value,))


def _pem(name: str, label: str) -> None:
    def make(rng: random.Random) -> Planted:
        lines = [_drawn(rng, ALNUM + "+/", 60) for _ in range(2)]
        frame = f"{label} {FRAME}"
        text = "\n".join((f"-----BEGIN {frame}", *lines, f"-----END {frame}"))
        return Planted(text, tuple(lines))

    KINDS[name] = make


_pem("39 SSH key, old", "RSA")
_pem("39b SSH key, new", "OPENSSH")
_pem("41 TLS key", "EC")


@_kind("42 PKCS12 in base64")
def _pkcs12(rng: random.Random) -> Planted:
    head = bytes((0x30, 0x82, 9, rng.randrange(256), 2, 1, 3, 0x30, 0x82, 9, 1))
    value = base64.b64encode(head + rng.randbytes(120)).decode()
    return Planted(f"keystore {value}", (value.rstrip("="),))


@_kind("44 wallet seed")
def _seed(rng: random.Random) -> Planted:
    value = " ".join(rng.choice(WORDS) for _ in range(12))
    return Planted(
        f"{rng.choice(('seed phrase', 'Mnemonic', 'Recovery phrase'))}: {value}", (value,)
    )


@_kind("52 e-mail")
def _mail(rng: random.Random) -> Planted:
    host = f"{rng.choice(WORDS)}.{rng.choice(('com', 'org', 'co.uk', 'de'))}"
    value = f"{rng.choice(PEOPLE)}.{rng.choice(WORDS)}@{host}"
    return Planted(f"Ask {value} about it.", (value,))


def _phone(name: str, form: str) -> None:
    def make(rng: random.Random) -> Planted:
        value = "".join(str(rng.randrange(2, 10)) if c == "#" else c for c in form)
        return Planted(rng.choice(("Call {}.", "reach me at {}", "{}")).format(value), (value,))

    KINDS[name] = make


_phone("53 phone, American", "(4##) 5##-####")
_phone("53b phone, British", "+44 20 #### ####")
_phone("53c phone, French", "01 ## ## ## ##")
_phone("53d phone, German", "+49 30 ######")
_phone("53e phone, Japanese", "090-####-####")


def _check_digits(country: str, account: str) -> str:
    number = int("".join(str(int(c, 36)) for c in account + country + "00"))
    return f"{98 - number % 97:02d}"


@_kind("54 IBAN")
def _iban(rng: random.Random) -> Planted:
    account = "".join(str(rng.randrange(10)) for _ in range(18))
    value = "DE" + _check_digits("DE", account) + account
    if rng.random() < 0.5:
        value = " ".join(value[place : place + 4] for place in range(0, len(value), 4))
    return Planted(f"Pay to {value} today", (value,))


@_kind("57 national id, American")
def _american(rng: random.Random) -> Planted:
    value = f"{rng.randrange(100, 600)}-{rng.randrange(10, 99)}-{rng.randrange(1000, 9999)}"
    return Planted(f"his number is {value}", (value,))


@_kind("57b national id, Spanish")
def _spanish(rng: random.Random) -> Planted:
    number = rng.randrange(10**7, 10**8)
    value = f"{number}{'TRWAGMYFPDXBNJZSQVHLCKE'[number % 23]}"
    return Planted(f"DNI {value}", (value,))


@_kind("57c national id, Chinese")
def _chinese(rng: random.Random) -> Planted:
    born = f"{rng.randrange(1950, 2010)}{rng.randrange(10, 13)}{rng.randrange(10, 28)}"
    digits = f"110101{born}{rng.randrange(100, 999)}"
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    total = sum(int(d) * w for d, w in zip(digits, weights, strict=True))
    value = digits + "10X98765432"[total % 11]
    return Planted(f"card of the resident {value}", (value,))


@_kind("58 passport line")
def _passport(rng: random.Random) -> Planted:
    surname = rng.choice(PEOPLE).upper()
    first = f"P<UTO{surname}<<{rng.choice(WORDS).upper()}".ljust(44, "<")
    second = (
        f"{_drawn(rng, UPPER, 9)}4UTO740812{rng.randrange(10)}F320415{rng.randrange(10)}".ljust(
            42, "<"
        )
        + "06"
    )
    return Planted(f"{first}\n{second}", (surname, second))


@_kind("59 internal address")
def _address(rng: random.Random) -> Planted:
    value = (
        f"{rng.choice(('10.12', '192.168', '172.20'))}.{rng.randrange(256)}.{rng.randrange(1, 255)}"
    )
    return Planted(f"listening on {value}:8080", (value,))


@_kind("59b IPv6")
def _ipv6(rng: random.Random) -> Planted:
    value = rng.choice(("fd12:3456:789a::{:x}", "2001:db8:85a3::8a2e:{:x}", "fe80::{:x}")).format(
        rng.randrange(1, 65536)
    )
    return Planted(f"ping {value} failed", (value,))


@_kind("61 home path")
def _home(rng: random.Random) -> Planted:
    person = rng.choice(PEOPLE) + str(rng.randrange(10, 99))
    form = rng.choice(("/home/{}/src/a.py", "/Users/{}/src/a.py", "C:\\Users\\{}\\src\\a.py"))
    return Planted(f"in {form.format(person)} line 3", (person,))


@_kind("62 split by a newline")
def _split(rng: random.Random) -> Planted:
    value = "gh" + "p_" + _drawn(rng, ALNUM, 36)
    place = rng.randrange(8, 34)
    return Planted(f"it is {value[:place]}\n{value[place:]} now", (value[:place], value[place:]))


@_kind("63 with zero-width characters")
def _invisible(rng: random.Random) -> Planted:
    # A joiner may follow a digit in a lesson too; other invisible characters are refused there.
    value = "gh" + "p_" + _drawn(rng, ALNUM, 18) + "7\u200d" + _drawn(rng, ALNUM, 17)
    return Planted(f"it is {value}", (value, value.replace("\u200d", "")))


@_kind("64 in base64")
def _encoded(rng: random.Random) -> Planted:
    value = base64.b64encode(("gh" + "p_" + _drawn(rng, ALNUM, 36)).encode()).decode()
    return Planted(f"decode {value}", (value.rstrip("="),))


# -- harmless ------------------------------------------------------------------------------------------

Benign = Callable[[random.Random], str]


def _luhn_broken(rng: random.Random) -> str:
    digits = [4, *(rng.randrange(10) for _ in range(14))]
    total = sum(d if place % 2 else d * 2 - 9 * (d > 4) for place, d in enumerate(digits))
    digits.append((11 - total % 10) % 10)
    value = "".join(map(str, digits))
    return " ".join(value[place : place + 4] for place in range(0, 16, 4))


STATIONS = ("Nordhafen", "St. Pancras", "Châtelet", "Rubra Cross", "Gare de l'Est", "Shin-Ōsaka")
CODE = (
    "!function(e,t){for(var n=0;n<e.length;n++)t(e[n],n)}([1,2,3],function(e){console.log(e)});",
    "const t=(e,n)=>e.reduce((e,t)=>e+t[n],0);export{t as s};",
    "x = a[1::2] + b[::-1]; y = x @ self.weight.T",
    "std::vector<int> v; dead::beef(v); add::c(d);",
    "def f(token: str, *, max_tokens: int = 4096) -> Optional[str]: ...",
    'api_key = os.environ["API_KEY"]; client = Client(api_key=api_key)',
    "password = getpass.getpass('Password: ')",
    "tokens_in: 1532, tokens_out: 210, cached: 0",
    "secret = hmac.new(key, message, hashlib.sha256).hexdigest()",
    "git clone git@github.com:epimem/epimem.git && git checkout v1.2.3",
    "pip install numpy==2.1.0 torch==2.13.0+cpu; npm i left-pad@1.3.0",
    "@app.route('/users/<int:user_id>/home/index.html')",
    "tokenizer.pad_token = '<|endoftext|>'; eos_token_id: 151643",
    'raise ValueError("password must have 8 characters")',
    "for i in range(10): print(f'{i:02d} {i*i:4d} {2**i:8d}')",
    "https://en.wikipedia.org/wiki/Rubra_Metro?action=history&offset=20240101120000",
    "cookie = jar.get(name); cookies: 12 in the jar",
    "ssh -p 2222 host 'ls -la /usr/local/lib/python3.11/site-packages'",
)
PROSE = (
    "The password is wrong, so the door stays shut.",
    "Count the white triangles, then leave out the stations that are drawn in grey.",
    "The secret is to read the legend first; the token next to the line is only decoration.",
    "A seed planted in spring grows well; wallet and keys were on the table.",
    "He is at home, the phone is on the second shelf.",
    "Bearer of good news, basic rules of the road apply.",
    "Authorization is needed before the train may leave.",
    "The passport was shown at platform 12 at 10:45.",
    "Which of the two lines has more interchange stations?",
)


def _png(rng: random.Random) -> str:
    head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + rng.randbytes(90)
    return "data:image/png;base64," + base64.b64encode(head).decode()


def _uuid7(rng: random.Random) -> str:
    value = f"{0x0190_0000_0000 + rng.getrandbits(36):012x}7{rng.getrandbits(12):03x}"
    value += f"{0x8 + rng.getrandbits(2):x}{rng.getrandbits(60):015x}"
    return "-".join((value[:8], value[8:12], value[12:16], value[16:20], value[20:]))


HARMLESS: dict[str, Benign] = {
    "56 card with a wrong checksum": _luhn_broken,
    "67 commit": lambda rng: f"commit {_drawn(rng, HEX, 40)}",
    "68 UUID": _uuid,
    "68b UUID 7": _uuid7,
    "69 SHA-256": lambda rng: f"sha256:{_drawn(rng, HEX, 64)}",
    "71 picture head": _png,
    "72 minified code": lambda rng: rng.choice(CODE),
    "base64 of bytes": lambda rng: base64.b64encode(rng.randbytes(rng.randrange(18, 90))).decode(),
    "base64 of words": lambda rng: base64.b64encode(rng.choice(PROSE).encode()).decode(),
    "MD5": lambda rng: _drawn(rng, HEX, 32),
    "number": lambda rng: str(rng.randrange(10 ** rng.randrange(1, 19))),
    "negative": lambda rng: f"{rng.uniform(-1e6, 1e6):.{rng.randrange(12)}f}",
    "grouped number": lambda rng: f"{rng.randrange(10**12):,}".replace(
        ",", rng.choice((",", " ", "."))
    ),
    "price": lambda rng: f"{rng.choice('$€£')}{rng.randrange(10**7):,}.{rng.randrange(100):02d}",
    "year": lambda rng: f"{rng.randrange(1800, 2030)}-{rng.randrange(1800, 2030)}",
    "date": lambda rng: (
        f"{rng.randrange(1, 29):02d}{'-'}{rng.randrange(1, 13):02d}-{rng.randrange(1900, 2030)}"
    ),
    "time": lambda rng: (
        f"2026-{rng.randrange(1, 13):02d}-07T{rng.randrange(24):02d}:{rng.randrange(60):02d}:09."
        f"{rng.randrange(10**6):06d}+02:00"
    ),
    "epoch": lambda rng: str(
        rng.randrange(16 * 10**8, 19 * 10**8) * 10 ** rng.choice((0, 3, 6, 9))
    ),
    "coordinates": lambda rng: f"{rng.uniform(-90, 90):+.6f}, {rng.uniform(-180, 180):+.6f}",
    "box": lambda rng: (
        f"({rng.randrange(1000)}, {rng.randrange(1000)}, {rng.randrange(1000)}, {rng.randrange(1000)})"
    ),
    "version": lambda rng: (
        f"v{rng.randrange(20)}.{rng.randrange(30)}.{rng.randrange(9)}.{rng.randrange(20)}"
    ),
    "version of a package": lambda rng: (
        f"pkg=={rng.randrange(20)}.{rng.randrange(30)}.{rng.randrange(9)}"
    ),
    "arithmetic": lambda rng: (
        f"{rng.randrange(999)} + {rng.randrange(9999)} - {rng.randrange(999)} = {rng.randrange(9999)}"
    ),
    "tight arithmetic": lambda rng: (
        f"{rng.randrange(100, 999)}-{rng.randrange(10, 999)}-{rng.randrange(1000, 9999)}"
        f" = {rng.randrange(9999)}"
    ),
    "sum": lambda rng: f"{rng.randrange(10**6)} +{rng.randrange(10**10)}",
    "grid": lambda rng: "\n".join(
        " ".join(str(rng.randrange(10)) for _ in range(9)) for _ in range(4)
    ),
    "table": lambda rng: "\n".join(
        " | ".join(f"{rng.randrange(100):02d}" for _ in range(6)) for _ in range(3)
    ),
    "columns": lambda rng: " ".join(f"{rng.randrange(100):02d}" for _ in range(8)),
    "station": lambda rng: f"{rng.choice(STATIONS)} ({rng.choice('ABCU')}{rng.randrange(1, 20)})",
    "lower-case words": lambda rng: " ".join(rng.choice(WORDS) for _ in range(12)),
    "identifier": lambda rng: (
        "_".join(rng.choice(WORDS) for _ in range(3)) + f"_{rng.randrange(99)}"
    ),
    "named identifier": lambda rng: (
        f"token: {rng.choice(WORDS)}_{rng.randrange(99)}_{rng.choice(WORDS)}"
    ),
    "named count": lambda rng: (
        f"{rng.choice(('max_tokens', 'token', 'secret_count'))}={rng.randrange(10**9)}"
    ),
    "prose": lambda rng: rng.choice(PROSE),
    "path": lambda rng: f"/usr/lib/{rng.choice(WORDS)}/{rng.choice(WORDS)}-{rng.randrange(9)}.so",
    "address of a page": lambda rng: (
        f"https://{rng.choice(WORDS)}.org/{rng.choice(WORDS)}/{rng.randrange(10**8)}?page={rng.randrange(99)}#s{rng.randrange(9)}"
    ),
    "hardware address": lambda rng: ":".join(f"{rng.randrange(256):02x}" for _ in range(6)),
    "range of time": lambda rng: (
        f"{rng.randrange(24):02d}:{rng.randrange(60):02d}:{rng.randrange(60):02d}"
    ),
    "ISBN": lambda rng: (
        f"978-{rng.randrange(10)}-{rng.randrange(100, 999)}-{rng.randrange(10000, 99999)}"
        f"-{rng.randrange(10)}"
    ),
    "DOI": lambda rng: f"10.{rng.randrange(1000, 9999)}/{rng.choice(WORDS)}.{rng.randrange(10**6)}",
    "colour": lambda rng: (
        f"#{_drawn(rng, HEX, 6)} rgb({rng.randrange(256)}, {rng.randrange(256)}, 0)"
    ),
    "public address": lambda rng: (
        f"{rng.choice((8, 93, 151))}.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}"
    ),
    "tensor": lambda rng: (
        f"Tensor[{rng.randrange(99)}, {rng.randrange(4096)}] float32 mean={rng.gauss(0, 1):.9f}"
    ),
}


def fakes(seed: int, each: int) -> list[tuple[str, int, Planted]]:
    """Return `each` fakes of every kind with kind and number."""
    rng = random.Random(seed)
    return [(kind, number, make(rng)) for kind, make in KINDS.items() for number in range(each)]


def harmless(seed: int, count: int) -> list[tuple[str, str]]:
    """Return harmless strings with their kind, the kinds by turns."""
    rng = random.Random(seed)
    kinds = list(HARMLESS.items())
    return [
        (name, make(rng)) for number in range(count) for name, make in [kinds[number % len(kinds)]]
    ]
