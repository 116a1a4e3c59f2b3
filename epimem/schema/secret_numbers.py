"""Numbers of people and addresses of machines: what tells them from other numbers."""

from __future__ import annotations

import ipaddress
import re

Match = re.Match[str]


def _luhn(digits: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        number = int(digit) * (1 + place % 2)
        total += number - 9 if number > 9 else number
    return total % 10 == 0


def _digits(value: str) -> str:
    return "".join(character for character in value if character in "0123456789")


def card(match: Match) -> bool:
    """Tell whether a number in fours is parted alike and has a valid checksum (Luhn)."""
    return _one_sign(match) and _luhn(_digits(match.group()))


def labelled_card(match: Match) -> bool:
    """Tell whether a number that is called a card has a valid checksum."""
    return _luhn(match["secret"])


def french_phone(match: Match) -> bool:
    """Five pairs of digits parted alike are a French number, unless they go on to the left."""
    before = match.string[max(0, match.start() - 2) : match.start()]
    return _one_sign(match) and re.fullmatch(r"\d[ .]", before) is None


def american_id(match: Match) -> bool:
    """Tell whether the area of a social security number is given out."""
    return match.group()[:3] not in {"000", "666"}


def british_id(match: Match) -> bool:
    """Tell whether a national insurance number is written in one piece or in pairs."""
    return match.group().count(" ") in {0, 3, 4}


_IBAN_LENGTHS = {
    country: length
    for length, countries in (
        (15, "NO"),
        (16, "BE"),
        (18, "DK FI NL"),
        (19, "SI"),
        (20, "AT EE LT LU"),
        (21, "CH HR LI LV"),
        (22, "BG DE GB IE"),
        (23, "AE IL"),
        (24, "CZ ES RO SA SE SK"),
        (25, "PT"),
        (26, "TR"),
        (27, "FR GR IT"),
        (28, "CY HU PL"),
        (29, "BR"),
        (31, "MT"),
    )
    for country in countries.split()
}


def iban(match: Match) -> bool:
    """Tell whether length and checksum (ISO 13616) are those of the country."""
    value = match.group().replace(" ", "")
    if len(value) != _IBAN_LENGTHS.get(value[:2]):
        return False
    return int("".join(str(int(c, 36)) for c in value[4:] + value[:4])) % 97 == 1


def international_phone(match: Match) -> bool:
    """A plus with 8 to 15 digits, which is neither a sum nor a coordinate."""
    value = match.group()
    if _DATE.match(value):
        return False
    number = _digits(value)
    dots = value.count(".")
    return (
        8 <= len(number) <= 15
        and "000 000" not in value
        and dots not in {1, 2}
        and number[0] != "0"
    )


def dialled_phone(match: Match) -> bool:
    """Tell whether a number that is called a phone number is long enough for one."""
    value = match["secret"]
    return 7 <= len(_digits(value)) <= 15 and (len(_digits(value)) >= 9 or not value.isdecimal())


def chinese_id(match: Match) -> bool:
    """Tell whether the check digit of a resident card is right."""
    value = match.group()
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    total = sum(int(digit) * weight for digit, weight in zip(value, weights, strict=False))
    return "10X98765432"[total % 11] == value[17].upper()


def spanish_id(match: Match) -> bool:
    """Tell whether the check letter of a DNI or NIE is right."""
    value = match.group().replace("-", "")
    number = value[:8].replace("X", "0").replace("Y", "1").replace("Z", "2")
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == value[8]


def french_id(match: Match) -> bool:
    """Tell whether the key of a social security number is right, all in one piece or in groups."""
    if match.group().count(" ") not in {0, 6}:
        return False
    number = _digits(match.group())
    return 97 - int(number[:13]) % 97 == int(number[13:])


def brazilian_id(match: Match) -> bool:
    """Tell whether both check digits of a CPF are right."""
    number = [int(digit) for digit in _digits(match.group())]
    for size in (9, 10):
        total = sum(digit * (size + 1 - place) for place, digit in enumerate(number[:size]))
        if total * 10 % 11 % 10 != number[size]:
            return False
    return True


_VERSION_BEFORE = re.compile(r"(?i)(?:\bv|version|release|build|==|>=|<=|~=|@)[ :=]{0,2}\Z")


def internal_address(match: Match) -> bool:
    """Tell whether it is an address, not the version of something."""
    before = match.string[max(0, match.start() - 12) : match.start()]
    return all(int(part) < 256 for part in match.group().split(".")) and not _VERSION_BEFORE.search(
        before
    )


def ipv6_address(match: Match) -> bool:
    """Tell whether it is a valid address of IPv6."""
    try:
        address = ipaddress.IPv6Address(match.group())
    except ValueError:
        return False
    return address.is_global or address.is_private


def _one_sign(match: Match) -> bool:
    """A number whose groups are parted alike."""
    return len({character for character in match.group() if not character.isdecimal()}) <= 1


_DATE = re.compile(r"\+\d{4,6}-\d\d-\d\d")


def mail_address(match: Match) -> bool:
    """Tell whether a name stands before the sign; `git@host` names nobody."""
    before = match.string[max(0, match.start() - 4) : match.start()]
    return re.search(r"(?:\A|[^\w.+%-])git\Z", before) is None
