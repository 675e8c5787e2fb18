"""HTML and SVG as trees: what is put into a tree is escaped when it is written, so no text of a history can become
markup."""

from __future__ import annotations

from xml.etree.ElementTree import Element, tostring

Child = Element | str | int | float | None


def element(name: str, /, *children: Child, **attributes: object) -> Element:
    """Attributes are spelled as in Python: a trailing underscore is dropped, others are hyphens; None leaves one
    out."""
    made = Element(name, {_attribute(key): str(value) for key, value in attributes.items() if value is not None})
    for child in children:
        if isinstance(child, Element):
            made.append(child)
        elif child is not None:
            _append_text(made, str(child))
    return made


def _attribute(key: str) -> str:
    return key if key == "viewBox" else key.rstrip("_").replace("_", "-")


def _append_text(to: Element, text: str) -> None:
    """Characters that HTML has no place for are shown as what they are not: missing."""
    text = "".join(char if char.isprintable() or char in "\n\t" else "\N{REPLACEMENT CHARACTER}" for char in text)
    if len(to):
        to[-1].tail = (to[-1].tail or "") + text
    else:
        to.text = (to.text or "") + text


def table(headings: list[str], rows: list[list[Child]], *, empty: str) -> Element:
    if not rows:
        return element("p", empty, class_="quiet")
    head = element("tr", *(element("th", heading, scope="col") for heading in headings))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    return element(
        "div", element("table", element("thead", head), element("tbody", *body)), class_="scroll", tabindex="0"
    )


def chip(text: str, kind: str) -> Element:
    return element("span", text, class_=f"chip {kind}")


def page_of(root: Element) -> str:
    return "<!doctype html>\n" + tostring(root, encoding="unicode", method="html") + "\n"
