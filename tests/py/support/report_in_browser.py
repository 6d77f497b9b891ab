# SPDX-License-Identifier: MIT
"""Opens a report in headless Chromium, uses it, and prints the outcome as one JSON object: for
test_browser.py.

A process of its own, so that a browser that hangs can be ended and tried again.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, sync_playwright

PATIENCE_MS = 200_000
"""A loaded machine draws slowly."""
OPTIONS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
"""The page is our own and the machine perhaps a container, without a sandbox or much shared
memory."""
SERIOUS = ("serious", "critical")


class Watched:
    """A page, and everything that it said, asked for or broke."""

    def __init__(self, browser: BrowserContext, path: str) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page = page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on(
            "dialog",
            lambda dialog: (self.said.append(f"dialog: {dialog.message}"), dialog.dismiss()),
        )
        page.on(
            "request",
            lambda request: (
                self.asked.append(request.url)
                if not request.url.startswith(("data:", "blob:"))
                else None
            ),
        )
        page.goto(Path(path).as_uri(), wait_until="commit")
        self.drawn()

    def drawn(self, theme: str = "") -> str:
        ready = "document.documentElement.dataset.ready"
        assert until(self.page, f"{ready} === '{theme}'" if theme else f"{ready} !== undefined")
        return self.page.evaluate(ready)


def until(page: Page, expression: str, argument: object = None, turns: int = 4000) -> bool:
    """Whether an expression became true within so many turns of the page, which answers between
    its tasks; asked from outside, since the page's policy forbids evaluation."""
    for _ in range(turns):
        if page.evaluate(expression, argument):
            return True
        page.wait_for_timeout(50)
    return False


def findings(page: Page) -> list[str]:
    """What axe calls serious or worse, and skipped headings, with the first place of each."""
    found = Axe().run(page).response["violations"]
    return [
        f"{v['id']} ({v['impact']}): {v['nodes'][0]['html'][:200]}"
        for v in found
        if v["impact"] in SERIOUS or v["id"] == "heading-order"
    ]


def marks(page: Page) -> dict[str, int]:
    """Shapes with a colour in each figure's picture: none when nothing was drawn."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("figure[data-figure]")].map((f) =>
          [f.dataset.figure, [...f.querySelectorAll(".chart svg [class*=role-mark] path")]
            .filter((p) => (p.getAttribute("d") || "").length > 4).length]))"""
    )


def unreadable(page: Page) -> list[str]:
    """Texts of charts that another text covers, or that lie outside the place of their chart; the
    explorer's own axis is scrolled along."""
    return page.evaluate(
        """() => [...document.querySelectorAll("figure[data-figure]")].flatMap((figure) => {
          const frame = figure.querySelector(".scroll").getBoundingClientRect();
          const texts = [...figure.querySelectorAll(".chart svg text")]
            .filter((t) => t.textContent.trim() && getComputedStyle(t).opacity > 0)
            .map((t) => [t.textContent, t.getBoundingClientRect()]);
          const cut = figure.dataset.figure === "explore" ? [] : texts
            .filter(([, b]) => b.left < frame.left - 1 || b.right > frame.right + 1);
          const over = texts.filter(([, a], n) => texts.slice(n + 1).some(([, b]) =>
            Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
            && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4));
          return [...cut.map(([t]) => `${figure.dataset.figure}: cut: ${t}`),
                  ...over.map(([t]) => `${figure.dataset.figure}: covered: ${t}`)];
        })"""
    )


def strokes(page: Page) -> list[list[float]]:
    """Of each dashed stroke of a legend: its length, and that of its pattern."""
    return page.evaluate(
        """() => [...document.querySelectorAll(".role-legend-symbol path[stroke-dasharray]")]
          .map((path) => [path.getBBox().width,
            path.getAttribute("stroke-dasharray").split(",").reduce((a, b) => a + Number(b), 0)])"""
    )


def cut_captions(page: Page) -> list[str]:
    """Captions of tables that reach beyond what is shown of the table."""
    return page.evaluate(
        """() => [...document.querySelectorAll("caption:not(.hidden)")].filter((caption) => {
          const range = document.createRange();
          range.selectNodeContents(caption);
          const frame = caption.closest(".scroll").getBoundingClientRect();
          return range.getBoundingClientRect().right > frame.right + 1;
        }).map((caption) => caption.textContent)"""
    )


