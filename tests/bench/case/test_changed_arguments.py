"""A case whose model changes its arguments: each call that is made of it is the user's call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

from modescope.bench.case import runner, steady_work
from modescope.bench.records.cases import Training
from modescope.bench.records.results import Result
from modescope.bench.steps import arguments
from modescope.bench.timing import timers
from tests.helpers import argument_models
from tests.helpers.argument_models import BEGUN
from tests.helpers.probe_models import Built, Case, case, silent, smoke, variant
from tests.helpers.argument_models import model

pytestmark = pytest.mark.usefixtures("as_in_a_child", "restored_settings")
