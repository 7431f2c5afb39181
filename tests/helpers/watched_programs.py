"""Programs with one fault each in how they compile, and their healthy twins."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

BACKEND = "eager"  # Dynamo alone decides in most of them, and Inductor takes seconds


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.steps = 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.layer(x)) * 2


def forward_is_called(healthy: bool) -> None:
    class Encoder(Net):
        def encode(self, x: torch.Tensor) -> torch.Tensor:
            return self(x) if healthy else self.forward(x)

    encoder = Encoder()
    encoder.compile(backend=BACKEND)
    for _ in range(3):
        encoder.encode(torch.ones(2, 8))


def rebound_self(healthy: bool) -> None:
    class Model(Net):
        def optimise(self) -> Any:
            compiled: Any = torch.compile(self, backend=BACKEND)
            self = compiled
            return compiled

    model = Model()
    compiled = model.optimise()
    for _ in range(3):
        (compiled if healthy else model)(torch.ones(2, 8))


def nine_shapes(healthy: bool) -> None:
    net = torch.compile(Net(), backend=BACKEND, dynamic=healthy)
    for rows in range(2, 13):
        net(torch.ones(rows, 8))


def break_in_a_loop(healthy: bool) -> None:
    def work(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.relu(x) + 1
            if not healthy:
                torch._dynamo.graph_break()
        return x

    compiled = torch.compile(work, backend=BACKEND)
    for _ in range(3):
        compiled(torch.ones(4))


def changing_number(healthy: bool) -> None:
    class Scaled(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(self.steps):
                x = self.layer(x)
            return x

    net = Scaled()
    compiled = torch.compile(net, backend=BACKEND)
    for step in range(5):
        net.steps = 1 if healthy else 1 + step
        compiled(torch.ones(2, 8))


def made_under_inference(healthy: bool) -> None:
    compiled = torch.compile(Net(), backend=BACKEND)
    with torch.inference_mode(not healthy):
        other = torch.ones(2, 8)
    for x in (torch.ones(2, 8), other):
        with torch.no_grad():
            compiled(x)


def missed_cache(healthy: bool) -> None:
    def leave(graph: object) -> None:
        return None

    options: dict[str, Any] = {} if healthy else {"post_grad_custom_post_pass": leave}
    torch.compile(Net(), options=options)(torch.ones(2, 8))


def switched_off(healthy: bool) -> None:
    net = torch.compile(Net(), backend=BACKEND)
    if healthy:
        net(torch.ones(2, 8))
        return
    torch.compiler.set_stance("force_eager")
    net(torch.ones(2, 8))


def compiled_under_a_lock(healthy: bool) -> None:
    lock = threading.Lock()

    def slow(graph: torch.fx.GraphModule, inputs: object) -> Callable[..., object]:
        time.sleep(0.2 if healthy else 1.5)
        return graph.forward

    net = torch.compile(Net(), backend=slow)

    def work() -> None:
        with lock:
            net(torch.ones(2, 8))

    if healthy:
        net(torch.ones(2, 8))
    worker = threading.Thread(target=work, name="worker")
    worker.start()
    time.sleep(0.1)
    with lock:
        pass
    for _ in range(20):  # goes on with its work
        time.sleep(0.01)
    worker.join()


def generator(healthy: bool) -> None:
    def double(x: torch.Tensor) -> Iterator[torch.Tensor]:
        for _ in range(3):
            yield x * 2

    def all_of(x: torch.Tensor) -> list[torch.Tensor]:
        return [x * 2 for _ in range(3)]

    compiled = torch.compile(all_of if healthy else double, backend=BACKEND)
    for _ in range(3):
        list(compiled(torch.ones(3)))


def trainer(healthy: bool) -> None:
    class Task(Net):
        def training_step(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sum(self(x))

    class Trainer:
        def fit(self, task: nn.Module, step: Callable[..., torch.Tensor]) -> None:
            optimizer = torch.optim.SGD(task.parameters(), 0.01)
            for _ in range(3):
                step(torch.ones(2, 8)).backward()
                optimizer.step()
                optimizer.zero_grad()

    task = Task()
    compiled: Any = torch.compile(task, backend=BACKEND)
    if healthy:
        task.training_step = lambda x: compiled(x).sum()  # type: ignore[method-assign]
    Trainer().fit(task, compiled.training_step if not healthy else task.training_step)


def ends_by_exit(healthy: bool) -> None:
    def work(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    compiled = torch.compile(work, backend=BACKEND, dynamic=healthy)
    for rows in range(2, 13):
        compiled(torch.ones(rows))
    raise SystemExit(3)


PROGRAMS: dict[str, tuple[Callable[[bool], None], str]] = {
    "forward_is_called": (forward_is_called, "passed_by"),
    "rebound_self": (rebound_self, "never_called"),
    "nine_shapes": (nine_shapes, "gave_up"),
    "break_in_a_loop": (break_in_a_loop, "never_compiled"),
    "changing_number": (changing_number, "recompiled"),
    "made_under_inference": (made_under_inference, "recompiled"),
    "missed_cache": (missed_cache, "not_cached"),
    "switched_off": (switched_off, "switched"),
    "compiled_under_a_lock": (compiled_under_a_lock, "waited"),
    "generator": (generator, "never_compiled"),
    "trainer": (trainer, "never_called"),
    "ends_by_exit": (ends_by_exit, "gave_up"),
}
"""Each program, and the code of its fault (`analysis.watched`)."""
