"""All faults that are planted, each with the tests that must notice it."""

from __future__ import annotations

from tests.mutants.in_captures import CAPTURES
from tests.mutants.in_causes import CAUSES
from tests.mutants.in_checks import CORRECTNESS
from tests.mutants.in_comparisons import COMPARISONS
from tests.mutants.in_conditions import CONDITIONS
from tests.mutants.in_evidence import EVIDENCE
from tests.mutants.in_modes import MODE
from tests.mutants.in_nodes import NODES
from tests.mutants.in_pages import PAGES
from tests.mutants.in_passes import PASSES
from tests.mutants.in_reading import READ
from tests.mutants.in_rounds import ROUNDS
from tests.mutants.in_statements import STATED
from tests.mutants.in_timers import READING_TIME
from tests.mutants.in_training import TRAINING

FAULTS = (
    *(*READING_TIME, *ROUNDS, *STATED, *CORRECTNESS, *MODE, *CONDITIONS),
    *(*PASSES, *EVIDENCE, *TRAINING, *CAPTURES, *READ, *PAGES, *CAUSES, *COMPARISONS),
    *NODES,
)
