"""The text of pipelines: what it means, its canonical form, and the messages for a wrong one."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings, strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination

from coda_ir.diagnostics import CodaError, DiagnosticError, LoweringError, OptionError
from coda_ir.passes.block.set_numerics import SetNumericsPass
from coda_ir.passes.gradient.save_or_recompute import SaveOrRecomputePass
from coda_ir.passes.gradient.stream_logits import StreamLogitsPass
from coda_ir.passes.layout.absorb_finalize import AbsorbFinalizePass
from coda_ir.passes.layout.overlap_launches import OverlapLaunchesPass
from coda_ir.passes.layout.schedule import SchedulePass
from coda_ir.passes.layout.unfuse_gemms import UnfuseGemmsPass
from coda_ir.pipeline import Pipeline, PipelineError, parse_pipeline
from coda_ir.pipeline.spec import at_option, format_value, parse_word


@dataclass(frozen=True)
class OptionsPass(ModulePass):
    """One option of each type."""

    name = "options"
    text: str = ""
    count: int | None = 3
    ratio: float = 0.5
    flag: bool = False
    sizes: tuple[int, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise NotImplementedError


PASSES = {
    "canonicalize": lambda: CanonicalizePass,
    "cse": lambda: CommonSubexpressionElimination,
    "options": lambda: OptionsPass,
    "schedule": lambda: SchedulePass,
}

CSE, CANONICALIZE = CommonSubexpressionElimination(), CanonicalizePass()


def parse(text: str) -> Pipeline:
    return parse_pipeline(text, PASSES)


class TestParse:
    @pytest.mark.parametrize(
        "text, expected",
        [
            ("", Pipeline()),
            ("builtin.module()", Pipeline()),
            ("cse", Pipeline((CSE,))),
            ("cse,canonicalize", Pipeline((CSE, CANONICALIZE))),
            ("builtin.module(cse)", Pipeline((CSE,))),
            ("func.func(cse)", Pipeline((Pipeline((CSE,), "func.func"),))),
            (
                "builtin.module(func.func(cse,canonicalize),schedule{target=sm_90})",
                Pipeline(
                    (Pipeline((CSE, CANONICALIZE), "func.func"), SchedulePass(target="sm_90"))
                ),
            ),
            (" builtin.module (\n  cse ,\n\tfunc.func( cse )\n)\n", None),
            ("options{flag}", Pipeline((OptionsPass(flag=True),))),
            (
                "options{ count = 7  sizes = 1 , 2 }",
                Pipeline((OptionsPass(count=7, sizes=(1, 2)),)),
            ),
            ("options{count}", Pipeline((OptionsPass(count=None),))),
            ('options{text="a \\"b\\", {c}"}', Pipeline((OptionsPass(text='a "b", {c}'),))),
            ("schedule{group-m=2}", Pipeline((SchedulePass(group_m=2),))),
            ("schedule{group_m=2}", Pipeline((SchedulePass(group_m=2),))),
        ],
    )
    def test_meaning(self, text: str, expected: Pipeline | None):
        assert parse(text) == (expected or parse("cse,func.func(cse)"))

    def test_canonical_form(self):
        text = "func.func( cse ), options{ratio=1e-5 flag=true sizes=1,2},schedule{tile=64x64x32}"
        assert str(parse(text)) == (
            "builtin.module(func.func(cse),options{ratio=1e-05 flag=true sizes=1,2},"
            "schedule{tile=64x64x32})"
        )


ERRORS = {
    "cze": ("1:1: error: unknown pass 'cze'", "did you mean 'cse'?"),
    "cse,zzzzzz": ("1:5: error: unknown pass 'zzzzzz'", "needs an entry point xdsl.universe"),
    "cse,\n  canonicalise": ("2:3: error: unknown pass 'canonicalise'", "'canonicalize'?"),
    "schedule{tagret=a}": ("1:10: error: pass 'schedule' has no option 'tagret'", "are target,"),
    "cse{x=1}": ("1:5: error: pass 'cse' has no option 'x'", "cse has no options"),
    "schedule{warps=x}": ("1:10: error: option 'warps' of 'schedule' is 'x'", "warps=INTEGER"),
    "schedule{warps=true}": ("1:10: error: option 'warps' of 'schedule' is 'true'", "=INTEGER"),
    "schedule{warps=4,8}": ("1:10: error: option 'warps' of 'schedule' is '4,8'", "warps=INTEGER"),
    "schedule{explain=yes}": ("1:10: error: option 'explain' of 'schedule' is 'yes'", "=true or"),
    "options{ratio=x}": ("1:9: error: option 'ratio' of 'options' is 'x'", "ratio=NUMBER"),
    "schedule{target tile=1x1x1}": ("1:10: error: option 'target' of 'schedule' has no", "=TEXT"),
    "schedule{warps=1 warps=2}": ("1:18: error: option 'warps' is given twice", ""),
    "schedule{warps=1, stages=2}": ("1:25: error: expected ' ' or '}'", "by spaces"),
    "schedule{,}": ("1:10: error: expected an option, found ','", "by spaces"),
    "schedule{warps={}}": ("1:16: error: expected a value, found '{'", "quote it"),
    'schedule{target="\\x"}': ("1:17: error: malformed string", "the escapes are"),
    "schedule{": ("1:9: error: unbalanced '{'", "add a '}'"),
    "builtin.module(cse": ("1:15: error: unbalanced '('", "add a ')'"),
    "func.func(cse)),cse": ("1:15: error: unbalanced ')'", "remove it"),
    "builtin.module(cse))": ("1:20: error: unbalanced ')'", ""),
    "builtin.module(cse),cse": ("1:20: error: expected the end", "inside builtin.module"),
    "cse cse": ("1:5: error: expected ',' before 'cse'", ""),
    "cse,": ("1:4: error: expected a pass after ','", "remove the comma"),
    ",cse": ("1:1: error: expected a pass, found ','", ""),
    "fun.func(cse)": ("1:1: error: unknown anchor 'fun.func'", "did you mean 'func.func'?"),
    "gpu(cse)": ("1:1: error: unknown anchor 'gpu'", "are builtin.module and func.func"),
    "func.func": ("1:1: error: the anchor func.func needs passes", "write func.func(...)"),
    "func.func(func.func(cse))": ("1:11: error: func.func inside func.func", "the inner one"),
    "cse,builtin.module(cse)": ("1:5: error: builtin.module inside", "the outermost"),
    "func.func(builtin.module(cse))": ("1:11: error: builtin.module inside", "the outermost"),
    "cse;cse": ("1:4: error: unexpected ';'", "quote"),
    "cse[a]": ("1:4: error: unexpected '['", "quote"),
}


class TestErrors:
    @pytest.mark.parametrize("text", ERRORS)
    def test_place_and_remedy(self, text: str):
        message, remedy = ERRORS[text]
        with pytest.raises(PipelineError) as caught:
            parse(text)
        assert f"pipeline:{message}" in str(caught.value).replace("error[E0702]", "error")
        assert remedy in str(caught.value)

    def test_caret(self):
        with pytest.raises(PipelineError) as caught:
            parse("cse,\n canonicalise , cse")
        assert str(caught.value).splitlines()[1:3] == [
            "   canonicalise , cse",
            "   ^~~~~~~~~~~~",
        ]


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8)
options = st.builds(
    OptionsPass,
    text=texts | st.sampled_from(["true", "1", "-3", "1e5", "sm_90", "64x32", 'a"\\b', "\n\t"]),
    count=st.none() | st.integers(),
    ratio=st.floats(allow_nan=False, allow_infinity=False),
    flag=st.booleans(),
    sizes=st.lists(st.integers(), max_size=3).map(tuple),
)
passes = st.one_of(options, st.just(CSE), st.builds(SchedulePass, warps=st.integers(1, 8)))
functions = st.builds(Pipeline, st.lists(passes, max_size=3).map(tuple), st.just("func.func"))
pipelines = st.builds(Pipeline, st.lists(passes | functions, max_size=4).map(tuple))


@pytest.mark.slow
@settings(max_examples=200, derandomize=True, database=None, deadline=None)
@given(pipelines)
def test_the_printed_form_is_read_as_the_same(pipeline: Pipeline):
    assert parse(str(pipeline)) == pipeline
    assert str(parse(str(pipeline))) == str(pipeline)


@settings(max_examples=300, derandomize=True, database=None, deadline=None)
@given(st.text(alphabet='cse,(){}= "\\\nfunc.module[]1-e', max_size=30))
def test_any_text_is_a_pipeline_or_an_error_with_a_place(text: str):
    try:
        parse(text)
    except PipelineError as error:
        assert str(error).startswith("pipeline:")


@pytest.mark.parametrize("value", ["true", "12", "1.5", "a b", "", "sm_90", 12, 1.5, True, -1e-9])
def test_values_keep_their_type(value: str | int | float | bool):
    text = format_value(value)
    if not text.startswith('"'):
        assert parse_word(text) == value and type(parse_word(text)) is type(value)


@pytest.mark.parametrize(
    "text, message, column",
    [
        ("cse,schedule{warps=8 tile=12}", "schedule: tile is '12'", 22),
        ('schedule{sizes="B"}', "schedule: sizes has 'B'", 10),
        ("coda-to-gemm{numerics=exact}", "unknown numerics mode 'exact'", 14),
        ("cse,schedule{warps=3}", "schedule: warps is 3, expected 1, 2, 4, 8 or 16", 14),
        ("differentiate{wrt=z}", "derive-gradient: unknown argument 'z': @f has x", 15),
    ],
)
def test_wrong_values_of_options_have_a_place(text: str, message: str, column: int):
    error = at_option(OptionError(message, "write another one"), text)
    assert isinstance(error, DiagnosticError)
    (diagnostic,) = error.diagnostics
    assert diagnostic.range is not None and diagnostic.range.column == column
    assert str(error).startswith(f"pipeline:1:{column}: error[E0703]: {message}\n")
    assert str(error).endswith("\n  help: write another one")


@pytest.mark.parametrize(
    "wrong",
    [
        AbsorbFinalizePass(target="zz"),
        AbsorbFinalizePass(sizes="B"),
        OverlapLaunchesPass(target="sm_80"),
        SetNumericsPass(mode="exact"),
        SaveOrRecomputePass(extents="B"),
        SchedulePass(warps=3),
        SchedulePass(stages=-1),
        SchedulePass(group_m=0),
        SchedulePass(split_k=0),
        StreamLogitsPass(chunks=0),
        UnfuseGemmsPass(by="hand"),
    ],
)
def test_wrong_values_are_refused_where_nothing_uses_them(wrong: ModulePass):
    with pytest.raises(CodaError):
        wrong.apply(Context(), ModuleOp([]))


def test_other_errors_of_passes_stay():
    error = LoweringError("schedule: no tile of gemm.fused 8x8x8 fits sm_90")
    assert at_option(error, "schedule{target=sm_90}") is error
