"""Reference pages of the interfaces, for the documentation's site: from Doxygen's XML (C++, C) and griffe (Python).

    python3 tools/api_pages.py FOLDER     writes cpp.md, c.md and python.md into FOLDER

Comments in include/lacuna/ are the text, and so are docstrings and `#:` comments of bindings/python/lacuna/. What is
public and has no comment is an error. Lines `///   NAME  text` describe a parameter.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADERS = ROOT / "include/lacuna"
PACKAGE = ROOT / "bindings/python/lacuna"
CPP_HEADERS = ["session.h", "types.h", "error.h", "server.h"]
# Values of the extension module are those of the C++ interface, field for field.
SAME_IN_CPP = {"Commit": "Commit", "Message": "Message", "ModelInfo": "ModelInfo", "Pass": "PassEvent",
               "Statistics": "Statistics", "Error": "Error"}
IN_PYTHON = [(r"std::(vector|span)<(?:const )?TokenId>", "np.ndarray"), (r"std::span<const Commit>", "list[Commit]"),
             (r"std::string(_view)?", "str"), (r"u?int\d+_t|TokenId", "int"), (r"double", "float"),
             (r"`false`", "`False`")]
CONFIGURATION = """
PROJECT_NAME = lacuna
INPUT = include/lacuna
FILE_PATTERNS = *.h *.hpp
FILTER_PATTERNS = *.h="python3 tools/api_pages.py --filter"
OUTPUT_DIRECTORY = {folder}
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = LACUNA_API=
AUTOLINK_SUPPORT = NO
QUIET = YES
WARN_IF_INCOMPLETE_DOC = NO
WARN_AS_ERROR = FAIL_ON_WARNINGS
"""
PARAMETER = re.compile(r"^(\s*(?:///|\*)) {3,}(\w+)  +(\S)")
# Moves, and what the compiler writes, need no words.
UNSAID = re.compile(r"\(\w+&&\) noexcept;|bool operator==")


def filtered(text):
    """A header as Doxygen is to read it."""
    lines = [PARAMETER.sub(r"\1 @param \2 \3", line) for line in text.splitlines()]
    return "\n".join("" if UNSAID.search(line) else line for line in lines)


def inline(node):
    """The text of a node as Markdown."""
    text = node.text or ""
    for child in node:
        if child.tag in ("computeroutput", "ref"):
            inner = inline(child)
            text += f"`{inner}`" if child.tag == "computeroutput" else inner
        elif child.tag not in ("parameterlist", "simplesect"):
            text += inline(child)
        text += child.tail or ""
    return text


def escaped(text):
    return re.sub(r"[ \n]+", " ", text).strip().replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")


def description(node):
    """A documented node's paragraphs, then its parameters."""
    parts = []
    for para in [*node.findall("briefdescription/para"), *node.findall("detaileddescription/para")]:
        if text := escaped(inline(para)):
            parts.append(text)
        items = []
        for item in para.findall("parameterlist/parameteritem"):
            text = escaped(inline(item.find(".//parameterdescription/para")))
            items.append(f"- `{item.findtext('.//parametername')}`: {text}")
        if items:
            parts.append("\n".join(items))
    return "\n\n".join(parts)


def plain_type(node):
    return re.sub(r" ?([<>*&]) ?", r"\1", inline(node)).replace(">const", "> const").strip() if node is not None else ""


def signature(member):
    """A function as its header declares it, less the names around it."""
    text = f"{plain_type(member.find('type'))} {member.findtext('name')}{member.findtext('argsstring')}".strip()
    return ("static " if member.get("static") == "yes" else "") + text.replace("< ", "<").replace(" >", ">") + ";"


def field_table(members):
    rows = ["| field | type | default | |", "|---|---|---|---|"]
    for member in members:
        initial = (member.findtext("initializer") or "").lstrip("= ").strip()
        kind = plain_type(member.find("type")).replace("|", "\\|")
        text = description(member).replace("\n\n", " ")
        rows.append(f"| `{member.findtext('name')}` | `{kind}` | {f'`{initial}`' if initial else ''} | {text} |")
    return "\n".join(rows)


def compound(node, level):
    """A class or struct with its public members."""
    name = node.findtext("compoundname").split("::")[-1]
    parts = [f"{'#' * level} {name}", description(node)]
    public = [member for member in node.iter("memberdef") if member.get("prot") == "public"]
    if fields := [member for member in public if member.get("kind") == "variable"]:
        parts.append(field_table(fields))
    for member in public:
        if member.get("kind") == "function" and description(member):
            parts.append(f"{'#' * (level + 1)} {name}::{member.findtext('name')}\n\n```cpp\n{signature(member)}\n```")
            parts.append(description(member))
    return "\n\n".join(part for part in parts if part)


