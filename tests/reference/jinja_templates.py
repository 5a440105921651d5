"""Random templates, and values to render them with: generate(random).

Most expressions have operands that fit, so that most templates give a text; some have any, and may fail. The values hold Cyrillic
letters, which no template writes itself."""

TEXTS = [
    "",
    " ",
    "a",
    "ab c",
    " Hello, World \n",
    "x,y,,z",
    "Привет, мир",
    "  да\t",
    "<think>\nну\n</think>\n\nответ",
    "line 1\nline 2\r\n\nстрока",
    "ß ﬁ İ ǆ Σς ΑΣ",
    "e\u0301\u00a0🙂",
    'it\'s "q" \\ <b>&</b>',
    "12",
    " -7 ",
    "3.50",
    "1e3",
    "0x1F",
    "1_000",
    "inf",
    "user",
    "assistant",
    "ABC def",
    "a-b (c) [d]",
    "\u2028x\x85y\x1cz",
    "%s is %d",
    "{} and {0}",
    "aaaa",
    "тест-тест",
    "Жук ЖУК жук",
    "\x07\x7f\u200b",
    "null",
]
LITERALS = [
    "",
    " ",
    "a",
    "b",
    "\\n",
    ",",
    "-",
    "x",
    "<|im_start|>",
    "role",
    "content",
    "user",
    "hello world",
    "\\t",
    "é",
    "A b",
    "0",
    "aa",
    "l",
    "é🙂",
]
NUMBERS = [0, 1, 2, 3, 5, 7, 10, -1, -2, -3, 15, 100, 1000000]
FLOATS = [0.0, 0.5, 1.0, 1.5, 2.5, -0.5, -2.0, 0.1, 1e16, 1e-5, 123456.789, 1e22, 3.0]
DATA = [
    "",
    " ",
    "\n",
    "text",
    "  \n",
    "a\n  ",
    "\n\n",
    "<|im_end|>\n",
    "    ",
    "é",
    "{ ",
    "}",
    "% ",
    "# x",
    "x\n\ty",
    "\r\n",
    "{ { ",
    "-",
]


def values(random):
    """The global variables of a template."""
    text = lambda: random.choice(TEXTS)
    scalar = lambda: random.choice([text(), random.choice(NUMBERS), random.choice(FLOATS), True, False, None])
    messages = [
        {
            "role": random.choice(["system", "user", "assistant", "tool"]),
            "content": random.choice([text(), text(), None, [{"type": "text", "text": text()}]]),
            **({"n": random.choice(NUMBERS)} if random.random() < 0.5 else {}),
        }
        for _ in range(random.randrange(4))
    ]
    return {
        "messages": messages,
        "text": text(),
        "other": text(),
        "n": random.choice(NUMBERS),
        "k": random.randrange(-3, 5),
        "f": random.choice(FLOATS),
        "flag": random.random() < 0.5,
        "nothing": None,
        "words": [text() for _ in range(random.randrange(5))],
        "numbers": [random.choice(NUMBERS) for _ in range(random.randrange(5))],
        "mixed": [scalar() for _ in range(random.randrange(5))],
        "nested": [[scalar()], [], [[random.choice(NUMBERS)], text()]],
        "d": {random.choice(["a", "b", "role", "items", "ключ", "keys", "Z"]): scalar() for _ in range(random.randrange(4))},
        "deep": {"x": {"y": {"z": text()}}, "list": [1, {"w": scalar()}], "get": 3},
    }


