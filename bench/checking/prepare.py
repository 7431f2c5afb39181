"""Prepares the check of a phase; a phase without a check of its own has that of one call."""

from __future__ import annotations

from functools import singledispatch

from modescope.bench.checking.checks import Check
from modescope.bench.checking.output_check import prepare_check, prepare_mixed_check
from modescope.bench.checking.training_check import TrainingCheck, TrainingTrial
from modescope.bench.devices.devices import Hardware
from modescope.bench.model.subject import Subject
from modescope.bench.modes.phase import Phase
from modescope.bench.modes.phases import MixedPhase, TrainingPhase
from modescope.bench.records.cases import Training
from modescope.bench.records.optimizers import OPTIMIZERS


@singledispatch
def check_for(phase: Phase, subject: Subject, device: Hardware, seed: int) -> Check:
    """Returns the check of `phase` on inputs drawn from `seed`, for which it runs the reference."""
    return prepare_check(subject, device, seed)


@check_for.register
def _of_mixed(phase: MixedPhase, subject: Subject, device: Hardware, seed: int) -> Check:
    """Returns a check of outputs at each size."""
    return prepare_mixed_check(subject, device, seed)


@check_for.register
def _of_training(
    phase: TrainingPhase, subject: Subject, device: Hardware, seed: int
) -> TrainingCheck:
    """Returns a check of losses, gradients and updates.

    Its reference is a float64 copy that is trained without loss scaler and capture.
    """
    options, kept = phase.options, subject.on_host()
    plain = Training(options.optimizer, lr=options.lr, loss=options.loss, scaler=False)
    follows_size = OPTIMIZERS[options.optimizer].follows_size
    return TrainingTrial(kept, TrainingPhase(plain), follows_size, device).check(seed)
