"""Faults in comparisons of two studies: what a gate fails on, and what it must not pass."""

from __future__ import annotations

from tests.mutants.fault import Fault

RULES = "tests/analysis/changes/test_welch_and_verdicts.py"
GATE = "tests/analysis/compare/rules/test_gate.py"
EXACT = "tests/analysis/compare/rules/test_exact.py"
FORMATS = "tests/analysis/compare/formats/test_formats.py"
COMMAND = "tests/command_line/test_compare_command.py"

SPLIT = "tests/analysis/changes/test_split.py"
SIDES = "tests/analysis/compare/rules/test_sides.py"

SCHEDULE = "tests/bench/versus/test_schedule.py"
STATES = "tests/bench/versus/test_states.py"
VERSUS = "tests/bench/versus/test_command.py"
ARGUMENTS = "tests/bench/versus/test_arguments.py"

COMPARISONS = (
    Fault(
        "the best of many splits is held against one of chance",
        "analysis/changes/split.py",
        "1 - (1 - ALPHA) ** (1 / rows)",
        "ALPHA",
        (f"{SPLIT}::test_chance_makes_a_step_in_5_percent_of_reports",),
    ),
    Fault(
        "a single odd set is a step",
        "analysis/changes/split.py",
        "LEAST = 2",
        "LEAST = 1",
        (f"{SPLIT}::test_a_single_odd_set_is_no_step",),
    ),
    Fault(
        "a change within the margin fails a comparison",
        "analysis/changes/verdicts.py",
        "against_eager.low > margins.against_eager",
        "against_eager.low > 0",
        (RULES,),
    ),
    Fault(
        "a mode fails because eager became faster",
        "analysis/changes/verdicts.py",
        "eager.low > -margins.against_eager",
        "eager.low > -1.0",
        (f"{RULES}::test_a_mode_does_not_fail_because_eager_became_faster",),
    ),
    Fault(
        "processes that agree by chance have no error",
        "analysis/changes/welch.py",
        "np.maximum(spread, floor)",
        "np.maximum(spread, 0 * floor)",
        (f"{RULES}::test_processes_that_agree_by_chance_keep_the_error_within_them",),
    ),
    Fault(
        "the levels of modes count as noise of eager",
        "analysis/changes/welch.py",
        "row.values - row.values.mean(-1, keepdims=True)",
        "row.values",
        (RULES,),
    ),
    Fault(
        "old and new exchanged",
        "analysis/changes/welch.py",
        "after.values.mean(-1) - before.values.mean(-1)",
        "before.values.mean(-1) - after.values.mean(-1)",
        (f"{RULES}::test_the_interval_is_welchs",),
    ),
    Fault(
        "two replicates fail a timing",
        "analysis/changes/verdicts.py",
        "LEAST_PROCESSES = 3",
        "LEAST_PROCESSES = 2",
        (f"{GATE}::test_fewer_than_three_replicates_never_fail_a_timing",),
    ),
    Fault(
        "a disturbed control is ignored",
        "analysis/compare/rules/timing.py",
        "    if broken:\n",
        "    if False:\n",
        (f"{GATE}::test_eager_against_itself_is_a_control",),
    ),
    Fault(
        "sides that were not measured in turns fail timings",
        "analysis/compare/rules/gate.py",
        "(EXACT, *(TIMED if interleaved else ()))",
        "(EXACT, *TIMED)",
        (f"{GATE}::test_sides_that_were_not_interleaved_fail_timings_only_on_request",),
    ),
    Fault(
        "times of a mode that is not in effect are compared",
        "analysis/compare/rules/timing.py",
        'row["status"] == "ok" and row["in_effect"] is True and',
        'row["status"] == "ok" and',
        (f"{GATE}::test_times_that_say_nothing_have_no_verdict",),
    ),
    Fault(
        "a row that vanished passes",
        "analysis/compare/rules/exact.py",
        "WORSE if ok else REPORTED",
        "REPORTED if ok else WORSE",
        (f"{EXACT}::test_a_row_that_vanished_fails_if_it_was_ok",),
    ),
    Fault(
        "a model without any graph has no graph breaks",
        "analysis/compare/rules/exact.py",
        'new[0]["compile"] == "none" or after != {0}',
        "True",
        (f"{EXACT}::test_no_graph_at_all_is_not_zero_graph_breaks",),
    ),
    Fault(
        "one crash in five processes passes",
        "analysis/compare/rules/exact.py",
        "    if not after:\n",
        "    if len(after) < len(new):\n",
        (f"{EXACT}::test_how_a_row_ended",),
    ),
    Fault(
        "a gate without any value passes",
        "analysis/compare/rules/gate.py",
        "        if not any(known):\n",
        "        if False:\n",
        (f"{GATE}::test_nothing_compared_is_an_error",),
    ),
    Fault(
        "another machine is compared",
        "analysis/compare/rules/gate.py",
        "    differences.check(differing, request.allowed)\n",
        "",
        (f"{COMMAND}::test_exit_status",),
    ),
    Fault(
        "a study compared with itself passes",
        "analysis/compare/rules/sides.py",
        "if folder.resolve() == same.resolve():",
        "if False:",
        (f"{COMMAND}::test_mistakes_end_with_a_sentence_and_status_2",),
    ),
    Fault(
        "a fault of ours has the status of a regression",
        "analysis/compare/command.py",
        "        failed = NOT_COMPARED\n",
        "        failed = 1\n",
        (f"{COMMAND}::test_a_fault_of_our_own_is_not_taken_for_a_regression",),
    ),
    Fault(
        "a shortened comment does not say so",
        "analysis/compare/formats/markdown.py",
        "    if shown < len(comparison.rows):\n",
        "    if False:\n",
        (f"{FORMATS}::test_markdown_is_cut_to_the_limit_and_says_so",),
    ),
    Fault(
        "an undecided row passes in JUnit",
        "analysis/compare/formats/junit.py",
        "elif words.is_open(row) or row.timing.verdict is None:",
        "elif row.timing.verdict is None:",
        (f"{FORMATS}::test_junit_names_are_unique_and_undecided_rows_skipped",),
    ),
    Fault(
        "one side always begins",
        "bench/versus/schedule.py",
        "SIDES if old_first[cases[job]] else SIDES[::-1]",
        "SIDES",
        (f"{SCHEDULE}::test_each_side_begins_equally_often_in_every_block_and_case",),
    ),
    Fault(
        "a case may begin with one side in every block",
        "bench/versus/schedule.py",
        "old_first if block % 2 else {}",
        "{}",
        (f"{SCHEDULE}::test_each_side_begins_equally_often_in_every_block_and_case",),
    ),
    Fault(
        "the other side of a pair is reused from another time",
        "bench/versus/measuring.py",
        "both and old.versus_block is not None and old.versus_block == new.versus_block",
        "both",
        (f"{VERSUS}::test_going_back_to_an_earlier_state_measures_again",),
    ),
    Fault(
        "every command numbers its blocks from 0",
        "bench/versus/measuring.py",
        "max(last, default=-1) + 1",
        "0",
        (f"{VERSUS}::test_a_changed_side_is_measured_with_its_partner",),
    ),
    Fault(
        "the same source is another harness for another Python",
        "bench/versus/worker.py",
        "replace(job.environment, source_id=source_id)",
        "job.environment",
        (f"{VERSUS}::test_both_sides_are_measured_by_one_harness",),
    ),
    Fault(
        "a process is compared whose block is on one side only",
        "analysis/compare/rules/sides.py",
        "[one in shared or one[0] not in rows for one in first]",
        "[True for one in first]",
        (f"{SIDES}::test_processes_without_a_partner_in_their_block_are_left_out",),
    ),
    Fault(
        "the working tree is measured as a revision",
        "bench/versus/sources.py",
        "        if strangers:\n",
        "        if False:\n",
        (f"{STATES}::test_no_file_of_the_working_tree_is_measured_as_a_revision",),
    ),
    Fault(
        "a revision is searched after the working tree",
        "bench/versus/revisions.py",
        "str(_in_tree(path, top, tree) or path)",
        "str(path)",
        (f"{STATES}::test_folders_of_the_repository_are_searched_in_the_revision",),
    ),
    Fault(
        "a versus that measured nothing has the status of a regression",
        "bench/versus/command.py",
        "FAILED = NOT_COMPARED",
        "FAILED = 1",
        (f"{VERSUS}::test_a_missing_side_ends_with_status_2",),
    ),
    Fault(
        "rows of another interpreter are reused",
        "bench/versus/measuring.py",
        "    if reuse.versus_block is None or state.is_recorded_as(reuse.versus_state):\n",
        "    if True:\n",
        (f"{VERSUS}::test_rows_of_another_interpreter_are_not_reused",),
    ),
    Fault(
        "a revision is any state",
        "bench/versus/states.py",
        "self.name.startswith(REVISION) and name.startswith(REVISION)",
        "self.name.startswith(REVISION)",
        (f"{STATES}::test_what_a_state_is_recorded_as",),
    ),
    Fault(
        "two interpreters are the same state",
        "bench/versus/measuring.py",
        "(processes[side].state.python, [",
        "(None, [",
        (f"{VERSUS}::test_two_interpreters_are_not_the_same_state",),
    ),
    Fault(
        "one model of a folder vouches for those of others",
        "bench/versus/sources.py",
        "of_case = [files[one] for one in functions]",
        "of_case = [*files.values()]",
        (f"{STATES}::test_each_model_must_be_of_the_folder",),
    ),
    Fault(
        "the value of an option is taken for a setting",
        "bench/versus/arguments.py",
        "free = comparing.surplus(ours)",
        "free = list(ours)",
        (f"{ARGUMENTS}::test_values_of_options_are_no_settings_and_no_sides",),
    ),
)