def broken_words(page: Page) -> list[str]:
    """Words of the title that stand on two lines, however wide it is: a hyphen may end a line."""
    return page.evaluate(
        """() => {
          const title = document.querySelector("h1");
          const broken = new Set();
          for (let width = 80; width < 400; width += 4) {
            title.style.width = `${width}px`;
            for (const { firstChild: text } of title.querySelectorAll("span"))
              for (const word of text.textContent.matchAll(/\\S+/g)) {
                const range = document.createRange();
                range.setStart(text, word.index);
                range.setEnd(text, word.index + word[0].length);
                if (range.getClientRects().length > 1) broken.add(word[0]);
              }
          }
          title.style.width = "";
          return [...broken];
        }"""
    )


def first_columns(page: Page) -> list[str]:
    """Columns of the table of every cell that are seen whole before it is scrolled."""
    return page.evaluate(
        """() => [...document.querySelectorAll("#cell-table th")].filter((head) =>
          head.getBoundingClientRect().right
            <= head.closest(".scroll").getBoundingClientRect().right + 1)
          .map((head) => head.textContent)"""
    )


def parted(page: Page) -> list[str]:
    """Of the printed page what stands above a section's first chart and lets a page end there."""
    return page.evaluate(
        """() => [...document.querySelectorAll("main > section")].flatMap((section) => {
          const figure = section.querySelector("figure");
          if (!figure) return [];
          const above = [...section.querySelectorAll("h2, .about, .controls, figcaption")]
            .filter((part) => part.compareDocumentPosition(figure) & 4 || figure.contains(part));
          const parts = (part, where) => getComputedStyle(part)[where] !== "avoid";
          return above.filter((part) => parts(part, "breakAfter")
            || (part.matches(".about, .controls") && parts(part, "breakInside")))
            .map((part) => `${section.id}: ${part.tagName} ${part.className}`);
        })"""
    )


def inks(page: Page) -> list[list[str | None]]:
    """The colours of every shape and text of the charts; a gradient has another name in each
    picture."""
    return page.evaluate(
        """() => [...document.querySelectorAll("figure[data-figure] .chart svg *")]
          .map((shape) => ["fill", "stroke", "stop-color"].map((name) => shape.getAttribute(name)))
          .map((inks) => inks.map((ink) => ink?.replace(/^url.*/, "url")))"""
    )


def bars(page: Page) -> list[list[float]]:
    """Of each bar of the price list: its length in pixels, and its value over the scale's least."""
    return page.evaluate(
        """() => [...document.querySelectorAll("#prices figure")].flatMap((figure) => {
          const { spec } = JSON.parse(document.getElementById("data").textContent)
            .figures[figure.dataset.figure];
          const rows = Object.values(spec.datasets)[0];
          const drawn = [...figure.querySelectorAll(".chart svg .mark-rect.role-mark path")];
          const least = spec.layer[0].encoding.x.scale.domain[0];
          return drawn.map((bar, n) => [bar.getBBox().width, rows[n].ns / least]);
        })"""
    )


def pictures(page: Page, section: str) -> str:
    return page.evaluate(
        "(id) => [...document.querySelectorAll(`#${id} .chart`)].map((c) => c.innerHTML).join('')",
        section,
    )


def controls(page: Page) -> dict[str, bool]:
    """Every choice above charts, last option taken: whether a picture changed."""
    changed = {}
    for select in page.query_selector_all("select[data-signal]"):
        section = select.evaluate("(s) => s.closest('section').id")
        values = select.evaluate("(s) => [...s.options].map((o) => o.value)")
        before = pictures(page, section)
        select.select_option(values[-1])
        other = (
            "([id, old]) => [...document.querySelectorAll(`#${id} .chart`)].map((c) => "
            "c.innerHTML).join('') !== old"
        )
        changed[f"{section} {select.get_attribute('data-signal')}"] = until(
            page, other, [section, before], 600
        )
    return changed


def explorer(page: Page) -> dict:
    """Each choice of the explorer taken by the keyboard: whether picture and table changed, and
    what is offered then."""
    answer: dict = {"first": table_of_explorer(page)}
    for name, keys in (
        ("operation", "fetch"),
        ("axis", "units"),
        ("figure", "exp"),
    ):
        before = pictures(page, "explore"), table_of_explorer(page)
        page.focus(f"#explore-{name}")
        page.keyboard.type(keys)
        changed = "([old]) => document.querySelector('#explore .chart').innerHTML !== old"
        answer[f"{name} {keys}"] = until(page, changed, [before[0]], 600)
    answer["said"] = page.text_content("#explore-said")
    answer["caption"] = page.text_content("#explore-caption")
    answer["last"] = table_of_explorer(page)
    return answer


def table_of_explorer(page: Page) -> list[list[str]]:
    return page.evaluate(
        "[...document.querySelectorAll('#explore-table tr')].map((r) => [...r.cells].map((c) => "
        "c.textContent))"
    )


