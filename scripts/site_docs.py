#!/usr/bin/python3
"""Writes README.md, CONTRIBUTING.md and docs/*.md as web pages: site_docs.py FOLDER. Needs Debian's python3-markdown.

Links between pages stay links. Of links to files of the source tree, which a site does not have, the words stay."""
import html
import os
import re
import shutil
import sys
from pathlib import Path

import markdown

ROOT = Path(__file__).resolve().parents[1]
STYLE = """:root { color-scheme: light dark }
body { margin: 0 auto; padding: 24px 24px 64px; max-width: 860px; font: 16px/1.55 Inter, "DejaVu Sans", system-ui, sans-serif }
h1 { font-size: 26px; line-height: 1.25 } h2 { font-size: 21px; margin-top: 36px } h3 { font-size: 17px }
nav { display: flex; gap: 16px; font-size: 14px }
a { color: LinkText }
img { max-width: 100%; height: auto; background: #fff }
code, pre { font-family: "JetBrains Mono", "DejaVu Sans Mono", monospace; font-size: 0.9em }
pre { padding: 8px 12px; overflow-x: auto; background: rgb(128 128 128 / 0.14) }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: 14px }
th, td { padding: 3px 14px 3px 0; text-align: left; vertical-align: top; border-bottom: 1px solid rgb(128 128 128 / 0.4) }"""
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src 'self' data:; style-src 'unsafe-inline'"/>
<title>{title}</title>
<style>
{style}
</style>
</head>
<body>
<nav aria-label="Site"><a href="../index.html">All lessons</a> <a href="index.html">Documentation</a></nav>
<main>
{body}
</main>
</body>
</html>
"""


def slug(heading, separator):
    """The anchor of a title, as the pages' own links name it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", separator)


def pages():
    """Page of the site → file of the tree."""
    found = {"index.html": ROOT / "README.md", "contributing.html": ROOT / "CONTRIBUTING.md"}
    for path in sorted((ROOT / "docs").glob("*.md")):
        found[path.stem + ".html"] = path
    return found


def page_html(path, names):
    text = path.read_text(encoding="utf-8")
    # Lists and code that follow a paragraph at once are lists and code.
    body = markdown.markdown(text, extensions=["tables", "fenced_code", "sane_lists", "toc"],
                             extension_configs={"toc": {"slugify": slug}})

    def link(match):
        address, words = html.unescape(match[1]), match[2]
        if re.match(r"(https?:|mailto:|#)", address):
            return match[0]
        file, _, anchor = address.partition("#")
        name = names.get(os.path.normpath(path.parent / file))
        if name is None:
            return words
        return f'<a href="{name}{"#" + anchor if anchor else ""}">{words}</a>'

    body = re.sub(r'<a href="([^"]*)">(.*?)</a>', link, body, flags=re.S)
    body = re.sub(r'(<img [^>]*src=")(?:docs/)?images/', r"\1images/", body)
    body = body.replace("<table>", '<div class="wide"><table>').replace("</table>", "</table></div>")
    title = re.search(r"^# (.*)$", text, re.M)
    return PAGE.format(title=html.escape(title[1] if title else path.stem), style=STYLE, body=body)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    names = {os.path.normpath(path): name for name, path in pages().items()}
    for name, path in pages().items():
        (folder / name).write_text(page_html(path, names), encoding="utf-8")
    shutil.copytree(ROOT / "docs/images", folder / "images", dirs_exist_ok=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
