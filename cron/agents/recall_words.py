"""Words as the `recall` agent compares them, and which item of a list a question means. Pure."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

LAST = -1
"""The place that "the last one" means."""


def _listed(words: str) -> frozenset[str]:
    """Return words that are written one after the other."""
    return frozenset(words.split())


_ACCENTS = re.compile("[\u0300-\u036f]")
_TOKEN = re.compile(r"[^\W_]+|[^\w\s]")
# Scripts that are written without spaces: their words are compared by pairs of letters.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_ENDINGS = ("ures", "ure", "ings", "ing", "ed", "es", "s", "e")
_SHORTEST_STEM = 3

_STOP = _listed(
    # English
    """a about again all an and any are as at be been brief but by can could did do does explain for from had happen
    happened has have how i in is it its item know let me mean means more much my no not now of ok okay on or our
    please report said say show so some tell than thank thanks that the their them then there these they thing things
    this those to up us was we were what whats when where which who whose why will with would yes you your"""
    # German
    """ aber als am an auch auf aus bei bitte da das dass dem den der des die du ein eine einen einer es fur hat ich
    ihr im in ist kein mal man mehr mir mit nach nicht noch nur oder sag sich sie sind so um und uns von war warum was
    wann wem wen wer wie wieso wir wo wurde zu zum zur"""
    # French
    """ a au aux avec ce ces cette comment dans de des dis donc du elle en est et il je la le les leur lui mais me moi
    ne nous on ou par pas plus pour pourquoi quand que quel quelle quels qui quoi sa ses son sur toi tu un une vous"""
    # Spanish, Portuguese, Italian
    """ al algo como con cual cuando da del di do donde e el ella em era es esta este fue ha hay il la las le lo los
    mas mi na no o os para per perche pero por porque que quando quem quien se si sobre su sono sua um uma un una y yo
    che chi cosa dove"""
    # Dutch
    """ aan dat de een en het hoe ik is je met naar niet om ook op te van voor wat wanneer waarom welke wie zijn"""
)
_ITEM_WORDS = _listed(
    "one ones item items point points bullet entry line row thing number no nr nummer punkt eintrag eins numero num "
    "element ligne linea voce punto ponto regel rij # №"
)
_OF_NUMBER = _listed("number item point bullet line row entry no nr nummer punkt eintrag numero num punto ponto # №")
_BEFORE_BARE = _listed("about and did is was does do for on of why with und mit war ist et y e o what")
_CARDINALS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_CARDINALS |= {"zwei": 2, "drei": 3, "vier": 4, "deux": 2, "trois": 3, "quatre": 4, "dos": 2, "tres": 3, "cuatro": 4}
_UNITS_OF_TIME = re.compile(
    r"(second|minute|hour|day|night|week|month|year|quarter|stunde|tag|woche|monat)(s|n|e|en)?$"
)
_OF_WHEN = _listed(
    "time run runs brief report message monday tuesday wednesday thursday friday saturday sunday few nacht mal jahr"
)
_NOT_BEFORE_SECOND = _listed("a per each every par por pro")
_NUMERAL = re.compile(r"(\d{1,3})(st|nd|rd|th|e|eme|ere|er|o|a)?$")
_HAN = {"一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9, "十": 10}
_HAN_PLACE = re.compile(
    "第\\s*([一二两三四五六七八九十]|\\d{1,3})|([一二三四五六七八九十]|\\d{1,3})\\s*(?:番目|つ目|번째)"
)
_HAN_LAST = re.compile("最后|最後|마지막")

# Each language's first to tenth as stems, then what may follow a stem.
_STEMS = (
    ("first second third fourth fifth sixth seventh eighth ninth tenth", "|s", "last|final"),
    ("erst zweit dritt viert funft sechst siebt acht neunt zehnt", "e|en|er|es|em", "letzt"),
    ("premi deuxieme troisieme quatrieme cinquieme sixieme septieme huitieme neuvieme dixieme", "|er|ere|s", "derni"),
    ("primer segund tercer cuart quint sext septim octav noven decim", "|o|a|os|as", "ultim"),
    ("primeir segund terceir quart quint sext setim oitav non decim", "o|a", "ultim"),
    ("prim second terz quart quint sest settim ottav non decim", "o|a", "ultim"),
    ("eerst tweed derd vierd vijfd zesd zevend achtst negend tiend", "e", "laatst"),
    ("pierwsz drug trzec czwart piat szost siodm osm dziewiat dziesiat", "y|a|e|i|ego|ej|ie|ia", "ostatni"),
    (
        "перв втор трет четверт пят шест седьм восьм девят десят",
        "ый|ой|ий|ая|ое|ую|ого|ом|ому|ым|ей|ья|ье|ью|ьего|ьем|ьей|ьим|ьему",
        "последн",
    ),
)


def _ordinals() -> dict[str, int]:
    made: dict[str, int] = {}
    for stems, endings, last in _STEMS:
        for ending in endings.split("|"):
            for place, stem in enumerate(stems.split(), start=1):
                made.setdefault(fold(stem + ending), place)
            for stem in last.split("|"):
                made.setdefault(fold(stem + ending), LAST)
    made |= {"seconde": 2, "последний": LAST, "последняя": LAST, "последнее": LAST, "последнюю": LAST}
    return made


def fold(text: str) -> str:
    """Return a text without case and accents."""
    return unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text.casefold())))


_ORDINALS = _ordinals()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a question asks for.

    `places`: the items that it counts to, from 1, LAST for the last. `guesses`: the same, of a mere number.
    `kind`: the word that says which items are counted ("the second failed build": `fail`), else None.
    `words`: the rest that carries meaning, comparable to `stems_of` a line.
    """

    places: tuple[int, ...] = ()
    guesses: tuple[int, ...] = ()
    kind: str | None = None
    words: frozenset[str] = frozenset()


