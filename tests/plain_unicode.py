"""Normalising and words in the plainest Python, by Unicode 14 under every Python.

A later Unicode never changes what becomes of the characters that an earlier one has; so a text is cut at those that
Unicode 14 does not have, and what lies between is given to unicodedata, re and str.
"""

import base64
import re
import unicodedata
import zlib
from collections.abc import Callable

# How many code points Unicode 14 has not, has, has not ... from U+0000 on, as decimal numbers.
RUNS = zlib.decompress(
    base64.b85decode(
        b"c-nPW3%2Dp2-`}QU<}51{~Ie3I5*RF&h1O{u`viCnDIo!GarBK*^lryM_%;cQSoh!yl6hH_2l!;rT$2++gRxMDkC@AvrgU{F0x<<yJ<7`K1$"
        b"oUb!u*hrTSq>9j$43KBqreE)l-L?tHV_4d=_x&iVe;ajO?7m&0GFmHFS`yTjAuPZNuQ^cO8#WlCl)+WqA}j^Dl4am}~-aa;msCp|Bh?3(9pZ"
        b"C4fN7?A2kwS~w|m=e8i<08&8r5A55*9O8WmR(-{_Kerp?>^@)yYWw+bPrq7H^7~TPVYAvSsrK&C^qi4>K$F+uKANp3LJ7C-Ea8hiCrw<{^|!"
        b"WcMyxFVa5R$^wgac$<og>CntX9^2P3WE~jyC_eS-9zS7vb`y3uBbK~hrc%$T=-al~)*#p-P3ub<@gQwGIdR@v2wwb1rsGLz1!JO9xteJ&CdS"
        b"P(HtJL&yd~k-x`jTr|7?GgtHhIUOGEafhRK%sY<H_6@<-=0zpfvg>8jt%^1he#ox;Es^=~86cM~5+?4V4f=y!t9OzzA2AFmwaN;d*6K)AKB|"
        b"^~vAzqO%pgy9@1af08h%6)h8En3j43tPW(O*o3%^j`L*!&l*1S!0(i}Ot1xW8jzsLO+UI$%A6MX3ovIg1BRTiBU`|IM+u)5-Dp_savH9rr5R"
        b"0+{`<x1gS7CMMIxKTnvj-+EPac%=g8n@fx$s<9OWa80_d}P456&j`b6JwC<|N;nQygI--r)l`8ilh)lQBAhG+P-(Xz?xDMC;xnjynkIdK^x0"
        b"N!$2q6JAnOxOpBP#~eBlC^LrC~|{ML#f7vr4#`dLlzbZF7q<>%CpFyZ?e2qK;KC_fm|R07|*v^<lX?7wMMhOu%Dn#692gIlIIHY<A9{wVuu>"
        b"lI%`E-ZK%qz5@)2_DQ|j81rCy<wTuR*R|A7sMeZR*7cpGyZD1fMm5ipI*lhz76eKFfW;IEZNor>xho1{-k1PC1lik#Afe-kWKkvzaFNuq<kA"
        b"Pl@fG#Z*G>zEb`=wMN%x-|y=@#oAGKOxKr`Fme08xjN?tqA*mGsI?iFAc160*AEV9hRBH|8xCYDz`|!d?_z8_^!=xDy1s<EXNp0C?84Q$7S+"
        b"<3?jp>YueVO7mFXVDshHH)ONwnNM-7E8p+&cbQiL6z0-$wEBWcc^)De@TbKRMThQ!G#)}Qw$Q!}1sYj$p7dM}u2sW<vP9oG;+_RrH6;>(&hP"
        b"+`Bk5i;zX9gjHA=aa1FUoxB@w5RZW-Ru#q_@e+L4j~*&OW@e(L}XyJj0L`5R1%?aUOhCs(1Ym^6)^DqG;;SOl+^bq@~I6kyB4gXJ#oTzIF-s"
        b"}EObSGWAQ&PEe@^-xN!G?MkOtOjYdn)5PPd2@C->>ez7{L8>9?ACsAcUJS?peyZ6qk=#7Q&6Oq40cQ|+e<V!wt&llS1yEsyI!rk(mifr_Bi!"
        b"@lHaWI+wia7{dTixUkjr`T{R;1L(KrAW*3y2%<csjEb=_xZ>r=ZWx4v?j_*w839<_Vb9D=0H|GS^!xGGKUiMo{6gwSP`;arKDT013=JHgP@}"
        b"DH$golOTH{mpp65D=`G-q=oUl<^la`5Ajww<=OWsNIG3$~{0#&(jRTh>`o!UFMx@TNn)2CqGR;s5^th8#>x"
    )
)


