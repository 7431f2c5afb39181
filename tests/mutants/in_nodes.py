"""Faults in the comparison of nodes: which is called slower than the others."""

from __future__ import annotations

from tests.mutants.fault import Fault

AGAINST = "tests/analysis/nodes/test_against_others.py"
WORKERS = "tests/analysis/nodes/test_workers.py"
GROUPS = "tests/analysis/nodes/test_groups.py"

NODES = (
    Fault(
        "the interval of each of eight nodes is that of one",
        "analysis/nodes/against_others.py",
        "usual, ALPHA / count)",
        "usual, ALPHA)",
        (f"{AGAINST}::test_the_intervals_of_all_nodes_hold_together",),
    ),
    Fault(
        "a node that is half a percent slow is named",
        "analysis/nodes/against_others.py",
        "if low > LIMIT:",
        "if low > 0:",
        (f"{AGAINST}::test_less_than_1_percent_is_no_difference",),
    ),
    Fault(
        "a very slow node hides a slow one",
        "analysis/nodes/against_others.py",
        "if (still == usual).all():",
        "if True:",
        (f"{AGAINST}::test_two_slow_nodes_do_not_hide_each_other",),
    ),
    Fault(
        "works of a node are compared with other works elsewhere",
        "analysis/nodes/against_others.py",
        "centred = logs - means[works]",
        "centred, works = logs, works * 0",
        (f"{AGAINST}::test_nodes_are_compared_in_the_same_work_alone",),
    ),
    Fault(
        "the processes of one worker are enough to name its node",
        "analysis/nodes/against_others.py",
        "by_workers=by_workers.verdict != TOO_FEW",
        "by_workers=True",
        (
            f"{WORKERS}::test_processes_of_one_worker_each_would_name_an_equal_node",
            f"{GROUPS}::test_one_worker_tells_nothing_of_its_node",
        ),
    ),
    Fault(
        "processes are compared where workers are enough",
        "analysis/nodes/against_others.py",
        "one if by_workers.verdict == TOO_FEW else by_workers",
        "one",
        (f"{WORKERS}::test_of_equal_nodes_at_most_5_percent_of_studies_name_one",),
    ),
    Fault(
        "workers that measured more of the long works are slower",
        "analysis/nodes/levels.py",
        "values - means[works]",
        "values - values.mean()",
        (f"{WORKERS}::test_levels_are_exact_where_workers_measured_other_works",),
    ),
    Fault(
        "the spread between nodes contains the noise of their means",
        "analysis/nodes/against_others.py",
        "means**2 - noise",
        "means**2",
        (f"{AGAINST}::test_the_spread_between_nodes_lacks_the_noise_of_their_means",),
    ),
    Fault(
        "nodes are compared with those of another environment",
        "analysis/nodes/groups.py",
        'read[read["environment"] == letter]',
        "read",
        (f"{GROUPS}::test_environments_are_never_compared",),
    ),
    Fault(
        "a wrong baseline tells how fast a node is",
        "analysis/nodes/readings.py",
        'runs["baseline_mode"].eq(BASELINE) & ~wrong',
        'runs["baseline_mode"].eq(BASELINE)',
        (f"{GROUPS}::test_some_processes_have_no_eager_time",),
    ),
)