def stems_of(text: str) -> frozenset[str]:
    """Return what of a text is compared: stems, pairs of letters where there are no spaces, emoji."""
    return frozenset(stem for token in _tokens(text) for stem in _stems(token))


def read_question(text: str) -> Asked:
    """Find out which items and which words a question means."""
    tokens = _tokens(text)
    places, guesses, kind, used = _Counter(tokens).read()
    folded = fold(text)
    for match in _HAN_PLACE.finditer(folded):
        number = match[1] or match[2]
        places.append(_HAN.get(number) or int(number))
    if _HAN_LAST.search(folded):
        places.append(LAST)
    meant = [token for at, token in enumerate(tokens) if at not in used and token not in _STOP]
    words = frozenset(stem for token in meant for stem in _stems(token))
    return Asked(places=tuple(dict.fromkeys(places)), guesses=tuple(guesses), kind=kind, words=words)


class _Counter:
    """Reads the counting words of one question."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._used: set[int] = set()

    def read(self) -> tuple[list[int], list[int], str | None, set[int]]:
        places: list[int] = []
        guesses: list[int] = []
        kind: str | None = None
        for at, token in enumerate(self._tokens):
            if at in self._used:
                continue
            found = self._place(at, token)
            if found:
                places.extend(found)
                kind = kind or self._kind(at)
            elif (guess := self._guess(at, token)) is not None:
                guesses.append(guess)
        return places, guesses, kind, self._used

    def _place(self, at: int, token: str) -> list[int]:
        place = _ORDINALS.get(token)
        after, before = self._at(at + 1), self._at(at - 1)
        if place is not None:
            return self._counted(at, place, before, after)
        number = _number(token)
        if number is None:
            return []
        numeral = _NUMERAL.match(token)
        if before in _OF_NUMBER or (numeral is not None and numeral[2]):
            self._used |= {at, at - 1} if before in _OF_NUMBER else {at}
            return [number]
        return []

    def _counted(self, at: int, place: int, before: str, after: str) -> list[int]:
        count = _number(after) or 0
        if place == LAST and (after in _OF_WHEN or _UNITS_OF_TIME.match(after)):
            return []
        if count and _UNITS_OF_TIME.match(self._at(at + 2)):
            return []  # "the last 24 hours"
        if place == 2 and before in _NOT_BEFORE_SECOND:
            return []
        self._used.add(at)
        if place in (1, LAST) and 1 < count <= 20:
            self._used.add(at + 1)
            return list(range(1, count + 1)) if place == 1 else list(range(-count, 0))
        return [place]

    def _kind(self, at: int) -> str | None:
        word = self._at(at + 1)
        if not word or not word[0].isalnum() or word in _ITEM_WORDS or word in _STOP or word in _ORDINALS:
            return None
        return _stem(word)

    def _guess(self, at: int, token: str) -> int | None:
        number = _number(token)
        is_last = not self._at(at + 1).strip("?!.…")
        if number is None or not (is_last or self._at(at - 1) in _BEFORE_BARE):
            return None
        return number

    def _at(self, at: int) -> str:
        return self._tokens[at] if 0 <= at < len(self._tokens) else ""


def _number(token: str) -> int | None:
    numeral = _NUMERAL.match(token)
    return (int(numeral[1]) or None) if numeral else _CARDINALS.get(token)


def _tokens(text: str) -> list[str]:
    return [token for token in _TOKEN.findall(fold(text)) if token[0].isalnum() or token in "#№?!." or _is_sign(token)]


def _is_sign(token: str) -> bool:
    return unicodedata.category(token) == "So"


def _stems(token: str) -> Iterator[str]:
    if not token[0].isalnum():
        if _is_sign(token):
            yield token
    elif _UNSPACED.search(token):
        yield from (token[at : at + 2] for at in range(max(1, len(token) - 1)))
    elif token not in _ITEM_WORDS or token.isdigit():
        yield _stem(token)


def _stem(word: str) -> str:
    """Cut an English ending off, roughly: `failed`, `fails`, `failing` and `failures` meet in `fail`."""
    if word.endswith("ies") and len(word) > _SHORTEST_STEM + 2:
        return f"{word[:-3]}y"
    ending = next((e for e in _ENDINGS if word.endswith(e) and len(word) - len(e) >= _SHORTEST_STEM), "")
    stem = word[: len(word) - len(ending)]
    return stem[:-1] if len(stem) > _SHORTEST_STEM and stem[-1] == stem[-2] else stem