class Generator:
    def __init__(self, random):
        self.random = random
        self.locals = []  # variables that statements have set
        self.macros = []  # (name, number of parameters)
        self.namespaces = []
        self.loops = 0
        self.count = 0
        self.is_wild = random.random() < 0.3  # some operands do not fit

    def one(self, *choices):
        return self.random.choice(choices)

    def chance(self, probability):
        return self.random.random() < probability

    # Expressions, by the type of their value.
    def expression(self, kind, depth):
        if self.is_wild and self.chance(0.06):
            kind = self.one("text", "int", "list", "bool", "dict", "float", "any")
        if self.locals and kind in ("any", "text") and self.chance(0.25):
            name = self.random.choice(self.locals)
            return name if kind == "any" or self.is_wild else f"({name}|string)"
        if kind == "any":
            kind = self.one("text", "text", "int", "list", "bool", "dict", "float", "none")
        if depth <= 0:
            return getattr(self, "leaf_" + kind)()
        result = getattr(self, kind)(depth - 1)
        return result if self.is_wild and self.chance(0.3) else f"({result})"

    def leaf_text(self):
        return self.one("text", "other", self.literal(), self.literal())

    def literal(self):
        quote = self.one("'", '"')
        return quote + self.random.choice(LITERALS) + quote

    def leaf_int(self):
        return self.one("n", "k", str(self.random.choice(NUMBERS)), str(self.random.randrange(4)), str(self.random.randrange(4)))

    def leaf_float(self):
        return self.one("f", "f", repr(self.random.choice(FLOATS)))

    def leaf_bool(self):
        return self.one("flag", "true", "False", "flag")

    def leaf_none(self):
        return self.one("none", "nothing", "missing")

    def leaf_list(self):
        return self.one(
            "words", "numbers", "mixed", "messages", "nested", "[]", "[1, 2, 3]", "['b', 'A', 'c']", "('x', 1)", "range(4)"
        )

    def leaf_dict(self):
        return self.one("d", "deep", "{}", "{'a': 1, 'b': text}", "{'b': 2, 'A': 1}", "{1: 'x', none: 2}")

    def none(self, depth):
        return self.leaf_none()

    def text(self, depth):
        t = lambda: self.expression("text", depth)
        i = lambda: self.expression("int", depth)
        forms = [
            lambda: f"{t()} + {t()}",
            lambda: f"{t()} ~ {self.expression('any', depth)}",
            lambda: f"{t()} * {self.random.randrange(4)}",
            lambda: f"{t()}[{i()}]",
            lambda: f"({t()}|string)[{self.bound(depth)}:{self.bound(depth)}]",
            lambda: f"({t()}|string)[{self.bound(depth)}:{self.bound(depth)}:{self.one('-1', '2', '-2', '1', self.bound(depth))}]",
            lambda: f"{t()}.{self.one('strip', 'lstrip', 'rstrip', 'upper', 'lower', 'title', 'capitalize', 'swapcase')}()",
            lambda: f"{t()}.{self.one('strip', 'lstrip', 'rstrip')}({t()})",
            lambda: f"{t()}.replace({t()}, {t()})",
            lambda: f"{t()}.replace({t()}, {t()}, {i()})",
            lambda: f"{t()}.join({self.one('words', 'text', 'd', self.expression('list', depth))})",
            lambda: f"{t()}.{self.one('removeprefix', 'removesuffix')}({t()})",
            lambda: f"{t()}.{self.one('ljust', 'rjust', 'center')}({i()}{self.one('', ', ' + repr('*'))})",
            lambda: f"{t()}.zfill({i()})",
            lambda: f"{t()}.format({t()}, {i()}, a={t()})",
            lambda: f"{self.template()}.format({t()}, {i()}, a={self.expression('float', depth)})",
            lambda: f"{self.percent()} % {self.one(t(), i(), f'({t()}, {i()})')}",
            lambda: f"{self.percent()}|format({t()}, {i()})",
            lambda: f"{t()}|{self.one('trim', 'upper', 'lower', 'title', 'capitalize', 'string', 'reverse', 'e', 'safe', 'first', 'last', 'escape', 'forceescape')}",
            lambda: f"{t()}|replace({t()}, {t()})",
            lambda: f"{t()}|indent{self.one('', '(2)', '(2, true)', '(first=true)', '(blank=true, width=1)', '(' + repr('>>') + ')')}",
            lambda: f"{t()}|truncate({self.one('5', '3, true', '4, false, ' + repr(''), '6, leeway=0')})",
            lambda: f"{t()}|center({i()})",
            lambda: f"{self.expression('any', depth)}|string",
            lambda: f"{self.expression('any', depth)}|tojson{self.json_options()}",
            lambda: f"{self.expression('list', depth)}|join({self.one('', t(), t())})",
            lambda: f"{self.one('messages')}|join(attribute={self.one(repr('role'), repr('n'))})",
            lambda: f"{t()} if {self.expression('bool', depth)} else {t()}",
            lambda: f"{t()} if {self.expression('bool', depth)}",
            lambda: f"{self.expression('any', depth)}|default({t()}{self.one('', ', true')})",
            lambda: f"{self.expression('any', depth)} or {t()}",
            lambda: f"{t()}.split({self.one('', t())})[{i()}]",
            lambda: f"messages[{i()}].{self.one('role', 'content', 'missing')}",
            lambda: f"messages[{i()}]['content']",
            lambda: f"deep.x.y.z",
            lambda: f"{t()}.{self.one('partition', 'rpartition')}({t()})[{self.random.randrange(3)}]",
            lambda: f"{t()}|trim({t()})",
            lambda: f"{t()}.expandtabs({self.one('', '4')})",
            self.leaf_text,
            self.leaf_text,
        ]
        return self.random.choice(forms)()

    def bound(self, depth):
        """A bound of a slice. An int, because jinja2 folds constant slices by other rules where it is none."""
        return self.one("", f"({self.expression('int', depth)}|int)")

    def template(self):
        return repr(
            self.one(
                "{} {}",
                "{0}-{1}",
                "{1:>5}|{0:<4}|",
                "{a}",
                "{a!r} {0!s}",
                "{{}}",
                "{:^7}{:+d}",
                "{a:.2f}",
                "{a:8.3}",
                "{:*>6}",
                "{1:05}",
                "{1:x}",
                "{1:,}",
                "{0[0]}",
                "{a:e}",
            )
        )

    def percent(self):
        return repr(
            self.one("%s", "%s %s", "%5s|", "%-5s|%d", "%r", "%s%%", "%.2s", "%05d", "%s %x", "%s %.2f", "%s%+i", "%s %e")
        )

    def json_options(self):
        return self.one(
            "",
            "",
            "",
            "(indent=2)",
            "(ensure_ascii=true)",
            "(separators=(',', ':'))",
            "(sort_keys=true)",
            "(indent=4, sort_keys=true)",
            "(indent='-')",
        )

    def int(self, depth):
        i = lambda: self.expression("int", depth)
        t = lambda: self.expression("text", depth)
        forms = [
            lambda: f"{i()} {self.one('+', '-', '*', '//', '%', '+', '-')} {i()}",
            lambda: f"{i()} ** {self.random.randrange(3)}",
            lambda: f"-{i()}",
            lambda: f"+{i()}",
            lambda: f"{self.expression(self.one('text', 'list', 'dict'), depth)}|{self.one('length', 'count')}",
            lambda: f"{t()}|int{self.one('', '(7)', '(base=16)', '(0, 0)')}",
            lambda: f"{self.expression('float', depth)}|int",
            lambda: f"{self.expression('list', depth)}|{self.one('sum', 'min', 'max', 'first', 'last')}",
            lambda: f"numbers|sum",
            lambda: f"{t()}.{self.one('find', 'rfind', 'count')}({t()}{self.one('', ', ' + i(), f', {i()}, {i()}')})",
            lambda: f"{i()}|abs",
            lambda: f"messages|sum(attribute='n')",
            lambda: f"{i()}|round{self.one('', '(-1)', '(1)', '(0, method=' + repr('ceil') + ')')}",
            lambda: f"{t()}|wordcount",
            lambda: f"{self.expression('list', depth)}.{self.one('index', 'count')}({i()})",
            self.leaf_int,
            self.leaf_int,
            lambda: self.loop_value() or self.leaf_int(),
        ]
        return self.random.choice(forms)()

    def loop_value(self):
        if self.loops == 0:
            return None
        return "loop." + self.one("index", "index0", "revindex", "revindex0", "length", "depth", "depth0")

    def float(self, depth):
        x = lambda: self.expression(self.one("float", "int"), depth)
        forms = [
            lambda: f"{x()} {self.one('+', '-', '*', '/', '//', '%')} {x()}",
            lambda: f"{self.expression('text', depth)}|float{self.one('', '(1.5)')}",
            lambda: f"-{self.expression('float', depth)}",
            lambda: f"{x()}|round{self.one('', '(2)', '(1, ' + repr('floor') + ')', '(0, ' + repr('ceil') + ')', '(-2)')}",
            lambda: f"{x()}|abs",
            lambda: f"{x()}|float",
            lambda: f"{self.expression('int', depth)} / {self.expression('int', depth)}",
            lambda: f"2 ** {self.one('-1', '0.5', '-2')}",
            self.leaf_float,
        ]
        return self.random.choice(forms)()

    def bool(self, depth):
        b = lambda: self.expression("bool", depth)
        a = lambda: self.expression("any", depth)
        t = lambda: self.expression("text", depth)
        x = lambda: self.expression(self.one("int", "float", "int", "bool"), depth)
        test = lambda: self.one(
            "defined",
            "undefined",
            "none",
            "string",
            "mapping",
            "sequence",
            "iterable",
            "number",
            "integer",
            "float",
            "boolean",
            "true",
            "false",
            "callable",
            "upper",
            "lower",
            "escaped",
        )
        forms = [
            lambda: f"not {b()}",
            lambda: f"{b()} {self.one('and', 'or')} {b()}",
            lambda: f"{x()} {self.one('==', '!=', '<', '<=', '>', '>=')} {x()}",
            lambda: f"{t()} {self.one('==', '!=', '<', '<=', '>', '>=')} {t()}",
            lambda: f"{a()} {self.one('==', '!=')} {a()}",
            lambda: f"{t()} {self.one('in', 'not in')} {t()}",
            lambda: f"{a()} {self.one('in', 'not in')} {self.expression(self.one('list', 'dict', 'list'), depth)}",
            lambda: f"{a()} is {self.one('', 'not ')}{test()}",
            lambda: f"{x()} is {self.one('odd', 'even', 'divisibleby 3', 'divisibleby(2)', 'eq 2', 'ne(3)', 'lt 2', 'gt 1', 'ge 2', 'le 0', 'equalto(1)')}",
            lambda: f"{a()} is in {self.leaf_list()}",
            lambda: f"{t()}.{self.one('startswith', 'endswith')}({self.one(t(), '(' + t() + ', ' + t() + ')')})",
            lambda: f"{t()}.{self.one('isdigit', 'isalpha', 'isupper', 'islower', 'isspace', 'istitle', 'isalnum')}()",
            lambda: f"{x()} {self.one('<', '<=', '==')} {x()} {self.one('<', '>=', '!=')} {x()}",
            lambda: f"{self.expression('list', depth)} {self.one('==', '<', '!=')} {self.expression('list', depth)}",
            lambda: f"missing{self.one('', '.x', '[0]')} is {self.one('defined', 'none')}",
            lambda: f"{self.random.choice(self.namespaces)}.flag" if self.namespaces else "flag",
            lambda: f"loop.{self.one('first', 'last')}" if self.loops else "flag",
            lambda: f"messages[{self.leaf_int()}].{self.one('role', 'content')} is {test()}",
            self.leaf_bool,
        ]
        return self.random.choice(forms)()

    def list(self, depth):
        items = lambda: self.expression("list", depth)
        t = lambda: self.expression("text", depth)
        i = lambda: self.expression("int", depth)
        test = lambda: self.one(
            "'string'",
            "'defined'",
            "'none'",
            "'number'",
            "'odd'",
            "'gt', 1",
            "'in', ['a', 1, 2]",
            "'equalto', 1",
            "'sequence'",
            "'mapping'",
        )
        forms = [
            lambda: f"[{', '.join(self.expression('any', depth) for _ in range(self.random.randrange(4)))}]",
            lambda: f"({self.expression('any', depth)}, {self.expression('any', depth)})",
            lambda: f"{items()} + {items()}",
            lambda: f"{items()} * {self.random.randrange(3)}",
            lambda: f"({items()}|list)[{self.bound(depth)}:{self.bound(depth)}]",
            lambda: f"({items()}|list)[::{self.one('-1', '2', '-2')}]",
            lambda: f"{t()}.{self.one('split', 'rsplit')}({self.one('', t(), t() + ', 1', 'none, 1', repr(',') + ', maxsplit=2')})",
            lambda: f"{t()}.splitlines({self.one('', 'true')})",
            lambda: f"{items()}|{self.one('list', 'reverse|list', 'sort', 'unique|list', 'sort(reverse=true)', 'first', 'last')}",
            lambda: f"{items()}|map({self.one(repr('upper'), repr('string'), repr('length'), repr('trim'), repr('int'), repr('tojson'), repr('default') + ', 1')})|list",
            lambda: f"messages|map(attribute={self.one(repr('role'), repr('content'), repr('n'), repr('n') + ', default=0', repr('content.0.text'))})|list",
            lambda: f"{items()}|{self.one('select', 'reject')}({self.one('', test(), test())})|list",
            lambda: f"messages|{self.one('selectattr', 'rejectattr')}({self.one(repr('role'), repr('n'), repr('content'))}{self.one('', ', ' + test(), ', ' + repr('equalto') + ', ' + repr('user'))})|list",
            lambda: f"{self.expression('dict', depth)}.{self.one('keys', 'values', 'items')}()|list",
            lambda: f"{self.expression('dict', depth)}|{self.one('items', 'list', 'dictsort', 'dictsort(by=' + repr('value') + ')', 'dictsort(reverse=true)')}|list",
            lambda: f"range({self.one(str(self.random.randrange(6)), i(), '1, 5', '5, 0, -2')})|list",
            lambda: f"{items()}|batch(2{self.one('', ', 0')})|list",
            lambda: f"{t()}|list",
            lambda: f"messages|sort(attribute={self.one(repr('role'), repr('n'), repr('role,n'))})",
            lambda: f"words|sort(case_sensitive={self.one('true', 'false')})",
            lambda: f"{items()}|unique(attribute='role')|list",
            self.leaf_list,
            self.leaf_list,
        ]
        return self.random.choice(forms)()

    def dict(self, depth):
        forms = [
            lambda: "{"
            + ", ".join(
                f"{self.one(self.literal(), self.leaf_int(), self.literal())}: {self.expression('any', depth)}"
                for _ in range(self.random.randrange(3))
            )
            + "}",
            lambda: f"dict(a={self.expression('any', depth)})",
            lambda: f"{{range({self.leaf_int()}): 1, range(0, {self.leaf_int()}, 2): {self.expression('any', depth)}, (range(3),): 2}}",
            lambda: f"dict({self.expression('dict', depth)}, b=2)",
            lambda: f"messages[{self.leaf_int()}]",
            lambda: f"deep.{self.one('x', 'x.y', 'list[1]')}",
            lambda: f"{self.expression('dict', depth)}.get({self.one(repr('a'), self.expression('text', depth))}{self.one('', ', {}')})",
            self.leaf_dict,
            self.leaf_dict,
        ]
        return self.random.choice(forms)()

    # Statements.
    def tag(self, inside):
        return (
            "{%" + self.one("", "", "-", "+") + " " + inside + " " + self.one("", "", "-", "+" if self.chance(0.3) else "") + "%}"
        )

    def data(self):
        return self.random.choice(DATA) + self.random.choice(DATA)

    def output(self, depth):
        kind = self.one("text", "text", "any", "int", "float", "list", "dict", "bool")
        return "{{" + self.one("", "", "-") + " " + self.expression(kind, depth) + " " + self.one("", "", "-") + "}}"

    def new_name(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    def body(self, depth, size=3):
        known = len(self.locals), len(self.macros), len(self.namespaces)
        parts = []
        for _ in range(self.random.randrange(1, size + 1)):
            parts.append(self.data())
            parts.append(self.statement(depth))
        parts.append(self.data())
        if self.chance(0.8):  # else names that are no longer known are used
            self.locals, self.macros, self.namespaces = (
                self.locals[: known[0]],
                self.macros[: known[1]],
                self.namespaces[: known[2]],
            )
        return "".join(parts)

    def statement(self, depth):
        if depth <= 0:
            return self.output(2)
        forms = [self.output] * 5 + [
            self.if_block,
            self.if_block,
            self.for_block,
            self.for_block,
            self.for_block,
            self.set_,
            self.set_,
            self.set_block,
            self.namespace,
            self.macro,
            self.call,
            self.call_block,
            self.filter_block,
            self.with_,
            self.comment,
            self.raw,
            self.jump,
            self.generation,
            self.recursive,
        ]
        return self.random.choice(forms)(depth)

    def if_block(self, depth):
        parts = [self.tag("if " + self.expression(self.one("bool", "bool", "any"), 2)), self.body(depth - 1)]
        for _ in range(self.one(0, 0, 1)):
            parts += [self.tag("elif " + self.expression("bool", 2)), self.body(depth - 1)]
        if self.chance(0.5):
            parts += [self.tag("else"), self.body(depth - 1)]
        return "".join(parts) + self.tag("endif")

    def for_block(self, depth):
        name, second = self.new_name("i"), self.new_name("j")
        known = list(self.locals)
        if self.chance(0.25):
            source = f"{name}, {second} in " + self.one(
                "d.items()", "deep|items", "[(1, 2), ('a', text)]", "d|dictsort", "{'p': 1}.items()"
            )
            self.locals += [name, second]
        else:
            source = f"{name} in " + self.expression(self.one("list", "list", "list", "dict", "text"), 2)
            if self.chance(0.1):
                source = f"{name} in {self.expression('list', 1)}|{self.one('select', 'reverse', 'unique', 'map(' + repr('string') + ')')}"
            self.locals.append(name)
        if self.chance(0.2):
            source += " if " + self.expression("bool", 1)
        self.loops += 1
        inside = self.body(depth - 1)
        if self.chance(0.3):
            inside += (
                "{{ "
                + self.one(
                    "loop.index",
                    "loop.last",
                    "loop.previtem",
                    "loop.nextitem|default('end')",
                    "loop.cycle('a', 'b')",
                    "loop.length",
                    "loop.changed(" + name + ")",
                    "loop.revindex0",
                )
                + " }}"
            )
        self.loops -= 1
        self.locals = known
        other = self.tag("else") + self.body(depth - 1, 1) if self.chance(0.25) else ""
        return self.tag("for " + source) + inside + other + self.tag("endfor")

    def recursive(self, depth):
        name = self.new_name("r")
        return (
            self.tag(f"for {name} in nested recursive")
            + "["
            + self.one("", "{{ loop.depth }}", "{{ loop.index0 }}:{{ loop.depth0 }}")
            + "{% if "
            + name
            + " is sequence and "
            + name
            + " is not string %}{{ loop("
            + name
            + ") }}{% else %}{{ "
            + name
            + " }}{% endif %}]"
            + self.tag("endfor")
        )

    def set_(self, depth):
        if self.chance(0.2):
            a, b = self.new_name("v"), self.new_name("v")
            self.locals += [a, b]
            return self.tag(f"set {a}, {b} = {self.expression('any', 1)}, {self.expression('any', 1)}")
        name = self.random.choice(self.locals) if self.locals and self.chance(0.4) else self.new_name("v")
        expression = self.expression("any", 2)
        self.locals.append(name)
        return self.tag(f"set {name} = {expression}")

    def set_block(self, depth):
        name = self.new_name("v")
        result = (
            self.tag(f"set {name}{self.one('', '', ' | upper', ' | trim | title')}") + self.body(depth - 1) + self.tag("endset")
        )
        self.locals.append(name)
        return result

    def namespace(self, depth):
        if self.namespaces and self.chance(0.7):
            name = self.random.choice(self.namespaces)
            return self.tag(
                f"set {name}.{self.one('flag', 'a', 'b')} = {self.one(self.expression('any', 2), f'{name}.a ~ {self.leaf_text()}')}"
            )
        name = self.new_name("ns")
        self.namespaces.append(name)
        return (
            self.tag(f"set {name} = namespace(flag={self.leaf_bool()}, a={self.expression('text', 1)})") + f"{{{{ {name}.a }}}}"
        )

    def macro(self, depth):
        name = self.new_name("m")
        names = ["p", "q", "w"][: self.random.randrange(4)]
        parameters = [
            n + (f"={self.expression('any', 1)}" if i >= len(names) - 1 and self.chance(0.6) else "") for i, n in enumerate(names)
        ]
        known, loops, macros = list(self.locals), self.loops, list(self.macros)
        self.locals += names
        self.loops = 0
        body = self.body(depth - 1) + self.one(
            "", "", "{{ caller() if caller is defined }}", "{{ varargs|length }}", "{{ kwargs|tojson }}", "{{ caller(1) }}"
        )
        self.locals, self.loops, self.macros = known, loops, macros
        self.macros.append((name, len(names)))
        return self.tag(f"macro {name}({', '.join(parameters)})") + body + self.tag("endmacro")

    def arguments(self, count):
        given = [self.expression("any", 1) for _ in range(self.one(count, count, self.random.randrange(count + 2)))]
        return ", ".join(given + ([f"{self.one('p', 'q', 'z')}={self.expression('any', 1)}"] if self.chance(0.15) else []))

    def call(self, depth):
        if not self.macros:
            return self.output(depth)
        name, count = self.random.choice(self.macros)
        return "{{ " + f"{name}({self.arguments(count)})" + self.one("", "", "|upper", "|trim", " ~ '.'") + " }}"

    def call_block(self, depth):
        if not self.macros:
            return self.output(depth)
        name, count = self.random.choice(self.macros)
        parameter = self.one("", "", "(c1)", "(c1, c2=3)")
        known, loops = list(self.locals), self.loops
        self.locals += ["c1"] if parameter else []
        self.loops = 0
        body = self.body(depth - 1)
        self.locals, self.loops = known, loops
        return self.tag(f"call{parameter} {name}({self.arguments(count)})") + body + self.tag("endcall")

    def filter_block(self, depth):
        return (
            self.tag("filter " + self.one("upper", "trim", "indent(2)", "replace('a', 'b')", "title|trim", "escape", "length"))
            + self.body(depth - 1)
            + self.tag("endfilter")
        )

    def with_(self, depth):
        name = self.new_name("w")
        value = self.expression("any", 1)
        known = list(self.locals)
        self.locals.append(name)
        body = self.body(depth - 1)
        self.locals = known
        return self.tag(f"with {name} = {value}") + body + self.tag("endwith")

    def generation(self, depth):
        loops, self.loops = self.loops, 0
        body = self.body(depth - 1)
        self.loops = loops
        return self.tag("generation") + body + self.tag("endgeneration")

    def comment(self, depth):
        return "{#" + self.one("", "-", "+") + self.one(" x ", " {{ y }} ", "\n", "") + self.one("", "-", "+") + "#}"

    def raw(self, depth):
        return (
            "{%"
            + self.one("", "-", "+")
            + " raw "
            + self.one("", "-")
            + "%}"
            + self.data()
            + self.one("{{ x }}", "{% if %}", "")
            + self.data()
            + "{%"
            + self.one("", "-", "+")
            + " endraw "
            + self.one("", "-", "+")
            + "%}"
        )

    def jump(self, depth):
        if self.loops == 0 and self.chance(0.9):
            return self.output(depth)
        return "{% if " + self.expression("bool", 1) + " %}" + self.tag(self.one("break", "continue")) + "{% endif %}"


def generate(random):
    """A template and its values."""
    given = values(random)
    generator = Generator(random)
    template = generator.body(random.randrange(1, 4), 4)
    if random.random() < 0.03:  # a byte that is lost, or twice there
        at = random.randrange(len(template) + 1)
        template = template[:at] + random.choice(["", template[at : at + 1] * 2]) + template[at + 1 :]
    return template, given