def assigned() -> list[range]:
    """The code points that Unicode 14 has, surrogates and private ones too."""
    found, end = [], 0
    runs = [int(number) for number in RUNS.split()]
    for without, with_ in zip(runs[::2], runs[1::2], strict=True):
        found.append(range(end + without, end + without + with_))
        end += without + with_
    return found


def unknown() -> re.Pattern[str]:
    """Runs of characters that Unicode 14 does not have, in a group."""
    bounds = [0, *(bound for run in assigned() for bound in (run[0], run[-1] + 1)), 0x110000]
    gaps = [range(first, last) for first, last in zip(bounds[::2], bounds[1::2], strict=True) if first < last]
    low = "".join(f"{chr(gap[0])}-{chr(gap[-1])}" for gap in gaps if gap[-1] < 0x10000)
    high = "".join(f"{chr(gap[0])}-{chr(gap[-1])}" for gap in gaps if gap[0] >= 0x10000)
    # In two: re finds a character of the first 65,536 at once in a set of only such, and walks through any other.
    return re.compile(f"((?:[{low}]|(?![\0-\uffff])[{high}])+)")


UNKNOWN = unknown()
SPACES = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


NORMALISED: dict[str, Callable[[str], str]] = {
    "nfkc-casefold": lambda text: unicodedata.normalize("NFKC", text).casefold(),
    "nfkc": lambda text: unicodedata.normalize("NFKC", text),
    "lower": str.lower,
}


def normalise(text: str, normalisation: str) -> str:
    """What a recipe makes of a text: "nfkc-casefold", "nfkc", "lower" or "none"."""
    text = re.sub("[\ud800-\udfff]", "\ufffd", text)
    if normalisation == "none":
        return text
    # re.split gives what it cuts at too, at every odd place.
    pieces = UNKNOWN.split(text)
    pieces[::2] = [NORMALISED[normalisation](piece) for piece in pieces[::2]]
    return "".join(pieces)


def words(text: str) -> list[str]:
    """The runs of letters, digits and underscores."""
    return re.findall(r"\w+", UNKNOWN.sub("\ufffd", text))


# What names begin with in scripts that do not part words.
DENSE = re.compile(
    "CJK |IDEOGRAPHIC |BOPOMOFO |HIRAGANA |(HALFWIDTH )?KATAKANA|HENTAIGANA |THAI |LAO |KHMER |MYANMAR |TAI LE |NEW TAI"
    " LUE |TAI THAM |TAI VIET |AHOM "
)


def is_dense(character: str) -> bool:
    return DENSE.match(unicodedata.name(character, "")) is not None


def mixed(text: str) -> list[str]:
    """The words, with the marks on their letters; each letter of a script that does not part words by itself."""
    found: list[str] = []
    is_open = False
    for character in UNKNOWN.sub("\ufffd", text):
        if unicodedata.category(character)[0] == "M" or character in "\u200c\u200d":
            if is_open:
                found[-1] += character
        elif not (character.isalnum() or character == "_"):
            is_open = False
        elif is_open and not is_dense(character) and not is_dense(found[-1][0]):
            found[-1] += character
        else:
            found.append(character)
            is_open = True
    return found


def signs(text: str) -> str:
    """What is visible and belongs to no word; marks, which belong to what is before them, are not among it."""
    pieces = UNKNOWN.split(text)
    pieces[::2] = ["".join(filter(_is_sign, piece)) for piece in pieces[::2]]
    return "".join(pieces)


def _is_sign(character: str) -> bool:
    is_mark = unicodedata.category(character)[0] == "M" or character in "\u200c\u200d"
    return not (is_mark or character.isalnum() or character == "_" or SPACES.match(character))


def characters(text: str) -> list[str]:
    """The characters, a space for each run of white space, none at the ends."""
    return list(SPACES.sub(" ", text).strip(" "))
