"""What the site shows beside the files of docs/: MkDocs calls the ``on_`` functions (mkdocs.yml).

Links of a page are those of the repository, as an editor or GitHub follows them; here they are
turned to the site's pages, and a file that is no page (params.yaml) is copied to be read. The
opening page, the notebook, the API, the gallery and the list of conditions are made of README.md,
docs/python.ipynb, the docstrings, the figures' catalogue and that of conditions, so that none of
them is written twice.
"""

import base64
import json
import posixpath
import re
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from posenc.api import PLACES
from posenc.figures.catalogue import FIGURES, module_of
from posenc.study.layers import Layers
from posenc.study.params import load
from posenc.study.plan import figures

ROOT = Path(__file__).parents[1]
MOVED = {
    "README.md": "index.md",
    "README.ja.md": "index.ja.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "docs/python.ipynb": "notebook.md",
}
"""Pages of the site by the file of the repository that they are made of, where it is another."""
LINK = re.compile(r"(?P<before>\]\()(?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
NAMED = re.compile(r"\[(?:docs/)?[\w.-]+\.(?:md|ipynb)\](?=\((?P<target>[^)#\s]+))")
"""A link whose words are the name of the file: here its title in the nav is said."""
CODE = re.compile(r"(?ms)^(?P<fence>`{3,}).*?^(?P=fence)$|`[^`\n]+`")
ROLE = re.compile(r":(?:func|mod|class|meth|attr):<code>~?")


# --- pages ----------------------------------------------------------------------------------------


def on_config(config: Any) -> Any:
    """Headings have the anchors that GitHub gives them, which links name."""
    config.mdx_configs["toc"]["slugify"] = anchor
    return config


def on_files(files: Files, config: Any) -> Files:
    """Take in what is no file of docs/, and turn the links of all pages to the site's."""
    written = {
        "api.md": api(),
        "gallery.md": gallery(files, config),
        "built-in.md": built_in(),
    }
    found = {f"docs/{one.src_uri}" for one in files.documentation_pages()} | MOVED.keys()
    titles = {page: title for part in config.nav for title, page in named(part)}
    sources: set[str] = set()
    for path in sorted(found):
        if path.endswith(".ipynb"):
            text = notebook(path, files, config)
        else:
            text = (ROOT / path).read_text(encoding="utf-8")
        written[site_path(path)] = linked(text, path, titles, sources)
    for path in sorted(sources):
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, f"source/{path}.txt", content=text))
    for name, text in written.items():
        if there := files.get_file_from_path(name):
            files.remove(there)
        files.append(File.generated(config, name, content=text))
    return files


def on_page_content(html: str, **_: Any) -> str:
    """Names in docstrings are Sphinx's, with a role that is nothing to a reader."""
    return ROLE.sub("<code>", html)


def on_page_context(context: dict, page: Any, config: Any, **_: Any) -> dict:
    """The interface speaks the page's language, and leads to the page in the other one."""
    name = page.file.src_uri
    config.theme["language"] = "ja" if is_japanese(name) else "en"
    other = other_language(name)
    there = {file.src_uri: file for file in context["pages"]}
    pairs = sorted({name, other}, key=is_japanese)
    config.extra["alternate"] = (
        [
            {
                "name": "日本語" if is_japanese(one) else "English",
                "lang": "ja" if is_japanese(one) else "en",
                "link": there[one].url_relative_to(page.file),
            }
            for one in pairs
        ]
        if other in there
        else []
    )
    return context


def is_japanese(name: str) -> bool:
    return name.endswith(".ja.md")


def other_language(name: str) -> str:
    """The name of a page in the other language."""
    return name.replace(".ja.md", ".md") if is_japanese(name) else name.replace(".md", ".ja.md")


def anchor(title: str, separator: str = "-") -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", separator)


def site_path(path: str) -> str:
    """The site's page that a file of the repository is."""
    return MOVED.get(path, path.removeprefix("docs/"))


def named(part: Any) -> list[tuple[str, str]]:
    """Titles and pages of a part of the nav."""
    (inside,) = part.values()
    return [pair for one in inside if isinstance(one, dict) for pair in one.items()]


def linked(text: str, path: str, titles: Mapping[str, str], sources: set[str]) -> str:
    """A page with links to the site's pages, and without marks; code is left as it is.

    Parameters
    ----------
    path
        Of its file, from the repository's root.
    titles
        Of the site's pages, by their names.
    sources
        Takes in the files that it links to and that are no part of the site.
    """
    folder = posixpath.dirname(path)

    def of_repository(target: str) -> str:
        return posixpath.normpath(posixpath.join(folder, target))

    def titled(match: re.Match[str]) -> str:
        page = site_path(of_repository(match["target"]))
        return f"[{titles[page]}]" if page in titles else match[0]

    def turned(match: re.Match[str]) -> str:
        if re.match(r"\w+:", match["target"]):
            return match[0]
        target = of_repository(match["target"])
        to = site_path(target)
        if target not in MOVED and not re.match(r"docs/(?!recipes/)", target):
            sources.add(target)
            to = f"source/{target}.txt"
        return f"{match['before']}{to}{match['anchor'] or ''})"

    def prose(part: str) -> str:
        part = LINK.sub(turned, NAMED.sub(titled, part))
        return re.sub(r"<!--.*?-->", "", part, flags=re.DOTALL)

    made, end = [], 0
    for code in CODE.finditer(text):
        made += [prose(text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*made, prose(text[end:])])


