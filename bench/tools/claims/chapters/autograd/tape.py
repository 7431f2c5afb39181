"""What autograd's tape adds up, and how much a forward saves for it."""

from __future__ import annotations

import torch

from modescope.bench.case.memory import saved_activation_bytes, weights_bytes
from modescope.bench.steps.subject import Inputs, Subject
from modescope.bench.tools.claims import lab
from modescope.bench.tools.claims.chapters.compile.speed import transformer

TEN_TIMES = "a doubled ten times by a + a, + b"
# of a = 2 and b = 3: the derivatives by a and b, summed over all paths by hand
SUMS = {
    "a * b + a": (4.0, 2.0),
    "a * a + b": (4.0, 1.0),
    "a + a + a - b": (3.0, -1.0),
    "(a * b) * (a * b)": (36.0, 24.0),
    TEN_TIMES: (1024.0, 1.0),
}
CODE = {TEN_TIMES: "for _ in range(10): a = a + a\nreturn a + b"}
EXPRESSIONS = lab.functions("a, b", {name: CODE.get(name, name) for name in SUMS})


def paths_add_up(o: lab.Observed) -> lab.Rule:
    """Refuted unless gradients are the sums over all paths, worked out by hand."""
    wrong = o.gradients.only(lambda code, found: found != o.expected[code])
    yield lab.require(
        f"gradients of {len(o.gradients)} expressions are the sums over all paths",
        not wrong,
        f"{wrong.say_all()} instead of {o.expected.say(*wrong)}",
    )


@lab.claim(
    "gradients of a tensor reached by two paths add up (the a·b + a example)",
    "003 §6.3",
    rule=paths_add_up,
    figures={"gradients": "gradients of a and b in", "expected": "sums over all paths in"},
    snippet="""
        import torch

        a = torch.tensor(2.0, requires_grad=True)
        b = torch.tensor(3.0, requires_grad=True)
        d = a * b + a
        a.register_hook(lambda gradient: print("a gets", gradient))
        d.backward()
        print(a.grad, b.grad)
    """,
)
def tape_accumulates(device: lab.Hardware) -> lab.Values:
    """Gradients of two numbers in five expressions that reach them by up to 1024 paths."""
    gradients = {}
    for code, expression in EXPRESSIONS.items():
        leaves = [torch.tensor(value, requires_grad=True) for value in (2.0, 3.0)]
        expression(*leaves).backward()
        gradients[code] = tuple(0.0 if leaf.grad is None else leaf.grad.item() for leaf in leaves)
    return gradients, SUMS


FACTOR = (4.0, 8.0)
WIDTH = 128
BATCHES = ((1, 128), (8, 64), (8, 128), (16, 128), (4, 512))  # sequences and their length
DROPOUT = {"": 0.0, ", dropout": 0.1}  # with dropout attention is not fused on a CPU


def four_to_eight_times(o: lab.Observed) -> lab.Rule:
    """Holds if all factors lie within 4 to 8, within limits if some do, refuted if none does."""
    exact = {batch: lab.Estimate(each, each, each) for batch, each in o.factors.items()}
    yield lab.between(lab.Cases(exact, "", "x"), *FACTOR, "factors")
    least, most = o.tokens.values()
    yield lab.holds(
        "without dropout, it takes a batch of "
        f"{least:.1f} to {most:.1f} tokens per unit of width to save 4 to 8 times the parameters, "
        "as saved bytes grow with the tokens, and parameters with the square of the width"
    )


@lab.claim(
    "saved activations take 4 to 8 times the parameters' bytes",
    "002 Autograd: the dynamic tape",
    rule=four_to_eight_times,
    figures={
        "factors": "saved ÷ parameters: [x]",
        "tokens": "tokens of a batch per unit of width, without dropout, for",
    },
    snippet="""
        import torch
        from modescope.bench.case.memory import saved_activation_bytes, weights_bytes
        from modescope.bench.steps.subject import Inputs, Subject

        layer = torch.nn.TransformerEncoderLayer(128, 2, 512, dropout=0.0, batch_first=True)
        for shape in ((1, 128, 128), (8, 64, 128), (8, 512, 128)):
            subject = Subject(layer, Inputs((torch.ones(shape),), {}))
            saved = saved_activation_bytes(lambda: layer(*subject.inputs.args), subject)
            print(shape, f"{saved / weights_bytes(layer):.1f} times the parameters")
    """,
)
def saved_dominate(device: lab.Hardware) -> lab.Values:
    """Bytes that a forward in training saves ÷ bytes of the parameters.

    Of two transformer layers of torch (pre-norm, GELU), with and without dropout; storages count
    once, parameters and inputs do not count.
    """
    factors = {
        f"{sequences} × {length} tokens{words}": _factor(sequences, length, dropout)
        for words, dropout in DROPOUT.items()
        for sequences, length in BATCHES
    }
    one_token = factors["1 × 128 tokens"]  # per unit of width
    return factors, {f"{bound:g} times": bound / one_token for bound in FACTOR}


def _factor(sequences: int, length: int, dropout: float) -> float:
    model = transformer(2, WIDTH, 2, dropout)
    subject = Subject(model, Inputs((torch.rand(sequences, length, WIDTH),), {}))
    saved = saved_activation_bytes(lambda: model(*subject.inputs.args), subject)
    weights = weights_bytes(model)
    assert saved is not None
    assert weights is not None
    return saved / weights
