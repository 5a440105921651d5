"""Files of a paper's table that are made of published ones."""
import json

from errors import BookError

PROMPTS_OF_CATEGORY = 4  # SureLock, appendix D
RECORDS = 120  # SureLock, appendix F.1
WORDS_OF_TOKEN = 0.75
NEEDLE = "The best thing to do in San Francisco is eat a sandwich and sit in Dolores Park on a sunny day."
QUESTION = "What is the best thing to do in San Francisco? Answer with the sentence of the text alone."
DEPTHS = 21


def _lines(path):
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise BookError(f"{path}: cannot be read: {error.strerror}") from error


def first_of_each_category(lines):
    """The first questions of each of MT-bench's categories, in the file's order."""
    kept, seen = [], {}
    for line in filter(str.strip, lines):
        category = json.loads(line)["category"]
        seen[category] = seen.get(category, 0) + 1
        if seen[category] <= PROMPTS_OF_CATEGORY:
            kept.append(line)
    return kept


def odd_records(lines):
    """The first records at odd indices, counted from 0 without blank lines."""
    return [line for line in lines if line.strip()][1::2][:RECORDS]


def long_records(lines, tokens):
    """Records that are likely to have so many tokens."""
    return [line for line in lines if len(line.split()) >= tokens * WORDS_OF_TOKEN]


def needles(words, tokens):
    """Lines of LongBench's form: the needle at each depth of a text of so many tokens."""
    count = int(tokens * WORDS_OF_TOKEN)
    if len(words) < count:
        raise BookError(f"haystack.txt has {len(words)} words; expected at least {count} for {tokens} tokens")
    for depth in range(DEPTHS):
        place = count * depth // (DEPTHS - 1)
        context = " ".join([*words[:place], NEEDLE, *words[place:count]])
        yield json.dumps({"dataset": "narrativeqa", "context": context, "input": QUESTION, "answers": [NEEDLE]})


# name of a file -> (the published file, what its lines become)
MADE = {
    "mt-bench-32.jsonl": ("question.jsonl", first_of_each_category),
    "wikitext-120.txt": ("wiki.train.txt", odd_records),
    "wikitext-128.txt": ("wiki.train.txt", lambda lines: long_records(lines, 128)),
    "wikitext-512.txt": ("wiki.train.txt", lambda lines: long_records(lines, 512)),
    "needle-8k.jsonl": ("haystack.txt", lambda lines: needles(" ".join(lines).split(), 8000)),
    "needle-32k.jsonl": ("haystack.txt", lambda lines: needles(" ".join(lines).split(), 32000)),
    "needle-128k.jsonl": ("haystack.txt", lambda lines: needles(" ".join(lines).split(), 128000)),
}


def files_of(table, folder):
    """Writes the files that a table needs; yields their paths."""
    names = [name for each in table.files for name in each.split(", ") if name in MADE]
    if not names:
        raise BookError(f"{table.paper}, Table {table.name}: reads published files alone; there is nothing to prepare")
    for name in names:
        source, make = MADE[name]
        made = list(make(_lines(folder / source)))
        (folder / name).write_text("".join(f"{line}\n" for line in made), encoding="utf-8")
        yield folder / name
