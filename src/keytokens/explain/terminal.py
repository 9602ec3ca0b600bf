"""An Explanation on a terminal: in colour there, as plain lines in a pipe."""

from typing import Any

from keytokens.explain.explanation import CLS, Explanation, Feature

_SHOWN = 10
_LEVELS = 9
# What would steer the terminal is shown as a picture of it: same length, no effect.
_CONTROLS = {code: 0x2400 + code for code in range(32)} | dict.fromkeys(range(127, 160), 0xFFFD)
_IN_TEXT = _CONTROLS | {9: 9, 10: 10, 13: 32}


def level(amount: float, largest: float) -> int:
    """0..9: how strongly an amount is shown beside the largest one; 0 is not shown."""
    if largest <= 0:
        return 0
    return min(_LEVELS, round(_LEVELS * abs(amount) / largest))


def percent(p: float) -> str:
    """A probability in words that never claim certainty."""
    if 0.001 <= p <= 0.999:
        return f"{100 * p:.1f} %"
    return "> 99.9 %" if p > 0.5 else "< 0.1 %"


def shown(x: float) -> str:
    """Four decimals; fewer from ten on, and two digits of what they would hide."""
    if abs(x) >= 10:
        return f"{x:.2f}" if abs(x) < 100 else f"{x:.1f}"
    return f"{x:.4f}" if x == 0 or abs(x) >= 0.01 else f"{x:.2g}"


def sentences(why: Explanation) -> list[str]:
    """What the explanation says, in a few lines."""
    return [
        f"decision: {why.label} ({percent(why.probabilities[why.label])}), logit {why.logit:+.4g}"
        + (f" for {why.explained_class}" if why.explained_class != why.label else ""),
        f"attention is spread over {why.effective_tokens:.1f} effective tokens; "
        f"80 % of the contributions lie on {why.tokens_carrying(0.8)}",
        _sufficient(why),
        _flipping(why),
    ]


def _sufficient(why: Explanation) -> str:
    names = why.names(why.sufficient)
    if not names:
        return "the decision stands without any known token: the constant part alone keeps it"
    proven = "smallest set" if why.sufficient.exact else "a small set"
    return f"{proven} that alone keeps the decision ({len(names)}): {_list(names)}"


def _flipping(why: Explanation) -> str:
    if why.flipping is None and len(why.bag.attention) > 1:
        return "no removal of tokens was found that changes the decision"
    if why.flipping is None:
        return "no removal of tokens changes the decision"
    names = why.names(why.flipping)
    proven = "smallest set" if why.flipping.exact else "a small set"
    return f"{proven} whose removal changes it ({len(names)}): {_list(names)}"


def _list(names: list[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(quoted, names[:_SHOWN])) + more


def quoted(name: str) -> str:
    """In quotes, since a comma may be a token, too; <cls> is none of the text's."""
    return name if name == CLS else f"“{name}”"


def top_features(why: Explanation) -> list[Feature]:
    """What carries most."""
    return why.features[:_SHOWN]


def plain(why: Explanation) -> str:
    """Lines without colour; the last column sums to the logit."""
    lines = [*sentences(why), *_columns(_rows(why)), *_classes(why)]
    return "\n".join(line.translate(_CONTROLS) for line in lines)


def _rows(why: Explanation) -> list[tuple[str, str, str, str]]:
    """The features that carry most, the rest together, the bias, and their sum."""
    top, rest = top_features(why), why.features[_SHOWN:]
    rows = [(f.text, shown(f.attention), signed(f.value), signed(f.contribution)) for f in top]
    if rest:
        weight, credit = (sum(part) for part in zip(*((f[1], f[3]) for f in rest), strict=True))
        rows.append((f"({len(rest)} more)", shown(weight), "", signed(credit)))
    if why.bias:
        rows.append(("(bias)", "", "", signed(why.bias)))
    head = ("token", "attention", "value", "contribution")
    return [head, *rows, (f"(logit for {why.explained_class})", "", "", signed(why.logit))]


def _columns(rows: list[tuple[str, str, str, str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        f"  {row[0]:<{widths[0]}}"
        + "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    ]


def _classes(why: Explanation) -> list[str]:
    """With more than two classes: what speaks for and against each."""
    if len(why.classes) <= 2:
        return []
    rows = [
        f"  {side.label}: {_names(side.for_it)} | against: {_names(side.against)}"
        for side in why.sides(4)
    ]
    return ["for and against each class:", *rows]


def _names(listed: list[tuple[str, float]]) -> str:
    return ", ".join(quoted(name) for name, _ in listed) or "–"


def signed(x: float) -> str:
    """A number that always shows its sign."""
    return ("-" if x < 0 else "+") + shown(abs(x))


def show(why: Explanation, console: Any) -> None:
    """Print to a rich console: highlighted text on a terminal, plain lines in a pipe."""
    if not console.is_terminal:
        console.print(plain(why), markup=False, highlight=False, soft_wrap=True)
        return
    console.print(highlighted(why), soft_wrap=True)
    console.print(_legend(why), soft_wrap=True)
    console.print(plain(why), markup=False, highlight=False)


def highlighted(why: Explanation) -> Any:
    """The original text: blue speaks for, underlined orange against, the strongest are bold."""
    from rich.text import Text

    text = Text(why.text.translate(_IN_TEXT))
    words = [word for word in why.words if not word.is_constant]
    largest = max((abs(word.contribution) for word in words), default=0.0)
    for word in words:
        strength = level(word.contribution, largest)
        if strength >= 1:
            text.stylize(_style(strength, word.contribution > 0), word.start, word.end)
    return text


def _legend(why: Explanation) -> Any:
    from rich.text import Text

    for_it = (f"speaks for {why.explained_class}", _style(1, True))
    return Text.assemble("(", for_it, "  ", ("against it", _style(1, False)), ", stronger: bold)")


def _style(strength: int, positive: bool) -> str:
    """One colour a sign, and a line under what speaks against; the stronger half is bold."""
    sign = "dodger_blue2" if positive else "underline dark_orange3"
    return f"bold {sign}" if strength > 4 else sign
