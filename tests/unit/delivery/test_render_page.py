"""What the local page shows, and what it never does."""

import pytest

from delivery.render import RenderedPart, render_local, to_html


def test_a_brief_is_one_part_however_long() -> None:
    brief = "# Long\n\n" + "word " * 50_000
    assert render_local(brief) == (RenderedPart(payload={"text": brief}, text=brief),)


def test_an_empty_brief_makes_no_message() -> None:
    assert render_local(" \n") == ()


def test_markdown_becomes_html() -> None:
    assert to_html("**b** `c`\nnext\n\n- i") == (
        "<p><strong>b</strong> <code>c</code><br />\nnext</p>\n<ul>\n<li>i</li>\n</ul>\n"
    )


@pytest.mark.parametrize(
    "markdown",
    ["<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a <b onclick='x'>c</b>", "&lt;script&gt;", "`<i>`"],
)
def test_html_in_a_brief_is_text(markdown: str) -> None:
    html = to_html(markdown)
    assert "&lt;" in html
    assert not any(tag in html for tag in ("<script", "<img", "<b ", "<i>"))


@pytest.mark.parametrize(
    "address",
    ["javascript:alert(1)", "JaVaScRiPt:x", "data:text/html,x", "vbscript:x", "file:///etc", "//e.org"],
)
def test_links_lead_to_the_web_and_to_mail_only(address: str) -> None:
    html = to_html(f"[click]({address}) ![p]({address}) <{address}>")
    assert "href" not in html and "<img" not in html
    assert "click" in html


def test_links_open_apart() -> None:
    link = '<a href="https://e.org/a_(b)" rel="noopener noreferrer" target="_blank">'
    assert to_html("[x](https://e.org/a_(b))") == f"<p>{link}x</a></p>\n"
    assert to_html("see (https://e.org/a_(b)).") == f"<p>see ({link}https://e.org/a_(b)</a>).</p>\n"
    assert 'href="mailto:kim@e.org"' in to_html("<kim@e.org>")


def test_a_picture_calls_nobody() -> None:
    assert ">the chart</a>" in to_html("![the chart](https://e.org/c.png)")
    assert "<img" not in to_html("![the chart](https://e.org/c.png)")


def test_attributes_cannot_be_broken_out_of() -> None:
    html = to_html('[x](https://e.org/"onmouseover="y) ```"><b>\n```\n[y](<https://e.org/"><script>>)')
    assert '"onmouseover' not in html and "<script" not in html and "<b>" not in html


def test_nothing_is_lost_in_deep_nesting_or_wide_rows() -> None:
    assert "still here" in to_html(">" * 200 + " still here")
    assert "extra" in to_html("| a |\n|---|\n| 1 | extra |")
    assert "https://f.org" in to_html("[2]: https://f.org")
