"""Currencies by their codes (ISO 4217), and how many decimal places an amount to be paid has."""

from decimal import ROUND_HALF_UP, Decimal
from typing import Final


def _codes(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TWO_PLACES: Final = _codes("""
    AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BRL BSD
    BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB
    EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD
    KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU
    MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR
    RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB
    TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VES WST XCD YER ZAR ZMW
""")
_NO_PLACES: Final = _codes("""
    BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF
""")
_UNSUPPORTED: Final = _codes("""
    BHD IQD JOD KWD LYD OMR TND CLF UYW
""")
"""Amounts that are to be paid have two places at most."""


def places_of(currency: str) -> int:
    """How many places an amount to be paid has. Raises ValueError for a code that is none."""
    if currency in _TWO_PLACES:
        return 2
    if currency in _NO_PLACES:
        return 0
    if currency in _UNSUPPORTED:
        raise ValueError(f"{currency} has more than two places, which is not supported")
    raise ValueError(f"{currency!r} is no code of a currency")


def rounded(amount: Decimal, currency: str) -> Decimal:
    """What is to be paid of an exact amount: half up, by its magnitude."""
    return amount.quantize(Decimal(1).scaleb(-places_of(currency)), ROUND_HALF_UP)
