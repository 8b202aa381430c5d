"""The tool that names the statement whose bits change from run to run."""

import torch
from support.emitted import load_program
from support.repeated_runs import bits_of, differences, statements_that_differ

PROGRAM = """
func.func @f(%x: tensor<?x8xf32> {coda.dims = ["M", 8]}) -> tensor<?x8xf32> {
  %a = coda.silu %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %b = torch.call "aten.CALL.default"(%a) {arguments = "{0}", coda.dims = ["M", 8]} : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %c = coda.add %a, %b : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %c : tensor<?x8xf32>
}
"""  # noqa: E501


def test_names_what_differs() -> None:
    run, x = load_program(PROGRAM.replace("CALL", "rand_like")), torch.randn(3, 8)
    first, *_, last = statements_that_differ(lambda: run(x))
    assert first == "b: b = torch.ops.aten.rand_like.default(a)"
    assert last.startswith("c: add[")


def test_finds_nothing_where_all_repeats() -> None:
    run, x = load_program(PROGRAM.replace("CALL", "exp")), torch.randn(3, 8)
    assert statements_that_differ(lambda: run(x)) == []


def test_bits() -> None:
    x = torch.zeros(3)
    assert bits_of(x) != bits_of(-x)
    assert bits_of(torch.tensor([1.0, 2.0])) != bits_of(torch.tensor([2.0, 1.0]))


def test_differences_of_bits() -> None:
    nan, x, y = torch.tensor([float("nan")]), torch.ones(2, 3), torch.ones(2, 3)
    y[1, 2], y[1, 1] = 2, 3
    found = differences(["nan", "x", "sum"], [nan, x, x.sum()], [nan, y, -x.sum()])
    assert found == [
        "x: 2 of 6, first at (1, 1): 1.0 and 3.0",
        "sum: 1 of 1, first at (): 6.0 and -6.0",
    ]
