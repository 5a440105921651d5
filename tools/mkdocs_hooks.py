"""Hooks of mkdocs.yml: the site has the same pages and links as the repository.

The pages of the interfaces (C++, C, Python) are generated from headers and docstrings.
Pages outside docs/ that readers come to (README, CONTRIBUTING, model cards, ...) become pages of the site. Links are
written as a code host needs them, relative to the file; those that leave docs/ are rewritten for the site, and a link
to a file that is no page becomes its path. A link or an anchor that leads nowhere is a warning, which --strict refuses.
"""
import html.parser
import logging
import pathlib
import posixpath
import re
import sys
import urllib.parse

from markdown.blockprocessors import build_block_parser
from markdown.extensions import Extension
from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import api_pages  # noqa: E402

API_PAGES = ROOT / "build/api_pages"
OUTSIDE = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "models/*/README.md",
           "bench/models/*/README.md", "tests/reference/README.md", "train/README.md"]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
PLACE_OF_CODE = re.compile(r"^(```\w+) .+$", re.MULTILINE)  # where tests/check_adding.py puts a block: no language to the site
log = logging.getLogger("mkdocs.hooks")


class ListsOfTwoSpaces(Extension):
    """Nested lists are indented by two spaces, as code hosts read them."""

    def extendMarkdown(self, md):
        md.tab_length = 2
        md.parser = build_block_parser(md)


def slug(heading, separator):
    """The anchor that code hosts give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def on_config(config):
    config["markdown_extensions"].insert(0, ListsOfTwoSpaces())  # before others add to the parser
    config["mdx_configs"].setdefault("toc", {})["slugify"] = slug
    return config


def outside_pages():
    return [path.relative_to(ROOT).as_posix() for pattern in OUTSIDE for path in sorted(ROOT.glob(pattern))]


def on_files(files, config):
    for path in outside_pages():
        page = File(path, str(ROOT), config["site_dir"], config["use_directory_urls"])
        files.append(page)
        for image in sorted((ROOT / path).parent.glob("*.svg")) if "/" in path else []:
            files.append(File(image.relative_to(ROOT).as_posix(), str(ROOT), config["site_dir"],
                              config["use_directory_urls"]))
    for name in api_pages.write_pages(API_PAGES / "reference"):
        files.append(File("reference/" + name, str(API_PAGES), config["site_dir"], config["use_directory_urls"]))
    return files


def on_page_markdown(markdown, page, config, files):
    markdown = PLACE_OF_CODE.sub(r"\1", markdown)
    source = page.file.src_path
    folder = posixpath.dirname(source if page.file.abs_src_path == str(ROOT / source) else "docs/" + source)
    outside = set(outside_pages())

    def rewrite(match):
        mark, text, target, anchor = match[1], match[2], match[3], match[4] or ""
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        if not (ROOT / path).exists():
            return match[0]  # MkDocs warns
        if (ROOT / path / "README.md").exists():
            path += "/README.md"
        if path.startswith("docs/"):
            path = path[len("docs/"):]
        elif path not in outside and not path.endswith(".svg"):
            return f"{text} (`{path}`)" if path not in text else text
        return f"{mark}[{text}]({posixpath.relpath(path, posixpath.dirname(source) or '.')}{anchor})"

    # Every other piece is code, which holds no links; MkDocs wants no backslash before a bar in it.
    pieces = re.split(r"(```.*?```|``[^`]+``|`[^`\n]+`(?!\]))", markdown, flags=re.DOTALL)
    return "".join(piece.replace("\\|", "|") if i % 2 else LINK.sub(rewrite, piece) for i, piece in enumerate(pieces))


class Links(html.parser.HTMLParser):
    """The links to places of the site, and the places that a page has."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.add(attributes.get("id"))
        if tag == "a" and "://" not in (attributes.get("href") or "://"):
            self.links.append(attributes["href"])


def on_post_build(config):
    site = pathlib.Path(config["site_dir"])
    pages = {path: Links(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    for path, page in pages.items():
        for link in page.links:
            target, _, anchor = urllib.parse.unquote(link).partition("#")
            file = pathlib.Path(posixpath.normpath(path.parent / target)) if target else path
            if not file.exists() or (anchor and file in pages and anchor not in pages[file].ids):
                log.warning("%s links to %s, which is not there", path.relative_to(site), link)
