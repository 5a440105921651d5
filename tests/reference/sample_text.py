"""Text for the small tokenizers: what their merges are learnt from, and what they are tried on."""

CORPUS = """\
A lacuna is a gap in a manuscript, a place where the parchment was torn, burnt or rubbed away. The reader fills it in.
First the plain words come back, the ones that the neighbouring lines leave no doubt about; then the names; and at last
the words that nobody can know. Whoever reads this way does not go from left to right. The most certain letter is written
first, wherever it stands, and every letter written makes the next one surer.

The scribe had 27 pages, 1043 lines and 12 kinds of ink. He couldn't find page 9; he'd lost it, or it's what they've
always said. "We'll see," she replied, "I'm sure they're right." x = (a + b) * 2; if (x >= 10) { return x - 1; }
Denoising, masking, unmasking, remasking, sampling, decoding, tokens, positions, probability, confidence, entropy.
"""

FOREIGN = """\
Der Schreiber ließ eine Lücke; später füllte er sie aus. Où est la page neuf ? Elle était là hier, à côté du café.
Рукопись была найдена в монастыре. Пробел заполнили позже. 写本の欠落は読者が埋める。手稿中的空白由读者填补。
Το χειρόγραφο έχει κενά. المخطوطة بها فجوات. כתב היד חסר. 원고에는 빈틈이 있다. पांडुलिपि में रिक्त स्थान है।
"""

CASES = [
    "",
    "a",
    "Hello world",
    " Hello world",
    "The reader fills in the gap.\n",
    "two  spaces,   three spaces    four",
    "trailing space ",
    "tabs\tand\r\nwindows line ends\r\n\r\nand\n\n\nempty lines",
    "   \n  leading and mixed white space \t\n ",
    "It's what they've said; we'll see, I'm sure, you're right, he'd know, DON'T SHOUT, IT'S LOUD",
    "12 345 6789 3.14159 1,000,000 2026-11-20",
    "x = (a + b) * 2; // comment\nif (x >= 10) { return x - 1; }\n",
    "snake_case camelCase kebab-case a.b.c ...!!!??? --- ***",
]

UNICODE_CASES = [
    "Lücke, café, naïve, Straße, Ærøskøbing",
    "cafe\u0301 nai\u0308ve A\u030angstro\u0308m",  # decomposed: NFC where the tokenizer has it
    "\u212b \u2126 \ufb01 \uac00 \u1100\u1161",  # signs that NFC replaces, a ligature that it keeps, Hangul jamo
    "写本の欠落は読者が埋める。手稿中的空白",
    "Рукопись была найдена 12 мая, в монастыре.",
    "원고에는 빈틈이 있다. पांडुलिपि में रिक्त स्थान",
    "العربية עברית ١٢٣ Ⅷ ½ ²",
    "emoji 🙂🙂 👩\u200d👩\u200d👧 🇫🇷 done",
    "\u00a0no-break\u00a0space\u2003em space\u3000ideographic\u0085next line\u2028line separator",
    "zero\u200bwidth \ufefftext \u00ad soft",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𐍈 \U0010fffd end",
    "ſhort s, K (Kelvin sign) 'ſ 'S",  # simple case folding: 's matches long s
]
