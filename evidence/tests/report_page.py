"""Reads a report page strictly: tags must nest; texts, tables and links come out by element id."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input", "wbr", "col"}
#: what carries a value in a drawing; grid lines and texts do not
MARKS = {"rect", "circle", "polyline", "path"}
#: stands for the element that holds the same marks again, for a narrow window; no id is empty
NARROW = ("div", "")


class Page(HTMLParser):
    """Elements by id, table cells by table id, and a check that tags nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.stack: list[tuple[str, str | None]] = []
        self.ids: list[str] = []
        self._texts: dict[str, list[str]] = {}
        self.rows: dict[str, list[list[str]]] = {}
        self.links: list[str] = []
        self.marks: dict[str, int] = {}
        self.kinds: dict[str, str] = {}
        self.silent: set[str] = set()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert self.stack == [], f"unclosed: {self.stack}"
        self.text_of = {name: "".join(parts) for name, parts in self._texts.items()}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append((tag, values))
        name = values.get("id")
        if name:
            self.ids.append(name)
            self.kinds[name] = tag
            self._texts[name] = []
        if tag == "a" and values.get("href"):
            self.links.append(str(values["href"]))
        if tag == "li" and "t-none" in (values.get("class") or ""):
            self.silent |= {outer for _, outer in self.stack if outer}
        if tag in MARKS and "empty" not in (values.get("class") or "") and NARROW not in self.stack:
            for _, outer in self.stack:
                if outer:
                    self.marks[outer] = self.marks.get(outer, 0) + 1
        if tag not in VOID:
            self.stack.append(NARROW if values.get("class") == "narrow" else (tag, name))
        table = self._table()
        if tag == "tr" and table:
            self.rows.setdefault(table, []).append([])
        if tag in {"td", "th"} and table:
            self.rows[table][-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.stack.pop()

    def handle_endtag(self, tag: str) -> None:
        opened, _ = self.stack.pop()
        assert opened == tag, f"<{opened}> closed by </{tag}>"

    def handle_data(self, data: str) -> None:
        if any(tag in {"style", "script"} for tag, _ in self.stack):
            return
        for _, name in self.stack:
            if name:
                self._texts[name].append(data)
        table = self._table()
        if table and any(tag in {"td", "th"} for tag, _ in self.stack) and self.rows.get(table):
            self.rows[table][-1][-1] += data

    def _table(self) -> str | None:
        return next((name for tag, name in reversed(self.stack) if tag == "table"), None)

    def why_empty(self, name: str) -> str | None:
        """What is missing of the element with that id: None where it holds values.

        A drawing needs marks; a table a row with a value beside its head; a list of findings a statement;
        anything else text.
        """
        if name not in self.ids:
            return "no such element"
        if self.kinds[name] == "figure":
            return None if self.marks.get(name) else "a drawing without a mark"
        if name in self.rows:
            values = [cell.strip() for row in self.rows[name][1:] for cell in row[1:]]
            said = [v for v in values if v not in {"", "–", "insufficient"}]
            known = [v for v in said if not v.startswith("not measured")]
            return None if known else "a table without a value"
        if self.kinds[name] == "ol" and name in self.silent:
            return "no statement"
        return None if self.text_of[name].strip() else "no text"
