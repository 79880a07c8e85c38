"""Settings of the book for Sphinx. The sources of its pages are written by `tools.site`."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import fedclust_helpers  # noqa: E402
from tools.site import api  # noqa: E402
from tools.site.links import SCHEME  # noqa: E402
from tools.site.settings import place  # noqa: E402

project = "fedclust"
author = "the fedclust developers"
version = release = fedclust_helpers.__version__
language = "en"
copyright = author
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
extensions += ["sphinx_copybutton"]
exclude_patterns = ["extra/**", "static/**", "doctrees/**", "jupyter_execute/**"]

# --- notebooks and Markdown
nb_execution_mode = "off"
nb_render_markdown_format = "myst"  # tables in outputs are tables
nb_number_source_lines = False
nb_code_prompt_show = "Show code"
nb_code_prompt_hide = "Hide code"
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
myst_dmath_double_inline = True
myst_url_schemes = {"http": None, "https": None, "mailto": None, SCHEME.rstrip(":"): None}
pygments_style = "a11y-high-contrast-light"

# --- docstrings
default_role = "code"
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "none"
maximum_signature_line_length = 88
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_preprocess_types = False

# --- pages
templates_path = ["_templates"]
DESCRIPTION = """Private k-means on data that stays where it is: four papers as executable
notebooks, every claim checked, and a small library that states what each run reveals."""
html_theme = "sphinx_book_theme"
html_title = "fedclust"
html_context = {"default_mode": "auto"}
html_baseurl = place().site
html_favicon = "_static/icon.svg"
html_css_files = ["site.css", "living.css"]
html_js_files = [("site.js", {"priority": 300}), ("scroll.js", {"priority": 301})]
html_js_files += [("living.js", {"priority": 302}), ("run_here.js", {"priority": 303})]
html_search_scorer = str(ROOT / "docs" / "_static" / "search.js")
html_copy_source = False
html_show_sourcelink = False
html_use_index = False
toc_object_entries_show_parents = "hide"
html_domain_indices = False
html_show_sphinx = False
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "use_repository_button": bool(place().repository),
    "home_page_in_toc": True,
    "show_navbar_depth": 1,
    "show_toc_level": 1,
    "secondary_sidebar_items": {
        pattern: ["page-toc"]
        for pattern in "chapters/* api/* results/* using your_table deployment glossary"
        " contributing".split()
    },
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
if place().repository:
    html_theme_options["repository_url"] = f"https://github.com/{place().repository}"

# --- mathematics: from the site itself, for any depth of folders and for file://
mathjax_path = "mathjax/tex-chtml.js"
mathjax4_config = {
    "output": {
        "font": "mathjax-newcm",
        "fontPath": "[mathjax]/%%FONT%%-font",
        "displayOverflow": "scroll",
        "linebreaks": {"inline": False},
    },
    "options": {
        "enableMenu": False,
        "enableSpeech": False,
        "enableBraille": False,
        "enableEnrichment": False,
        "enableExplorer": False,
        "menuOptions": {"settings": {"enrich": False, "speech": False, "braille": False}},
        "ignoreHtmlClass": "tex2jax_ignore|mathjax_ignore|document",
        "processHtmlClass": "tex2jax_process|mathjax_process|math|output_area",
    },
}


def plain_signature(
    app: Any, what: str, name: str, value: Any, options: Any, signature: str, returns: str
) -> tuple[str, str] | None:
    """A signature as it stands in the source: names of types, not what they stand for."""
    if what not in {"function", "method", "class"}:
        return None
    try:
        found = inspect.signature(value)
        if "(*args: 'Any', **kwargs: 'Any')" in str(found):  # a class that is guarded when called
            found = inspect.signature(value.__init__)
    except (TypeError, ValueError):
        return None
    if what == "class" and getattr(value, "_is_protocol", False):
        return "", ""
    if list(found.parameters)[1:] == ["args", "kwargs"]:  # a method that passes all of it on
        return "(...)", ""
    kept = [
        parameter.replace(annotation=_Word(words))
        if isinstance(
            words := getattr(parameter.annotation, "__forward_arg__", parameter.annotation), str
        )
        else parameter
        for key, parameter in found.parameters.items()
        if key != "self"
    ]
    empty = inspect.Signature.empty
    arguments = str(found.replace(parameters=kept, return_annotation=empty))
    result = found.return_annotation
    shown = "" if what == "class" or result in (empty, None, "None") else str(result).strip("'")
    return re.sub(
        r"<[\w.]*?(\w+) object at 0x\w+>|<(?:built-in )?function ([\w.]+)(?: at 0x\w+)?>",
        r"\1\2",
        arguments,
    ), (shown)


class _Word(str):
    """An annotation that prints without quotes."""

    def __repr__(self) -> str:
        return str(self)


AS_IT_STANDS = (
    r"(^\.\. code-block:: text\n(?:\n|[ ].*\n?)+|^\.\. attribute::.*$|^[ ]*(?:>>>|\.\.\. ).*$"
    r"|``[^`]*``|`[^`]*`)"
)


def code_blocks(lines: list[str]) -> list[str]:
    """With a directive before what is indented below a paragraph: its lines stay apart."""
    found: list[str] = []
    above, inside = "", False  # the last line that is not indented, and whether code goes on
    for i, line in enumerate(lines):
        if line and not line.startswith(" "):
            above, inside = line, False
        elif line.startswith("    ") and not inside and i and not lines[i - 1]:
            inside = above[:1].isalnum() or above.startswith("`")
            if inside and not above.endswith("::") and not re.match(r"\d+\. ", above):
                found += [".. code-block:: text", ""]
        found.append(line)
    return found


ID = r"[A-Z](?:\d+|(?:\.[a-z]\w*)+)"
CITED = rf"(claims?\s+)({ID}(?:(?:,|\s+and)\s+{ID})*)"
CLAIMS = set(re.findall(r'<a id="([^"]+)">', (ROOT / "data/results/claims.md").read_text("utf-8")))
FILES = {  # that docstrings name: what stands for them, and where it is
    "docs/deployment.md": ("from notebook to deployment", "../deployment.html"),
    "statement.schema.json": (
        "statement.schema.json", "../files/fedclust/estimators/statement.schema.json",
    ),
}  # fmt: skip
LISTED = {f"{module}.{name}" for module in api.module_names() for name in api.members(module)}


def linked_claims(match: re.Match[str]) -> str:
    """The claims that a docstring cites, as links to the page where they are checked."""

    def link(found: re.Match[str]) -> str:
        return f"`{found[0]} <../claims.html#{found[0]}>`__" if found[0] in CLAIMS else found[0]

    return match[1] + re.sub(ID, link, match[2])


def linked_name(match: re.Match[str]) -> str:
    """A function or class with its module, as a link to its entry if it has one."""
    names = [f"{package}.{match[1]}" for package in api.PACKAGES]
    name = next((name for name in names if name in LISTED), None)
    return f":py:obj:`{match[1]} <{name}>`" if name else match[0]


def readable_docstring(
    app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Indented text is code as it stands, and names that end in an underscore are no links."""
    parts = re.split(AS_IT_STANDS, "\n".join(code_blocks(lines)), flags=re.MULTILINE)
    parts[::2] = [
        re.sub(r"(?<=\w)_(?=\W|$)|\||(?<=\w)\*\*?(?=\w)", r"\\\g<0>", p) for p in parts[::2]
    ]
    parts[1::2] = [re.sub(r"^`([a-z_]+(?:\.\w+)+)`$", linked_name, p) for p in parts[1::2]]
    for i in range(2, len(parts), 2):
        if parts[i][:1].isalnum():  # as in "`ask`s"
            parts[i] = "\\ " + parts[i]
    text = re.sub(CITED, linked_claims, "".join(parts))
    for file, target in FILES.items():
        text = text.replace(file, f"`{target[0]} <{target[1]}>`__")
    lines[:] = text.split("\n")