# --- what is made ---------------------------------------------------------------------------------


def notebook(path: str, files: Files, config: Any) -> str:
    """A notebook's cells, with what is stored of what they print and draw."""
    parts = []
    for number, cell in enumerate(json.loads((ROOT / path).read_text(encoding="utf-8"))["cells"]):
        source = "".join(cell["source"])
        parts.append(f"```python\n{source}\n```" if cell["cell_type"] == "code" else source)
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"images/notebook_{number}.png"
                image = base64.b64decode(data["image/png"])
                files.append(File.generated(config, name, content=image))
                parts.append(f"![What the cell above draws]({name})")
            elif text := "".join(output.get("text") or data.get("text/plain", "")):
                parts.append(f"```text\n{text.rstrip()}\n```")
    return "\n\n".join(parts)


def api() -> str:
    """The public names, functions first, each with its docstring."""
    names = sorted(PLACES, key=lambda name: (name[0].isupper(), list(PLACES).index(name)))
    parts = [
        "# API",
        "What `import posenc` gives: functions, then classes and errors. [How they are used]"
        "(python.md) is another page; the [tutorial](tutorial.md) shows what for.",
        *(f"::: {PLACES[name]}.{name}\n    options: {{heading: posenc.{name}}}" for name in names),
    ]
    return "\n\n".join(parts)


def gallery(files: Files, config: Any) -> str:
    """Every figure of the catalogue: what it shows, its command, its code, and a picture of it."""
    default = load(ROOT / "params.yaml")
    studies = sorted(default.studies, key=lambda name: name != default.study.name)
    drawn: dict[str, str] = {}
    """By figure, the first study that draws it."""
    for study in studies:
        if drawn.keys() == FIGURES.keys():
            break
        for name in figures(load(ROOT / "params.yaml", {"study": study})):
            drawn.setdefault(name, study)
    parts = [
        "# Gallery of figures",
        "Every figure that a study can draw, by its question: what it shows, the command that "
        "draws it and makes all that it needs, and its code. Pictures are those of the other "
        "pages, or what was drawn here before the site was built; where there is none, the "
        "command makes it.",
    ]
    for question, entries in groupby(sorted(FIGURES, key=place_of), key=question_of):
        parts.append(f"## {question}")
        parts += [
            one for name in entries for one in entry(name, drawn[name], studies, files, config)
        ]
    return "\n\n".join(parts)


def built_in() -> str:
    """Every condition, mask and study that comes with the project, each with its sentence."""
    path = ROOT / "params.yaml"
    params, about = load(path), Layers(path).about
    labels = params.figures.style.labels
    tables = {
        "Conditions": (
            ("name", "in figures", "what is done to the model"),
            [(f"`{n}`", labels.get(n, ""), about["conditions", n]) for n in params.conditions],
        ),
        "Masks": (
            ("name", "what is learned from calibration text, with the model frozen"),
            [(f"`{name}`", about["masks", name]) for name in params.masks],
        ),
        "Studies": (
            ("name", "what it asks", "models", "data sets"),
            [
                (f"`{name}`", one.asks or "", ", ".join(one.models), ", ".join(one.datasets))
                for name, one in params.studies.items()
            ],
        ),
    }
    parts = [
        "# Conditions, masks and studies",
        "What comes with the project, as `posenc conditions` and `posenc study` list it. [What a "
        "condition does](conditions.md) and [where things stand](studies.md) are other pages.",
    ]
    for title, (head, rows) in tables.items():
        lines = [head, tuple("---" for _ in head), *rows]
        parts += [f"## {title}", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    return "\n\n".join(parts)


def question_of(name: str) -> str:
    return FIGURES[name].question


def place_of(name: str) -> tuple[str, int]:
    """Rows of the catalogue in their order; questions of a row as they first come."""
    questions = [question_of(one) for one in FIGURES]
    return question_of(name).split()[0], questions.index(question_of(name))


def entry(name: str, study: str, studies: list[str], files: Files, config: Any) -> list[str]:
    """What the gallery says of a figure."""
    one = FIGURES[name]
    chosen = "" if study == studies[0] else f" --config study={study}"
    file = f"data/studies/{study}/figures/{name}.pdf"
    stems = [name, *(f"{other}_{name}" for other in studies)]
    pictures = [f"images/{s}.png" for s in stems if (ROOT / f"docs/images/{s}.png").is_file()]
    made_here = (ROOT / file).with_suffix(".svg")
    if not pictures and made_here.is_file():
        pictures = [f"images/{study}_{name}.svg"]
        # On white in a dark page too, as all pictures are.
        svg = made_here.read_text(encoding="utf-8").replace(
            "<svg ", '<svg style="background:#fff" ', 1
        )
        files.append(File.generated(config, pictures[0], content=svg))
    module = f"workflow/{module_of(name).replace('.', '/')}.py"
    code = (ROOT / module).read_text(encoding="utf-8")
    folded = "\n".join(f"    {line}".rstrip() for line in ["```python", *code.splitlines(), "```"])
    return [
        f"### {name}",
        one.caption,
        *(f"![{one.alt}]({path})" for path in pictures),
        f"```sh\nsnakemake --cores 8{chosen} -- {file}\n```",
        f'??? example "{module}"\n\n{folded}',
    ]
