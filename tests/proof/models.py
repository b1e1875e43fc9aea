"""The protocols as Promela models, checked in every state by spin; each rule that they need, taken away, must fail.

`promela/entry.pml` is the file protocol, `lock.pml` the two halves of the busy lock, `lease.pml` the work queue. A
scene is a model with sizes. A rule is known by its macro in the text; a macro that no rule here names is a fault of the
part, and so is a rule without which the model still holds: then it is not needed, or the model is too weak.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.proof.asked import Asked, Result
from tests.proof.models_rules import PROMISES, RULES, Rule

TEXTS = Path(__file__).with_name("promela")
# Each step touches what everybody sees, so there is no order to leave out: the reduction would only cost.
_PAN = ("-DSAFETY", "-DNOREDUCE", "-DCOLLAPSE", "-DMEMLIM=12000", "-w")
# pan.c overlays its state with structures: with the compiler's usual assumptions it finds errors that are not there.
_HONEST = ("-fwrapv", "-fno-strict-aliasing")
_MOST_S = 1800
_MOST_STEPS = 200_000


@dataclass(frozen=True)
class Scene:
    """A model with its sizes. `by_hand`: only where no time was given. `fast`: worth a second for a faster search."""

    name: str
    model: str
    sizes: Sequence[str]
    by_hand: bool = False
    fast: bool = False


SCENES = (
    Scene("one entry, a kill anywhere", "entry", ("KILLS=1",)),
    Scene("approved again, edited", "entry", ("KILLS=0", "LIVES=2", "ACTS=2")),
    Scene("two pid namespaces, a kill", "entry", ("KILLS=1", "TWO_SPACES")),
    Scene("another machine recovers, a kill", "entry", ("KILLS=1", "ELSEWHERE")),
    Scene("a power cut", "entry", ("KILLS=0", "CUTS=1", "ACTS=0")),
    Scene("the lock's halves replaced, a kill", "lock", ("KILLS=1",)),
    Scene("an item, an agent killed", "lease", ("KILLS=1", "LOSSES=0", "DECLINES=0")),
    Scene("an item, an answer lost", "lease", ("KILLS=0", "LOSSES=1", "DECLINES=0")),
    Scene("one entry, two kills", "entry", ("KILLS=2",), by_hand=True, fast=True),
    Scene("approved again, edited, a kill", "entry", ("KILLS=1", "LIVES=2", "ACTS=2"), by_hand=True, fast=True),
    Scene("two pid namespaces, two kills", "entry", ("KILLS=2", "TWO_SPACES"), by_hand=True, fast=True),
    Scene("another machine recovers, two kills", "entry", ("KILLS=2", "ELSEWHERE"), by_hand=True, fast=True),
    Scene("a power cut and a kill", "entry", ("KILLS=1", "CUTS=1"), by_hand=True, fast=True),
    Scene("the lock's halves replaced, three kills", "lock", ("KILLS=3",), by_hand=True, fast=True),
    Scene("an item, killed, declined", "lease", ("KILLS=1", "LOSSES=0"), by_hand=True, fast=True),
    Scene("an item, lost, declined", "lease", ("KILLS=0", "LOSSES=1"), by_hand=True, fast=True),
    Scene("an item, killed and lost", "lease", ("KILLS=1", "DECLINES=0", "CANCELS=0"), by_hand=True, fast=True),
)


@dataclass(frozen=True)
class Search:
    """What a search of all states found: the assertion that `failed`, or the `trouble` that kept it from its end."""

    states: int = 0
    depth: int = 0
    megabytes: float = 0.0
    seconds: float = 0.0
    failed: str = ""
    trouble: str = ""


@dataclass
class _Found:
    counts: dict[str, float | str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    scenes: list[dict[str, float | str]] = field(default_factory=list)
    rules: list[dict[str, float | str]] = field(default_factory=list)


def run(asked: Asked) -> Result:
    """Search every scene, by hand the larger ones too, and every model without each of its rules."""
    scenes = [one for one in SCENES if asked.wants(one.name) and (asked.seconds is None or not one.by_hand)]
    rules = [one for one in RULES if asked.wants(one.name)]
    found = _Found(faults=_unnamed())
    with ThreadPoolExecutor(max(1, asked.jobs)) as pool:
        searches = pool.map(lambda one: search(asked.folder, one.model, one.sizes, fast=one.fast), scenes)
        without = pool.map(lambda one: search(asked.folder, one.model, (one.name, *one.sizes)), rules)
        for scene, seen in zip(scenes, searches, strict=True):
            _note_scene(found, scene, seen)
        for rule, seen in zip(rules, without, strict=True):
            _note_rule(found, rule, seen)
    counts: dict[str, float | str] = {
        "scenes": len(scenes),
        "states explored": sum(int(row["states"]) for row in found.scenes),
        "deepest run, steps": max((int(row["depth"]) for row in found.scenes), default=0),
        "promises broken": sum("does not hold" in fault for fault in found.faults),
        "rules taken away": len(rules),
        "rules missed then": sum(row["fails"] != "" for row in found.rules),
    }
    return Result(counts, found.faults, {"scenes": found.scenes, "rules": found.rules})


def search(folder: Path, model: str, defined: Sequence[str], *, fast: bool = False) -> Search:
    """Search all states of a model, or until an assertion fails. The search is left in `folder` when one does."""
    options = [f"-D{one}" for one in defined]
    place = folder / re.sub(r"\W+", "_", "_".join((model, *defined)))
    place.mkdir(parents=True)
    text = TEXTS / f"{model}.pml"
    speed = "-O2" if fast else "-O0"
    for words in (["spin", "-a", *options, str(text)], ["gcc", speed, *_HONEST, *_PAN, "-o", "pan", "pan.c"]):
        made = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
        if made.returncode != 0 or "rror" in made.stdout:
            return Search(trouble=(made.stdout + made.stderr).strip()[:500])
    try:
        ran = subprocess.run(
            ["./pan", "-E", "-n", f"-m{_MOST_STEPS}", "-w20"],
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
            timeout=_MOST_S,
        )
    except subprocess.TimeoutExpired:
        return Search(trouble=f"no end after {_MOST_S} s")
    return _read(ran.stdout + ran.stderr)


def _read(said: str) -> Search:
    def number(pattern: str) -> float:
        matched = re.search(pattern, said)
        return float(matched[1]) if matched else 0.0

    failed = re.search(r"^pan:\d+: assertion violated +(.*?) \(at depth", said, re.MULTILINE)
    whole = re.search(r"errors: 0$", said, re.MULTILINE) and "not completed" not in said and "too small" not in said
    return Search(
        states=int(number(r"(\d+) states, stored")),
        depth=int(number(r"depth reached (\d+)")),
        megabytes=number(r"([\d.]+)\s+total actual memory usage"),
        seconds=number(r"elapsed time ([\d.]+) seconds"),
        failed=failed[1] if failed else "",
        trouble="" if failed or whole else f"the search did not come to its end: {said[-400:]}",
    )


def _unnamed() -> list[str]:
    """Macros of the texts that take a rule away and that no rule names, and the reverse."""
    written = {
        (text.stem, name)
        for text in TEXTS.glob("*.pml")
        for name in re.findall(r"^#ifn?def (N(?:O|EVER)_\w+)", text.read_text(encoding="utf-8"), re.MULTILINE)
    }
    named = {(rule.model, rule.name) for rule in RULES}
    faults = [f"{model}.pml: {name} is no rule of models_rules.py" for model, name in sorted(written - named)]
    return faults + [f"{model}.pml knows no {name}" for model, name in sorted(named - written)]


def _note_scene(found: _Found, scene: Scene, seen: Search) -> None:
    sizes = " ".join(scene.sizes)
    if seen.failed:
        found.faults.append(f"{scene.model}.pml ({sizes}): a promise does not hold: {seen.failed}")
    elif seen.trouble:
        found.faults.append(f"{scene.model}.pml ({sizes}): {seen.trouble}")
    found.scenes.append(
        {
            "scene": scene.name,
            "model": scene.model,
            "sizes": sizes,
            "states": seen.states,
            "depth": seen.depth,
            "MB": round(seen.megabytes),
            "seconds": seen.seconds,
        }
    )


def _note_rule(found: _Found, rule: Rule, seen: Search) -> None:
    text = seen.failed.replace(" ", "")
    fails = next((words for mark, words in PROMISES if mark in text), "")
    if seen.trouble:
        found.faults.append(f"{rule.model}.pml without {rule.name}: {seen.trouble}")
    elif not fails:
        why = f"only {seen.failed} fails, which is no promise" if seen.failed else "nothing fails"
        found.faults.append(
            f"{rule.model}.pml without {rule.name}: {why}. The rule is not needed, or the model is too weak."
        )
    found.rules.append({"rule": rule.what, "where": rule.where, "macro": rule.name, "fails": fails})
