"""The project's site: every page whole, every link leading somewhere, nothing loaded from elsewhere."""

import html
import os
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from needs import need

need("kvloupe", "kvloupe-capture")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([ROOT / "scripts/site.sh", folder], check=True)
    return folder


def pages(site):
    return {path.relative_to(site): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}


def test_has_every_lesson_and_page_of_docs(site):
    names = {str(name) for name in pages(site)}
    for lesson in (ROOT / "assets/lessons").glob("*.md"):
        assert f"{lesson.stem}.html" in names
    for page in (ROOT / "docs").glob("*.md"):
        assert f"docs/{page.stem}.html" in names
    assert {"index.html", "trace.html", "glossary.html", "claims.html", "docs/index.html"} <= names


def test_links_lead_somewhere(site):
    texts = pages(site)
    ids = {name: set(re.findall(r'\bid="([^"]*)"', text)) for name, text in texts.items()}
    links = 0
    for name, text in texts.items():
        body = re.sub(r"<script.*?</script>", "", text, flags=re.S)
        for address in re.findall(r'<(?:a|img)\b[^>]*?(?:href|src)="([^"]*)"', body):
            address = html.unescape(address)
            if re.match(r"(https?:|mailto:|data:)", address):
                continue
            file, _, anchor = address.partition("#")
            target = Path(os.path.normpath(name.parent / file)) if file else name
            assert (site / target).exists(), f"{name}: {address}"
            if anchor and target in ids:
                assert anchor in ids[target], f"{name}: {address}"
            links += 1
    assert links > 200
    reached, todo = set(), [Path("index.html")]
    while todo:
        name = todo.pop()
        if name in reached or name not in texts:
            continue
        reached.add(name)
        todo += [Path(os.path.normpath(name.parent / html.unescape(a).partition("#")[0]))
                 for a in re.findall(r'<a\b[^>]*href="([^":]+)"', texts[name])]
    assert reached == set(texts), "pages that no link leads to"


def test_loads_nothing_and_is_well_formed(site):
    for name, text in pages(site).items():
        assert "default-src 'none'" in text, name
        assert not re.search(r'<(script|link|iframe|img)\b[^>]*(src|href)="(https?:)?//', text), name
        if name.parent == Path(".") and name.name != "trace.html":
            ElementTree.fromstring(text.encode())


def test_glossary_has_every_word(site):
    text = (site / "glossary.html").read_text(encoding="utf-8")
    for word in re.findall(r"^- \*\*([^*]+)\*\*", (ROOT / "docs/glossary.md").read_text(encoding="utf-8"), re.M):
        assert f"<strong>{html.escape(word, quote=False)}</strong>" in text