def free(member, level):
    """A function, enumeration or name of a type at namespace level."""
    name = member.findtext("name")
    title = f"{'#' * level} {'Kinds of failures' if name.startswith('@') else name}"
    if member.get("kind") == "enum":
        values = [f"| `{value.findtext('name')}` | {description(value)} |" for value in member.findall("enumvalue")]
        return f"{title}\n\n{description(member)}\n\n| value | |\n|---|---|\n" + "\n".join(values)
    code = signature(member) if member.get("kind") == "function" else member.findtext("definition") + ";"
    code = code.replace("= typedef ", "= ")
    return f"{title}\n\n```cpp\n{re.sub(r'lacuna::', '', code)}\n```\n\n{description(member)}"


def first_comment(path):
    """The first comment of a header."""
    text = path.read_text()
    if found := re.match(r"/\*(.*?)\*/", text, re.DOTALL):
        return "\n\n".join(escaped(re.sub(r"^ \*", "", part, flags=re.MULTILINE))
                           for part in re.split(r"\n \*\n", found[1]))
    return escaped(" ".join(line[2:] for line in re.match(r"(//.*\n)*", text)[0].splitlines()))


def entities(trees, header):
    """Declarations of a header, as (line, Markdown without its level)."""
    found = []
    for node in trees:
        if node.get("kind") in ("class", "struct"):
            place = node.find("location")
            if place.get("file").endswith("/" + header) and node.get("prot", "public") == "public":
                found.append((int(place.get("line")), lambda level, node=node: compound(node, level)))
        elif node.get("kind") in ("namespace", "file"):
            for member in node.iter("memberdef"):
                place = member.find("location")
                if place.get("file").endswith("/" + header) and member.get("kind") in ("function", "enum", "typedef"):
                    found.append((int(place.get("line")), lambda level, member=member: free(member, level)))
    return [make for _, make in sorted(found, key=lambda pair: pair[0])]


def read_headers():
    """Doxygen's compounds. SystemExit with its warnings, where something public has no comment."""
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run(["doxygen", "-"], input=CONFIGURATION.format(folder=folder), cwd=ROOT, text=True,
                             capture_output=True, check=False)
        if run.returncode != 0:
            raise SystemExit(run.stderr.replace(f"{ROOT}/", ""))
        trees = [ElementTree.parse(path).getroot().find("compounddef")
                 for path in sorted(pathlib.Path(folder, "xml").glob("*.xml"))
                 if path.name not in ("index.xml", "Doxyfile.xml")]
    return [tree for tree in trees if tree is not None]


def cpp_page(trees):
    parts = ["# C++ interface", "`#include <lacuna/lacuna.hpp>` declares all but the server, which is in "
             "`lacuna/server.h`; everything is in namespace `lacuna`. How to link it: [Embed](../guide/embed.md)."]
    for header in CPP_HEADERS:
        parts += [f"## {header}", first_comment(HEADERS / header)]
        parts += [make(3) for make in entities(trees, header)]
    return "\n\n".join(parts) + "\n"


def c_page(trees):
    parts = ["# C interface", "`#include <lacuna/lacuna.h>`. An example: [Embed](../guide/embed.md#c).",
             first_comment(HEADERS / "lacuna.h")]
    parts += [make(2) for make in entities(trees, "lacuna.h")]
    return "\n\n".join(parts) + "\n"


def fields_of(cls):
    """(name, type, default, text) of a dataclass' fields; the text is the comment after `#:`."""
    for name, member in cls.members.items():
        if member.is_attribute and not name.startswith("_") and "property" not in member.labels:
            line = (cls.filepath.read_text().splitlines())[member.lineno - 1]
            yield name, member.annotation, member.value, line.partition("#: ")[2]


def python_signature(function):
    arguments = []
    for each in function.parameters:
        mark = {"variadic positional": "*", "variadic keyword": "**"}.get(each.kind.value, "") if each.kind else ""
        if each.kind and each.kind.value == "keyword-only" and not any("*" in given for given in arguments):
            arguments.append("*")
        text = f"{mark}{each.name}" + (f": {each.annotation}" if each.annotation else "")
        if not mark and each.default is not None:
            text += f" = {each.default}" if each.annotation else f"={each.default}"
        arguments.append(text)
    arguments = [each for each in arguments if each not in ("self", "cls")]
    line = f"{function.name}({', '.join(arguments)})" + (f" -> {function.returns}" if function.returns else "")
    if len(line) > 100:
        line = line.replace("(", "(\n    ", 1).replace(", ", ",\n    ") if "[" not in line else line
    return f"```python\n{line.replace('_core.', '')}\n```"


