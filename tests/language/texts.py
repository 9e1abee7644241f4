"""A made-up text with a grammar, by the thousand sentences."""

import gzip
import json

from phasekit.streams import stream

NOUNS = ("cat", "dog", "bird", "child", "stone")
VERBS = ("sees", "likes", "finds", "wants")
PLACES = ("near the door", "in the garden", "on the table")


def sentences(count, seed=0):
    draw = stream("made-up text", seed)
    found = []
    for _ in range(count):
        subject, thing = draw.choice(NOUNS, 2)
        place = f" {draw.choice(PLACES)}" if draw.random() < 0.5 else ""
        found.append(f"the {subject} {draw.choice(VERBS)} a {thing}{place} .")
    return found


def write(folder, name, lines):
    path = folder / name
    text = "\n".join(lines) + "\n"
    if ".jsonl" in name:
        text = "".join(json.dumps({"text": line, "age": k}) + "\n" for k, line in enumerate(lines))
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path