def resolve_site_links(app: Any, document: nodes.document, name: str) -> None:
    """Links that `tools.site` has worked out: take the mark away."""
    for node in document.findall(nodes.reference):
        if node.get("refuri", "").startswith(SCHEME):
            node["refuri"] = node["refuri"].removeprefix(SCHEME)
            node["internal"] = True


def qualify_types(app: Any, document: nodes.document) -> None:
    """A type is looked up as Python would: by its name in the module that mentions it."""
    for node in list(document.findall(addnodes.pending_xref)):
        target, module = node.get("reftarget", ""), node.get("py:module")
        if target.islower() and "." not in target and node.get("reftype") == "class":
            node.replace_self(node.children)  # a word, not a module or a name that ends like this
            continue
        if node.get("refdomain") != "py" or not module or "." in target:
            continue
        inside = [name for name in sorted(sys.modules) if name.startswith(f"{module}.")]
        for name in (module, *inside, module.rpartition(".")[0]):
            found = getattr(sys.modules.get(name), target, None)
            if inspect.isclass(found) and found.__module__.startswith(api.PACKAGES):
                node["reftarget"] = f"{found.__module__}.{found.__qualname__}"
                break


def left_out(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """A function that is the default of a field is no method: the class describes its field."""
    return (
        True if inspect.isfunction(value) and value.__qualname__ == value.__name__ != name else None
    )


def describe(app: Any, page: str, template: str, context: dict[str, Any], document: Any) -> None:
    """What a search engine and a preview show: the first sentences of the page."""
    context["preview"] = place().preview
    context["description"] = DESCRIPTION
    for node in document.findall(nodes.paragraph) if document and page != "index" else ():
        if len(words := " ".join(node.astext().split())) > 60 and "Download:" not in words:
            context["description"] = words if len(words) < 180 else f"{words[:176]} ..."
            break


def setup(app: Any) -> None:
    """Connect them."""
    app.connect("html-page-context", describe)
    app.connect("doctree-read", qualify_types)
    app.connect("autodoc-skip-member", left_out)
    app.connect("autodoc-process-signature", plain_signature)
    app.connect("autodoc-process-docstring", readable_docstring)
    app.connect("doctree-resolved", resolve_site_links)