def python_text(docstring):
    """A docstring: paragraphs, and a list where lines are `name  text`."""
    parts = []
    for part in re.split(r"\n\s*\n", docstring.value.strip()):
        lines = part.splitlines()
        if all(re.match(r"\w+ {2,}|\s{4,}", line) for line in lines):
            joined = re.sub(r"\n\s+", " ", part)
            pairs = [line.split(maxsplit=1) for line in joined.splitlines()]
            parts.append("\n".join(f"- `{name}`: {escaped(text)}" for name, text in pairs))
        else:
            parts.append(escaped(part))
    return "\n\n".join(parts)


def python_class(cls, missing):
    parts = [f"## {cls.name}"]
    if cls.bases:
        bases = [str(base) for base in cls.bases if not str(base).startswith("_")]
        parts[0] += f"({', '.join(bases)})" if bases else ""
    if not cls.docstring:
        missing.append(cls.name)
    else:
        parts.append(python_text(cls.docstring))
    if fields := [each for each in fields_of(cls) if "ClassVar" not in str(each[1])]:
        rows = ["| field | type | default | |", "|---|---|---|---|"]
        for name, kind, value, text in fields:
            kind = str(kind).replace("|", "\\|").replace("_core.", "")
            value = "" if value is None else "`[]`" if "factory=list" in str(value) else f"`{value}`"
            rows.append(f"| `{name}` | `{kind}` | {value} | {escaped(text)} |")
        parts.append("\n".join(rows))
    for name, member in cls.members.items():
        if name.startswith("_") or not (member.is_function or "property" in member.labels):
            continue
        if not member.docstring:
            missing.append(f"{cls.name}.{name}")
            continue
        code = python_signature(member) if member.is_function else f"```python\n{name}  # property\n```"
        parts.append(f"### {cls.name}.{name}\n\n{code}\n\n{python_text(member.docstring)}")
    return "\n\n".join(parts)


def value_of_core(struct, name):
    """A value of the extension module, by the comments of the C++ interface."""
    if name == "Error":  # whose comment is about C++
        return ("## Error(ValueError)\n\nInput that cannot be used: a model, a prompt or a setting. Its text is one "
                "sentence that names the field, the value and what is accepted.")
    text = compound(struct, 2).split("\n\n### ")[0].replace(" Spans are valid during the callback alone.", "")
    for pattern, replacement in IN_PYTHON:
        text = re.sub(pattern, replacement, text)
    return re.sub(r"^## \w+", f"## {name}", text)


def python_page(trees):
    from griffe.loader import GriffeLoader

    loader = GriffeLoader(search_paths=[PACKAGE.parent])
    package = loader.load_module("lacuna")
    missing = []
    parts = ["# Python interface", "`import lacuna`. How to use it: [Python](../guide/python.md)."]
    source = (PACKAGE / "__init__.py").read_text()
    names = re.findall(r'"(\w+)"', re.search(r"__all__ = \[(.*?)\]", source, re.DOTALL)[1])
    structs = {node.findtext("compoundname"): node for node in trees}
    for name in [name for name in names if name != "__version__"]:
        if same := SAME_IN_CPP.get(name):
            parts.append(value_of_core(structs[f"lacuna::{same}"], name))
            continue
        module, attribute = package.members[name].target_path.rsplit(".", 1)
        entity = package.modules[module.rsplit(".", 1)[1]].members[attribute]
        if entity.is_class:
            parts.append(python_class(entity, missing))
        elif entity.docstring:
            parts.append(f"## {name}\n\n{python_signature(entity)}\n\n{python_text(entity.docstring)}")
        else:
            missing.append(name)
    if missing:
        raise SystemExit("without a docstring: " + ", ".join(f"lacuna.{name}" for name in missing))
    return "\n\n".join(parts) + "\n"


def write_pages(folder):
    """Writes the pages and returns their names."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    trees = read_headers()
    pages = {"cpp.md": cpp_page(trees), "c.md": c_page(trees), "python.md": python_page(trees)}
    for name, text in pages.items():
        (folder / name).write_text(text)
    return list(pages)


if __name__ == "__main__":
    if sys.argv[1] == "--filter":
        print(filtered(pathlib.Path(sys.argv[2]).read_text()))
    else:
        write_pages(sys.argv[1])