def table(page: Page) -> dict:
    """Filtering, sorting with the keyboard, all columns."""
    rows = lambda: page.evaluate(
        "[...document.querySelectorAll('#cell-table tbody tr')].map((r) => [...r.cells].map((c) "
        "=> c.textContent))"
    )
    answer: dict = {"all": len(rows())}
    page.fill("#cell-filter", "ldadd placebo")
    answer["filtered"] = sorted({row[3] for row in rows()}), len(rows())
    answer["count"] = page.text_content("#cell-count")
    page.fill("#cell-filter", "")
    page.select_option("#cell-contender", "same_line")
    answer["contended"] = len(rows())
    page.select_option("#cell-contender", "")
    heads = page.evaluate(
        "[...document.querySelectorAll('#cell-table th')].map((h) => h.textContent)"
    )
    place = heads.index("median ns")
    for direction in ("ascending", "descending"):
        page.focus(f"#cell-table th:nth-child({place + 1}) button")
        page.keyboard.press("Enter")
        answer[direction] = [float(row[place]) for row in rows()]
        answer[f"{direction} said"] = page.get_attribute(
            f"#cell-table th:nth-child({place + 1})", "aria-sort"
        )
    page.check("#cell-all")
    answer["columns"] = len(heads), len(rows()[0])
    return answer


def saved(page: Page, press: Callable[[], None], folder: Path) -> str:
    with page.expect_download() as waiting:
        press()
    path = folder / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path.name


def use(report: str, hostile: str, folder: Path) -> dict:
    answer: dict = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=os.environ["CHROMIUM"], args=OPTIONS, timeout=PATIENCE_MS
        )
        narrow = browser.new_context(
            viewport={"width": 400, "height": 800}, color_scheme="dark", offline=True
        )
        watched = Watched(narrow, report)
        answer["theme of the system"] = watched.drawn()
        answer["axe, dark, narrow"] = findings(watched.page)
        answer["overflow"] = watched.page.evaluate(
            "document.documentElement.scrollWidth - innerWidth"
        )
        answer["unreadable, narrow"] = unreadable(watched.page)
        answer["captions, narrow"] = cut_captions(watched.page)
        answer["title, narrow"] = broken_words(watched.page)
        answer["first columns, narrow"] = first_columns(watched.page)
        answer["bars, narrow"] = bars(watched.page)
        answer["strokes"] = strokes(watched.page)
        answer["said, narrow"] = watched.said
        narrow.close()

        context = browser.new_context(
            viewport={"width": 1600, "height": 1000},
            color_scheme="light",
            offline=True,
            accept_downloads=True,
        )
        watched = Watched(context, report)
        page = watched.page
        answer["marks"] = marks(page)
        answer["unreadable, wide"], answer["bars, wide"] = unreadable(page), bars(page)
        answer["controls"] = controls(page)
        answer["explorer"] = explorer(page)
        page.select_option("#theme", "dark")
        watched.drawn("dark")
        answer["background when dark"] = page.evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )
        answer["inks, dark"] = inks(page)
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        answer["inks, printed from dark"] = inks(page)
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        answer["inks, after it"] = inks(page)
        page.select_option("#theme", "light")
        watched.drawn("light")
        answer["inks, light"] = inks(page)
        answer["table"] = table(page)
        page.click("#figure-matrix button[data-table]")
        answer["data rows"] = page.locator("#figure-matrix .figure-data tbody tr").count()
        answer["axe, light, wide"] = findings(page)
        answer["saved"] = [
            saved(page, lambda: page.click("#figure-handoff button[data-save=svg]"), folder),
            saved(page, lambda: page.click("#figure-handoff button[data-save=png]"), folder),
            saved(page, lambda: page.click("#records-save"), folder),
            saved(page, lambda: page.click("#cell-csv"), folder),
        ]
        page.emulate_media(media="print")
        answer["printed"] = page.evaluate(
            "['nav', '.tools', '.save'].map((s) => "
            "getComputedStyle(document.querySelector(s)).display)"
        )
        answer["parted"] = parted(page)
        answer["heads"] = page.evaluate(
            "[...document.querySelectorAll('#cell-table thead th')].map((h) => "
            "[getComputedStyle(h).position, getComputedStyle(h.querySelector('button')).display])"
        )
        answer["said"], answer["asked"] = watched.said, watched.asked

        watched = Watched(context, hostile)
        watched.page.click("#figure-matrix button[data-table]")
        watched.page.fill("#cell-filter", "harm")
        answer["harm"] = watched.page.evaluate("window.harm ?? null")
        answer["hostile, said"], answer["hostile, asked"] = watched.said, watched.asked
        answer["hostile, images"] = watched.page.locator("img").count()
        print(json.dumps(answer), flush=True)
        browser.close()
    return answer


if __name__ == "__main__":
    use(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
