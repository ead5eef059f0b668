"""How long a brief takes to render: python bench/render.py

Prints, for a report as a model writes it and for texts made to be slow, the time and the number of parts at two
sizes; the last column is how much longer the larger one takes per character (1.0 is linear).
"""

import time
from collections.abc import Callable

from delivery.render import RenderedPart, render_slack, render_telegram, to_html

SMALL = 100_000
LARGE = 1_000_000

_REPORT = """## Build *health* for **main**

3 builds failed overnight: [linux](https://ci.example.com/b/(1)), `mac os` and ~~windows~~, see https://ci.example.com.

- first item with **bold** text & List<int>
  - nested item 5 * 3 * 2
1. numbered

> quoted words

```python
for x in range(3):
    print(x)
```

| name | result |
|------|-------:|
| one  | 12     |
| two  | failed |

"""
_TEXTS = {
    "a report": _REPORT,
    "one word": "x",
    "emoji": "\U0001f600",
    "words": "word ",
    "opening brackets": "[",
    "asterisks": "*a ",
    "quotes": "> a\n",
    "table rows": "| a | b |\n",
    "code lines": "    code line here\n",
    "bold words": "**b** ",
    "combining marks": "e\u0301\u0302",
    "mentions": "<!channel> @here ",
}


def main() -> None:
    """Print one line for each text and renderer."""
    renderers: dict[str, Callable[[str], tuple[RenderedPart, ...] | str]] = {
        "slack": render_slack,
        "telegram": render_telegram,
        "page": to_html,
    }
    print(f"{'text':18}{'for':10}{'100 kB':>9}{'1 MB':>9}{'parts':>7}{'growth':>8}")
    for title, unit in _TEXTS.items():
        for name, render in renderers.items():
            small, _ = _measure(render, (unit * SMALL)[:SMALL])
            large, made = _measure(render, (unit * LARGE)[:LARGE])
            growth = large / small / (LARGE / SMALL)
            print(f"{title:18}{name:10}{small:8.2f}s{large:8.2f}s{made:7}{growth:8.1f}")


def _measure(render: Callable[[str], tuple[RenderedPart, ...] | str], text: str) -> tuple[float, int]:
    started = time.perf_counter()
    made = render(text)
    return time.perf_counter() - started, len(made) if isinstance(made, tuple) else 1


if __name__ == "__main__":
    main()
