"""Clocks set apart: a preloaded library that moves what a process takes for the time of day.

libfaketime 0.9.10 does the same, but makes every `time.sleep` of Python 3.11 fail with EINVAL.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SKEWS_S = (0, 0, 3600, -3600, 40)
"""Clocks of machines, in seconds from this one's."""

LIBRARY = "clock.so"

SOURCE = """
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long skew(void) {
  const char *text = getenv("MODESCOPE_SKEW_S");
  return text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int failed = syscall(SYS_clock_gettime, clock, now);
  if (!failed && clock == CLOCK_REALTIME) now->tv_sec += skew();
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  int failed = syscall(SYS_gettimeofday, now, zone);
  if (!failed) now->tv_sec += skew();
  return failed;
}

time_t time(time_t *into) {
  struct timeval now;
  gettimeofday(&now, NULL);
  if (into) *into = now.tv_sec;
  return now.tv_sec;
}
"""


def built(place: Path) -> bool:
    """Whether the library could be compiled into the folder."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return False
    source = place / "clock.c"
    source.write_text(SOURCE)
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(place / LIBRARY), str(source)]
    return subprocess.run(command, capture_output=True).returncode == 0


def variables(place: Path, skew_s: int) -> dict[str, str]:
    """The environment of a process with that clock."""
    library = place / LIBRARY
    if not skew_s or not library.exists():
        return {}
    return {"LD_PRELOAD": str(library), "MODESCOPE_SKEW_S": str(skew_s)}
