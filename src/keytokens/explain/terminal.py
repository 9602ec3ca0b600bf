"""An Explanation on a terminal: in colour there, as plain lines in a pipe."""

from typing import Any

from keytokens.explain.explanation import Explanation

_SHOWN = 10
_LEVELS = 9


def level(amount: float, largest: float) -> int:
    """0..9: how strongly an amount is shown beside the largest one; 0 is not shown."""
    if largest <= 0:
        return 0
    return min(_LEVELS, round(_LEVELS * abs(amount) / largest))


def percent(p: float) -> str:
    """A probability in words that never claim certainty."""
    if 0.999 < p < 1 or 0 < p < 0.001:
        return "> 99.9 %" if p > 0.5 else "< 0.1 %"
    return f"{100 * p:.1f} %"


def sentences(why: Explanation) -> list[str]:
    """What the explanation says, in a few lines."""
    return [
        f"{why.label} ({percent(why.probabilities[why.label])}), logit {why.logit:+.4g}"
        + (f" for {why.explained_class}" if why.explained_class != why.label else ""),
        f"attention is spread over {why.effective_tokens:.1f} effective tokens; "
        f"{why.tokens_carrying(0.8)} carry 80 % of the contributions",
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
    if why.flipping is None:
        return "no removal of tokens changes the decision"
    names = why.names(why.flipping)
    proven = "smallest set" if why.flipping.exact else "a small set"
    return f"{proven} whose removal changes it ({len(names)}): {_list(names)}"


def _list(names: list[str]) -> str:
    more = f", and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def top_lines(why: Explanation) -> list[tuple[str, float, float]]:
    """The distinct n-grams that carry most, with weight and contribution."""
    return why.features[:_SHOWN]


def plain(why: Explanation) -> str:
    """Lines without colour."""
    width = max((len(name) for name, _, _ in top_lines(why)), default=5)
    rows = [f"  {name:<{width}}  {w:>9.4f}  {c:>+9.4f}" for name, w, c in top_lines(why)]
    head = f"  {'token':<{width}}  attention  contribution"
    return "\n".join([*sentences(why), head, *rows])


def show(why: Explanation, console: Any) -> None:
    """Print to a rich console: highlighted text on a terminal, plain lines in a pipe."""
    if not console.is_terminal:
        console.print(plain(why), markup=False, highlight=False, soft_wrap=True)
        return
    console.print(highlighted(why), soft_wrap=True)
    console.print(plain(why), markup=False, highlight=False)


def highlighted(why: Explanation) -> Any:
    """The original text; blue speaks for, orange against, stronger is bolder and underlined."""
    from rich.text import Text

    shown = Text(why.text)
    words = [word for word in why.words if not word.is_constant]
    largest = max((abs(word.contribution) for word in words), default=0.0)
    for word in words:
        strength = level(word.contribution, largest)
        if strength >= 1:
            shown.stylize(_style(strength, word.contribution > 0), word.start, word.end)
    return shown


def _style(strength: int, positive: bool) -> str:
    """One colour a sign; underline for the stronger half, bold for the strongest third."""
    colour = "dodger_blue2" if positive else "dark_orange3"
    marks = ("underline " if strength > 4 else "") + ("bold " if strength > 6 else "")
    return f"{marks}{colour}"
