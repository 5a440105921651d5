"""Command line of the results book: `python3 tools/results --help`."""
import argparse
import sys
from pathlib import Path

import analysis
import real_text_run
import reproduce
from book import PAGES, make_page
from errors import BookError
from figures import to_svg
from measure import ROOT, Measurer
from repeat import Choice, repeat

DESCRIPTION = """\
Writes the pages under docs/results: runs the commands that a page needs and whose rows are not known yet, keeps their
rows in NAME.jsonl, and renders NAME.md with its figures. A run may be interrupted: known rows are not measured again.
`check` renders every page from the known rows and says which differ from the committed ones. `repeat NAME` runs the
commands of a page's rows again and compares all figures but timings with the recorded ones; it records nothing.
`real-text` measures the rows of the page real_text with models and files that its flags name: `real-text --help`.
`reproduce PAPER TABLE` shows, tries or runs the commands of a paper's table on released checkpoints; it has flags of
its own: `reproduce --help`. `draw FIGURE.svg` draws what `lacuna analyze ... --json` printed, or a trainer's log.csv."""


def parse_arguments(arguments):
    """Command line flags."""
    parser = argparse.ArgumentParser(prog="python3 tools/results", description=DESCRIPTION,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*PAGES, "check", "repeat"], metavar="NAME",
                        help=f"page to write: {', '.join(PAGES)}; or check, repeat, real-text, reproduce or draw")
    parser.add_argument("page", choices=list(PAGES), metavar="PAGE", nargs="?", help="page that `repeat` compares")
    rows = parser.add_mutually_exclusive_group()
    rows.add_argument("--only-known", action="store_true", help="render the page from known rows; measure nothing")
    rows.add_argument("--fresh", action="store_true", help="forget the known rows of the page, and measure all again")
    parser.add_argument("--quick", action="store_true",
                        help="a small grid that tries everything; default folder build/results-quick")
    parser.add_argument("--dirty", action="store_true", help="record rows although files differ from the commit")
    parser.add_argument("--lacuna", default="build/release/lacuna", metavar="FILE",
                        help="binary that is measured (default %(default)s)")
    parser.add_argument("--out", metavar="FOLDER", help="folder of rows, pages and figures (default docs/results)")
    repeated = parser.add_argument_group("repeat")
    repeated.add_argument("--rows", type=positive, default=0, metavar="N", help="rows to compare (default all)")
    repeated.add_argument("--seed", type=int, default=0, metavar="S", help="seed of their choice (default %(default)s)")
    repeated.add_argument("--any-machine", action="store_true",
                          help="compare rows of other processors and instruction sets, too")
    options = parser.parse_args(arguments)
    if (options.name == "repeat") != (options.page is not None):
        parser.error("`repeat` needs a PAGE" if options.page is None else f"`{options.name}` takes no PAGE")
    return options


def positive(text):
    """A positive number of the command line."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def folder_of(page, options):
    """Where the rows and files of a page are."""
    if options.out:
        return Path(options.out)
    return ROOT / ("build/results-quick" if options.quick else page.folder)


def write_page(page, options):
    """Measures what is missing and writes the files of a page."""
    folder = folder_of(page, options)
    folder.mkdir(parents=True, exist_ok=True)
    if options.fresh and page.measured_by:
        raise BookError(f"`python3 tools/results {page.measured_by} --fresh` measures the rows of {page.name} again")
    if options.fresh:
        (folder / f"{page.name}.jsonl").unlink(missing_ok=True)
    is_known = options.only_known or page.measured_by
    measure = None if is_known else Measurer(options.lacuna, options.dirty, page.environment)
    for name, made in make_page(page, folder, measure, options.quick).items():
        path = folder / name
        path.write_text(made if isinstance(made, str) else to_svg(made), encoding="utf-8")
        print(path)


def problems_of(page, options):
    """Problems of the committed files of a page."""
    folder = folder_of(page, options)
    try:
        files = make_page(page, folder)
    except BookError as error:
        return [str(error)]
    found = [f"{folder / name} is missing" for name in files if not (folder / name).exists()]
    committed = folder / page.markdown
    if committed.exists() and committed.read_text(encoding="utf-8") != files[page.markdown]:
        found.append(f"{committed} differs; `python3 tools/results {page.name} --only-known` renders it again")
    return found


def check(options):
    """Prints what is wrong with any page; returns the exit code."""
    problems = [f"{page.name}: {problem}" for page in PAGES.values() for problem in problems_of(page, options)]
    print("\n".join(problems) or f"{len(PAGES)} pages are as their rows and their prose say")
    return 1 if problems else 0


def repeat_page(page, options):
    """Runs the commands of a page's rows again; returns the exit code."""
    measure = Measurer(options.lacuna, dirty=True, environment=page.environment)  # nothing is recorded
    choice = Choice(options.rows, options.seed, options.any_machine)
    return 0 if repeat(folder_of(page, options) / f"{page.name}.jsonl", measure, choice) else 1


def main(arguments):
    """Returns the exit code."""
    try:
        commands = {"reproduce": reproduce, "draw": analysis, "real-text": real_text_run}
        if arguments and arguments[0] in commands:
            return commands[arguments[0]].main(arguments[1:])
        options = parse_arguments(arguments)
        if options.name == "check":
            return check(options)
        if options.name == "repeat":
            return repeat_page(PAGES[options.page], options)
        write_page(PAGES[options.name], options)
    except ModuleNotFoundError as error:
        print(f"results: {error}; numpy and matplotlib are needed (tools/results/README.md)", file=sys.stderr)
        return 1
    except (BookError, OSError) as error:
        print(f"results: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
