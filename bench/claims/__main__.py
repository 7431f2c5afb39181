"""Is what the textbook says of PyTorch true on this machine? Each statement is an experiment.

Ends with status 0 where every experiment that this machine can make was made, whatever its verdict.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

from tqdm import tqdm

from bench import publishing
from bench.arguments import INTERRUPTED, command
from bench.claims import page, telling
from bench.claims.arguments import PROGRAM, Asked, parse
from bench.claims.asking import Answer, ask
from bench.claims.seen import Figure
from bench.pages import plain
from bench.publishing import Surroundings

EXIT_FAILED = 1


@command
def main(words: Sequence[str]) -> int:
    """Exit status: 0 done, 1 an experiment failed, 2 wrong arguments, 130 by Ctrl-C."""
    asked = parse(words, __doc__)
    if asked.listing:
        rows = [(claim.id, " ".join(claim.needs), claim.statement) for claim in asked.chosen]
        print(plain(("id", "needs", "statement"), rows))
        return 0
    around = publishing.surroundings(asked.device, 1, PROGRAM, words)
    print("\n".join(publishing.heading(around)), end="\n\n")
    answers: list[Answer] = []
    found: list[Figure] = []
    stopped = False
    try:
        _ask(asked, around, answers, found)
    except KeyboardInterrupt:
        print("stopped; the answers above are kept")
        stopped = True
    failures = telling.failures(answers)
    if answers:
        print("\n".join(["", f"{telling.summary(answers)}.", *failures]))
        _publish(asked, around, answers, found)
    return INTERRUPTED if stopped else EXIT_FAILED if failures else 0


def _ask(asked: Asked, around: Surroundings, answers: list[Answer], found: list[Figure]) -> None:
    """Fills the two lists, so that an interruption leaves what is done."""
    devices = ["cpu", *([around.device] if around.device != "cpu" else [])]
    with tqdm(asked.chosen, unit="claim", disable=None, leave=False) as bar:
        for claim in bar:
            bar.set_description(claim.id)
            answer, figures = ask(claim, devices, asked.folder / "logs")
            answers.append(answer)
            found += figures
            bar.write(telling.line(answer))
            sys.stdout.flush()
    with contextlib.suppress(OSError):  # there is none, or something failed and it says why
        (asked.folder / "logs").rmdir()


def _publish(
    asked: Asked, around: Surroundings, answers: Sequence[Answer], found: Sequence[Figure]
) -> None:
    heading = publishing.heading(around)
    text = page.markdown_page(heading, answers, found)
    markdown, rows = publishing.publish(
        asked.folder, around, text, {Answer: answers, Figure: found}
    )
    whole = page.html_page(heading, answers, found)
    publishing.whole(
        rows.with_suffix(".html"), lambda path: path.write_text(whole, encoding="utf-8")
    )
    print(f"\npage  {rows.with_suffix('.html')}\n      {markdown}\nrows  {rows}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
