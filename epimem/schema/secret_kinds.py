"""The table of secrets: what each kind looks like, and what only looks like one.

A row names literal beginnings, so that text is only looked at where one stands. Open ends are possessive
and all else is bounded, so no pattern backtracks over more than a bounded part.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from string import ascii_letters, digits

from epimem.schema import secret_numbers as numbers
from epimem.schema import secret_values as values

Match = re.Match[str]
Check = Callable[[Match], bool]


@dataclass(frozen=True)
class Kind:
    """One kind of secret.

    Attributes:
        name: stands in the marker.
        pattern: what is replaced is its group `secret`, else all of it.
        starts: lower-case literals at one of which a match begins; empty: it may begin anywhere.
        hint: where `starts` is empty, a literal without which there is no match.
        check: refuses what only looks like it.
        before: characters before the match that belong to it; at least one must stand there.
        wraps: it is looked for across line breaks too.
        open_ended: it has no fixed length, so what was split off may be more of it.
    """

    name: str
    pattern: re.Pattern[str]
    starts: tuple[str, ...] = ()
    hint: str = ""
    check: Check | None = None
    before: str = ""
    wraps: bool = False
    open_ended: bool = False

    def span(self, match: Match) -> tuple[int, int] | None:
        """Return where the secret of a match stands, None where it only looks like one."""
        if self.check is not None and not self.check(match):
            return None
        start, end = match.span("secret") if "secret" in self.pattern.groupindex else match.span()
        if not self.before:
            return start, end
        ahead = match.string[max(0, start - _MOST_BEFORE) : start]
        length = len(ahead) - len(ahead.rstrip(self.before))
        return (start - length, end) if length else None


@dataclass(frozen=True)
class Group:
    """Kinds that begin with a digit, or with a capital: looked for together, so that it is done once.

    Attributes:
        screen: matches wherever one of them does.
        kinds: the kinds.
    """

    screen: re.Pattern[str]
    kinds: tuple[Kind, ...]


_MOST_BEFORE = 64


# -- tokens that say themselves what they are ----------------------------------------------------------

_BEFORE = r"(?<![A-Za-z0-9])"
_AFTER = r"(?![A-Za-z0-9])"
_HEX = "[0-9a-f]"
_UUID = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"


def _token(name: str, pattern: str, *starts: str, check: Check | None = values.drawn) -> Kind:
    return Kind(
        name,
        re.compile(_BEFORE + pattern),
        tuple(start.lower() for start in starts),
        check=check,
        wraps=True,
        open_ended=pattern.endswith("}+"),
    )


_TOKENS = (
    _token(
        "cloud-key",
        # The secret half often stands right behind the id.
        rf"(?:AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{{16}}{_AFTER}"
        r"(?:[\s:,;/'\"=]{1,8}+[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+]))?",
        *("AKIA", "ASIA", "ABIA", "ACCA", "AROA", "AIDA"),
        check=None,
    ),
    _token("cloud-key", r"AIza[\w-]{35}(?![\w-])", "AIza"),
    _token("cloud-key", rf"LTAI[A-Za-z0-9]{{16,24}}{_AFTER}", "LTAI"),
    _token("cloud-key", rf"do[opr]_v1_{_HEX}{{64}}{_AFTER}", "dop_v1_", "doo_v1_", "dor_v1_"),
    _token(
        "cloud-session-token",
        r"(?:IQoJb3JpZ2lu|FwoGZXIvYXdz|FQoGZXIvYXdz)[A-Za-z0-9/+=]{40,}+",
        "IQoJb3JpZ2lu",
        "FwoGZXIvYXdz",
        "FQoGZXIvYXdz",
    ),
    _token("oauth-secret", r"GOCSPX-[\w-]{20,}+", "GOCSPX-"),
    _token("oauth-token", r"ya29\.[\w-]{20,}+", "ya29."),
    _token("oauth-token", r"1//0[\w-]{30,}+", "1//0"),
    _token("github-token", r"gh[pousr]_[A-Za-z0-9]{36,}+", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    _token("github-token", r"github_pat_[A-Za-z0-9_]{40,}+", "github_pat_"),
    _token(
        "gitlab-token",
        r"(?:glpat|gldt|glrt|glcbt|glptt|glagent|gloas|glsoat)-[\w.-]{20,}+",
        *("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glagent-", "gloas-", "glsoat-"),
    ),
    _token("code-host-token", r"(?:ATATT3|ATBB|ATCTT3)[\w=-]{20,}+", "ATATT3", "ATBB", "ATCTT3"),
    _token("package-registry-token", rf"npm_[A-Za-z0-9]{{36}}{_AFTER}", "npm_"),
    _token("package-registry-token", r"pypi-AgE[\w-]{40,}+", "pypi-AgE"),
    _token("package-registry-token", rf"rubygems_{_HEX}{{48}}{_AFTER}", "rubygems_"),
    _token("package-registry-token", rf"oy2[a-z0-9]{{43}}{_AFTER}", "oy2"),
    _token("package-registry-token", rf"cio[A-Za-z0-9]{{32}}{_AFTER}", "cio"),
    _token("container-registry-token", r"dckr_(?:pat|oat)_[\w-]{20,}+", "dckr_pat_", "dckr_oat_"),
    _token("chat-token", r"xox[abeoprs]-[A-Za-z0-9-]{10,}+", *(f"xox{c}-" for c in "abeoprs")),
    _token("chat-token", r"xapp-\d-[A-Za-z0-9-]{10,}+", "xapp-"),
    Kind("chat-token", re.compile(r"(?<![\w-])\d{8,10}:AA[\w-]{33}(?![\w-])"), (), ":AA"),
    Kind(
        "chat-token",
        # The character class stands first: that is what the engine of `re` skips text by.
        re.compile(r"[MNO](?<![\w.-][MNO])[A-Za-z0-9_-]{23,27}\.[\w-]{6}\.[\w-]{27,40}(?![\w-])"),
        check=values.drawn_token,
    ),
    _token(
        "payment-key",
        r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}+",
        *(f"{a}_{b}_" for a in ("sk", "rk", "pk") for b in ("live", "test")),
    ),
    _token("payment-key", r"whsec_[A-Za-z0-9+/=]{20,}+", "whsec_"),
    _token("payment-key", r"sq0(?:atp|csp|idp)-[\w-]{20,}+", "sq0atp-", "sq0csp-", "sq0idp-"),
    _token(
        "payment-key",
        rf"access_token\$(?:production|sandbox)\$[a-z0-9]{{16}}\${_HEX}{{32}}",
        "access_token$",
    ),
    _token(
        "payment-key",
        rf"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{{32}}{_AFTER}",
        "shpat_",
        "shpca_",
        "shppa_",
        "shpss_",
    ),
    _token("mail-key", r"SG\.[\w-]{16,32}\.[\w-]{16,64}", "SG."),
    _token("mail-key", rf"key-{_HEX}{{32}}{_AFTER}", "key-", check=values.drawn_token),
    _token("mail-key", r"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}", "xkeysib-"),
    Kind(
        "mail-key",
        re.compile(rf"(?<={_HEX}{{32}})-us\d{{1,2}}{_AFTER}"),
        ("-us",),
        before="0123456789abcdef",
    ),
    Kind("sms-key", re.compile(rf"[SA](?<![A-Za-z0-9][SA])[KC]{_HEX}{{32}}{_AFTER}")),
    _token(
        "model-key",
        r"sk-(?:ant|proj|svcacct|admin|or|let|lf|None)-[\w-]{20,}+",
        *(f"sk-{part}-" for part in ("ant", "proj", "svcacct", "admin", "or", "let", "lf", "None")),
    ),
    _token("model-key", r"sk-[A-Za-z0-9]{20,}+", "sk-", check=values.drawn_token),
    _token("model-key", r"hf_[A-Za-z0-9]{30,}+", "hf_"),
    _token(
        "model-key",
        r"(?:gsk|r8|tgp_v1|fw|csk)_[A-Za-z0-9_-]{30,}+",
        "gsk_",
        "r8_",
        "tgp_v1_",
        "fw_",
        "csk_",
        check=values.drawn_token,
    ),
    _token("model-key", r"(?:xai|nvapi|pplx)-[\w-]{30,}+", "xai-", "nvapi-", "pplx-"),
    _token("memory-key", r"m0-[A-Za-z0-9]{30,}+", "m0-", check=values.drawn_token),
    _token("memory-key", r"(?:z_1d|z_ey)[\w.-]{30,}+", "z_1d", "z_ey", check=values.drawn_token),
    _token("memory-key", r"sm_[A-Za-z0-9_]{30,}+", "sm_", check=values.drawn_token),
    _token("memory-key", r"epm_[\w-]{43}(?![\w-])", "epm_"),
    _token("vector-database-key", r"pcsk_[A-Za-z0-9_]{30,}+", "pcsk_"),
    _token("feature-flag-key", rf"(?:sdk|api|mob)-{_UUID}{_AFTER}", "sdk-", "api-", "mob-"),
    _token(
        "monitoring-key",
        r"(?:sntry[su]|glsa|glc)_[\w+/=-]{30,}+",
        "sntrys_",
        "sntryu_",
        "glsa_",
        "glc_",
    ),
    _token("monitoring-key", r"NR(?:AK|JS|II|BR|RA)-[A-Za-z0-9-]{19,}+", "NRAK-", "NRJS-", "NRII-"),
    _token("paging-key", r"pd(?:us|eu)\+_[\w+-]{18,}+", "pdus+_", "pdeu+_"),
    _token("vault-token", r"hv[sbr]\.[\w-]{20,}+", "hvs.", "hvb.", "hvr."),
    _token("app-token", rf"dapi{_HEX}{{32}}(?:-\d)?{_AFTER}", "dapi"),
    _token(
        "app-token",
        r"(?:lin_api|figd|ntn|PMAK|secret)[_-][A-Za-z0-9_-]{32,}+",
        "lin_api_",
        "figd_",
        "ntn_",
        "PMAK-",
        "secret_",
        check=values.drawn_token,
    ),
    _token("jwt", r"eyJ[\w-]{8,}+\.eyJ[\w-]{8,}+(?:\.[\w-]*+){0,3}", "eyJ", check=None),
    _token(
        "age-key", rf"AGE-SECRET-KEY-1[A-Z0-9]{{50,60}}{_AFTER}", "AGE-SECRET-KEY-1", check=None
    ),
    _token("minisign-key", r"RWRTY0Iy[A-Za-z0-9+/=]{40,}+", "RWRTY0Iy", check=None),
)

# -- keys, and addresses that hold one -----------------------------------------------------------------

_URL_END = r"\s\"'<>`"
_KEYS = (
    Kind(
        "private-key",
        # Up to its end line; a key that was cut off, as far as its lines are key material.
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?:[^-]|-(?!----)){0,32768}+-----END [A-Z0-9 ]{0,40}-----"
            r"|(?:\s|\\[nr])*+(?:[A-Za-z0-9+/=]{16,}+(?:\s|\\[nr])*+)*+[A-Za-z0-9+/=]*+)"
        ),
        ("-----begin ",),
    ),
    Kind(
        "private-key",
        # PKCS12, PKCS1 and PKCS8 in base64 without a frame: version 3, 0 and 0 after the length.
        re.compile(
            r"(?<![A-Za-z0-9+/])MI[IHG][A-Za-z0-9+/]{3}[AQgw]?IB(?:AzC|AAK|ADA)[A-Za-z0-9+/]{40,}+"
            r"(?:\r?\n[A-Za-z0-9+/]{20,}+)*+={0,2}"
        ),
        ("mi",),
    ),
    Kind(
        "totp-secret",
        re.compile(rf"otpauth://[^{_URL_END}]+"),
        ("otpauth://",),
        check=values.no_template,
    ),
    Kind(
        "webhook",
        re.compile(
            r"(?:hooks\.slack\.com|discord(?:app)?\.com/api/webhooks|webhook\.office\.com)"
            rf"/(?P<secret>[^{_URL_END}]{{20,}}+)"
        ),
        ("hooks.slack.com/", "discord.com/api/", "discordapp.com/api/", "webhook.office.com/"),
    ),
    Kind(
        "url-password",
        re.compile(rf"://[^{_URL_END}:/@?#]{{0,128}}+:(?P<secret>[^{_URL_END}/@]{{1,256}}+)@"),
        ("://",),
        check=lambda match: not values.placeholder(match["secret"]),
    ),
    Kind(
        "url-key",
        re.compile(r"://(?P<secret>[A-Za-z0-9_-]{20,128}+)(?::[A-Za-z0-9_-]{0,128}+)?@"),
        ("://",),
        check=lambda match: not values.chain_of_words(match["secret"]),
    ),
    Kind(
        "url-signature",
        re.compile(
            r"(?i)(?<=[?&;])(?:x-(?:amz|goog)-(?:signature|credential|security-token)|signature|sig)="
            r"(?P<secret>[\w%+/=.~-]{16,}+)"
        ),
        ("x-amz-", "x-goog-", "signature=", "sig="),
    ),
)

# -- secrets that are named beside their value ---------------------------------------------------------

# Up to the value: the rest of the name, closing quotes, a sign of assignment or a space.
_NAMED = re.compile(
    rf"(?i)(?:{values.ANY_LABEL})[\w-]{{0,24}}+[\"'\]\\]{{0,3}}[ \t]{{0,4}}(?:=>|:=|=|:)[ \t]{{0,4}}"
    r"(?:\\?(?P<quote>[\"'`]))?"
    r"(?P<secret>(?(quote)[^\s\"'`\\]|(?:[^\s\"'`\\,;&]|&(?!\w{1,32}=))){4,512}+)"
)


_REST_OF_LINE = r"[^\n\"'`]{4,4096}+"
_QUIET = r"[^\s\"'`]"
_NAMED_KINDS = (
    Kind("named-secret", _NAMED, values.LABELS, check=values.named_value),
    Kind(
        "password",
        re.compile(
            r"(?i)pass(?:word|phrase|code)(?: (?:for|of|to|on) [^.\n]{1,40}?)? (?:is|was):? "
            r"(?:now |still )?"
            rf"(?P<quote>[\"'`])?(?P<secret>{_QUIET}{{4,256}}+)"
        ),
        ("password", "passphrase", "passcode"),
        check=values.spoken_value,
    ),
    Kind(
        "password",
        re.compile(
            rf"(?i)(?<![\w-])--?(?:password|passwd|pass|token|secret|api-key)[ =]['\"]?"
            rf"(?P<secret>{_QUIET}{{4,256}}+)"
        ),
        (
            "-password",
            "-passwd",
            "-pass",
            "-token",
            "-secret",
            "-api-key",
            "--pass",
            "--token",
            "--secret",
            "--api-key",
        ),
        check=values.credential,
    ),
    Kind(
        "password",
        re.compile(
            r"(?:mysql|mysqldump|mysqladmin|mariadb) [^\n|;]{0,120}?(?<= )-p['\"]?"
            rf"(?P<secret>{_QUIET}{{4,128}}+)"
        ),
        ("mysql", "mariadb"),
        check=values.credential,
    ),
    Kind(
        "password",
        re.compile(rf"sshpass +-p *['\"]?(?P<secret>{_QUIET}{{4,128}}+)"),
        ("sshpass ",),
        check=lambda match: not values.placeholder(match["secret"]),
    ),
    Kind(
        "password",
        re.compile(
            r"curl [^\n|;]{0,200}?(?:-u|--user)[ =]['\"]?[^\s:\"'@]{1,64}:"
            rf"(?P<secret>{_QUIET}{{4,128}}+)"
        ),
        ("curl ",),
        check=lambda match: not values.placeholder(match["secret"]),
    ),
    Kind(
        "authorization",
        re.compile(
            r"(?i)authorization[\"'\\]{0,3} {0,2}[:=] {0,2}\\?[\"']?"
            r"(?:(?:bearer|basic|token|digest|apikey|geniekey|key|aws4-hmac-sha256) +(?:token=)?)?"
            r"(?P<secret>[^\s\"'`,\\]{8,}+)"
        ),
        ("authorization",),
        check=values.credential,
    ),
    Kind(
        "authorization",
        re.compile(r"(?i)(?<!\w)(?:bearer|basic) (?P<secret>[\w+/=.~-]{16,}+)"),
        ("bearer ", "basic "),
        check=lambda match: not values.chain_of_words(match["secret"]),
    ),
    Kind(
        "cookie",
        re.compile(
            r"(?i)(?<!\w)cookie[\"'\\]{0,3} {0,2}: {0,2}\\?[\"']?"
            rf"(?P<secret>[\w.-]{{1,64}}={_REST_OF_LINE})"
        ),
        ("cookie",),
        check=values.no_template,
    ),
    Kind(
        "container-registry-token",
        re.compile(r"\"auth\\?\"\s{0,4}:\s{0,4}\\?\"(?P<secret>[A-Za-z0-9+/]{12,}+={0,2})"),
        ('"auth',),
    ),
    Kind(
        "wallet-seed",
        re.compile(
            r"(?i)(?:seed|mnemonic|recovery|wallet|secret)(?: (?:phrase|words|seed|backup))?[\"'*]{0,2}"
            r"(?: (?:is|are|for [^\n:]{1,30}))?(?: ?[:=]|\n) {0,2}\n?[\"'`]?"
            r"(?P<secret>(?-i:[a-z]{3,8}(?:[ \n,]{1,2}[a-z]{3,8}){11,23}))(?![a-z])"
        ),
        ("seed", "mnemonic", "recovery", "wallet", "secret"),
    ),
)

# -- people and places ---------------------------------------------------------------------------------

_TOP = (
    "com|org|net|edu|gov|mil|int|info|biz|dev|app|xyz|cloud|online|site|tech|email|name|eu|uk|de|fr|it|es|nl|be"
    "|ch|at|se|no|dk|fi|pl|cz|ru|ua|jp|cn|kr|in|au|nz|ca|us|br|mx|ar|za|io|ai|co|me|tv|ie|pt|gr|hu|ro|tr|il|sg|hk|tw"
)


_COMMON_NAMES = (
    "user|users|ubuntu|runner|app|apps|shared|public|default|guest|admin|node|debian|username|name|you|me"
    "|envs|venv|bin|work|workspace|data|tmp"
)
_LOCAL_PART = ascii_letters + digits + "._+%-"


def _begins(first: str, before: str, *kinds: tuple[str, str, str, Check | None]) -> Group:
    """Make kinds of one class of first characters: name, first character, what follows, check."""
    rows = tuple(
        Kind(name, re.compile(f"{begin}(?<!{before}{begin}){rest}", re.ASCII), check=check)
        for name, begin, rest, check in kinds
    )
    rests = "|".join(f"(?<={begin}){rest}" for _, begin, rest, _ in kinds)
    return Group(re.compile(f"{first}(?<!{before}{first})(?:{rests})", re.ASCII), rows)


_NO_SUM = r"(?![\w-]| ?[=*/+])"
_PASSPORT = r"[A-Z0-9<]{8}\d[A-Z<]{3}\d{7}[MFX<]\d{7}[A-Z0-9<]{15}\d(?![A-Z0-9<])"
_OF_DIGITS = _begins(
    r"[0-9]",
    r"[\w.+/-]",
    ("national-id", "[0-8]", rf"\d\d-(?!00)\d\d-(?!0000)\d{{4}}{_NO_SUM}", numbers.american_id),
    ("national-id", "[0-9]", r"\d{7}-?[A-HJ-NP-TV-Z](?![\w-])", numbers.spanish_id),
    (
        "national-id",
        "[1-9]",
        r"\d{5}(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx](?!\w)",
        numbers.chinese_id,
    ),
    (
        "national-id",
        "[12]",
        r" ?\d\d ?(?:0[1-9]|1[0-2]) ?\d\d ?\d{3} ?\d{3} ?\d\d(?! ?\d)",
        numbers.french_id,
    ),
    ("national-id", "[0-9]", r"\d\d\.\d{3}\.\d{3}-\d\d(?![\w-])", numbers.brazilian_id),
    ("card-number", "[3-6]", r"\d{3}[ -]\d{4}[ -]\d{4}[ -]\d{4}(?![\w-])", numbers.card),
    ("phone", "[2-9]", rf"\d\d-[2-9]\d\d-\d{{4}}{_NO_SUM}", None),
    ("phone", "1", rf"-[2-9]\d\d-[2-9]\d\d-\d{{4}}{_NO_SUM}", None),
    (
        "phone",
        "0",
        r"(?:20 \d{4} \d{4}|7\d{3} \d{6}|1\d{2} \d{3} \d{4}|1\d{3} \d{6})(?![ -]?\d)",
        None,
    ),
    ("phone", "0", r"[1-79](?:[ .]\d\d){4}(?![ .]?\d)", numbers.french_phone),
    ("phone", "0", r"(?:\d-\d{4}|\d\d-\d{3,4}|\d{3}-\d\d)-\d{4}(?![\w-])", None),
    ("passport-line", "[0-9]", _PASSPORT, None),
)
_OF_CAPITALS = _begins(
    r"[A-Z]",
    r"[\w<-]",
    (
        "iban",
        "[A-Z]",
        r"[A-Z]\d\d(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])",
        numbers.iban,
    ),
    (
        "national-id",
        "[A-CEGHJ-PR-TW-Z]",
        r"[A-CEGHJ-NPR-TW-Z] ?\d\d ?\d\d ?\d\d ?[A-D](?!\w)",
        numbers.british_id,
    ),
    ("national-id", "[A-Z]", r"[A-Z]{5}\d\d[A-EHLMPR-T]\d\d[A-Z]\d{3}[A-Z](?!\w)", None),
    ("national-id", "[XYZ]", r"\d{7}-?[A-HJ-NP-TV-Z](?![\w-])", numbers.spanish_id),
    (
        "passport-line",
        "P",
        r"[A-Z<][A-Z<]{3}[A-Z<]{39}(?:\s{1,2}[A-Z0-9<]{44})?(?![A-Z0-9<])",
        None,
    ),
    ("passport-line", "[A-Z]", _PASSPORT, None),
)
_PERSONAL = (
    Kind(
        "e-mail",
        re.compile(rf"@(?:[A-Za-z0-9-]{{1,63}}\.){{1,6}}(?:{_TOP})(?![\w(\[-]|\.\w)"),
        ("@",),
        check=numbers.mail_address,
        before=_LOCAL_PART,
    ),
    Kind(
        "phone",
        re.compile(
            r"(?<!\d )(?<![\w)+.])\+\d{1,3}(?:[ .-]?\(?\d{1,5}\)?){1,6}(?![\d.:]*\d|[ ]?[=*/+])"
        ),
        ("+",),
        check=numbers.international_phone,
    ),
    Kind("phone", re.compile(r"(?<![\w)])\([2-9]\d\d\) ?\d{3}-\d{4}(?![\d-])"), ("(",)),
    Kind(
        "phone",
        re.compile(
            r"(?i)(?<![a-z])(?:phone|telephone|tel|mobile|cell|fax|whatsapp)(?: (?:number|no))?\.?"
            r"(?: is|:|=)? {0,2}(?P<secret>[+(]?\d(?:[ ().-]{0,2}\d){6,14})(?![\d.]*\d)"
        ),
        ("phone", "telephone", "tel", "mobile", "cell", "fax", "whatsapp"),
        check=numbers.dialled_phone,
    ),
    Kind(
        "card-number",
        re.compile(
            r"(?i)(?:card|visa|mastercard|amex)[^\d\n]{1,24}(?P<secret>[3-6]\d{14,15})(?!\d)"
        ),
        ("card", "visa", "amex"),
        check=numbers.labelled_card,
    ),
    Kind(
        "internal-address",
        re.compile(
            r"(?<![\w.-])(?:10\.\d{1,3}|192\.168|172\.(?:1[6-9]|2\d|3[01])|169\.254"
            r"|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]))\.\d{1,3}\.\d{1,3}(?![\w-]|\.\d)"
        ),
        ("10.", "192.168.", "172.", "169.254.", "100."),
        check=numbers.internal_address,
    ),
    Kind(
        "internal-address",
        re.compile(
            r"[23fF](?<![\w:.][23fF])(?i:(?<=[23])[0-9a-f]{3}|(?<=f)[cd][0-9a-f]{2}|(?<=f)e80)"
            r"(?::[0-9a-fA-F]{0,4}){2,7}(?![\w:])"
        ),
        hint=":",
        check=numbers.ipv6_address,
    ),
    Kind(
        "user-name",
        re.compile(
            rf"(?<![\w.~-])/(?:home|Users)/(?!(?:{_COMMON_NAMES})/)(?P<secret>[A-Za-z][\w.-]{{1,31}}+)(?=/)"
        ),
        ("/home/", "/users/"),
    ),
    Kind(
        "user-name",
        re.compile(
            rf"(?i)(?<=[a-z]):\\{{1,2}}users\\{{1,2}}(?!(?:{_COMMON_NAMES})\\)"
            r"(?P<secret>[a-z][\w.-]{1,31}+(?: [\w.-]{1,31}+)?)(?=\\)"
        ),
        (":\\users\\", ":\\\\users\\\\"),
    ),
)

KINDS: tuple[Kind, ...] = (*_TOKENS, *_KEYS, *_NAMED_KINDS, *_PERSONAL)
GROUPS: tuple[Group, ...] = (_OF_DIGITS, _OF_CAPITALS)
