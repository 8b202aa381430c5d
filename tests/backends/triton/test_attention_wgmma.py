"""The backward of attention with asynchronous products, in the simulator, against float64."""

import pytest
from support.attention_heads import Heads, interleaved, rotated_inputs, rotated_text
from support.simulated_attention import check_simulated_backward

pytestmark = pytest.mark.any_device

PROGRAMS = {
    "causal": Heads(2, 2, 64),
    "all keys": Heads(2, 1, 64, "causal=false", "f16"),
    "shared heads": Heads(4, 1, 64),
    "window": Heads(2, 2, 64, "causal=true, window=40"),
    "window on both sides": Heads(2, 1, 64, "causal=false, window=30"),
    "narrow window": Heads(2, 2, 64, "causal=true, window=1"),
    "capped": Heads(2, 2, 64, "causal=true, softcap=1.5"),
    "wide heads": Heads(1, 1, 128, "causal=true, scale=0.1"),
    "widest heads": Heads(1, 1, 256, "causal=false"),
    "heads of 80": Heads(2, 1, 80),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(("queries", "keys"), [(150, 150), (70, 130), (130, 50), (128, 64)])
def test_agrees_with_float64(name: str, queries: int, keys: int):
    of = PROGRAMS[name]
    program = check_simulated_backward(of.text, of.inputs(queries, keys, batch=1), queries)
    of_queries, of_keys = (kernel.language for kernel in program.kernels)
    assert of_queries == ("triton" if of.width == 256 else "gluon") and of_keys == "gluon"


@pytest.mark.slow
@pytest.mark.parametrize("of", [Heads(2, 1, 64), Heads(2, 2, 128, "causal=true, window=40")])
def test_epilogues_agree_with_float64(of: Heads):
    program = check_simulated_backward(rotated_text(of, 64), rotated_inputs(of, 64, 2, 70), 1)
    of_attention = [x for x in program.kernels if x.name.startswith("attention_d")]
    assert all("_rope_sum" in x.name and x.language == "gluon" for x in of_attention)


@pytest.mark.slow
def test_epilogues_of_neighbours_agree_with_float64():
    of = Heads(2, 1, 64)
    text = interleaved(rotated_text(of, 64))
    program = check_simulated_backward(text, rotated_inputs(of, 64, 2, 70), 1)
    of_attention = [x for x in program.kernels if x.name.startswith("attention_d")]
    assert all("_rope_sum" in x.name and x.language == "gluon" for x in of_attention)


@pytest.mark.slow
@pytest.mark.parametrize(("queries", "keys"), [(150, 150), (70, 130)])
@pytest.mark.parametrize(
    "name", ["causal", "all keys", "window", "capped", "wide heads", "heads of 80"]
)
def test_gradients_of_decomposed_attention_agree_with_float64(name: str, queries: int, keys: int):
    of = PROGRAMS[name]
    inputs = of.inputs(queries, keys, batch=1)
    program = check_simulated_backward(of.text, inputs, queries, is_decomposed=True)
    assert [kernel.language for kernel in program.kernels] == ["gluon", "gluon"]


@pytest.mark.slow
@pytest.mark.parametrize("is_known", [True, False])
def test_programs_share_the_heads_of_queries(*, is_known: bool):
    of = Heads(6, 1, 64)
    text = of.text.replace("B, T", "1, 70").replace("B, S", "1, 100") if is_known else of.text
    program = check_simulated_backward(text, of.inputs(70, 100, batch=1), 2)
    assert program.kernels[1].shared_tiles is not None


@pytest.mark.slow
def test_keys_past_the_end_have_no_weight():
    """Scores of about -200 in all heads: a key of zeros would have an infinite weight."""
    of = Heads(1, 1, 64, "causal=false")
    q, k, v = of.inputs(33, 41, batch=1)
    q[..., ::64], k[..., ::64] = 200, -8
    check_simulated_backward(of.text, [q, k, v], 3)
