"""Flaws as data: their kinds, and the findings that a check returns."""

from dataclasses import dataclass
from enum import StrEnum

from .._base.text import Estimate, number


class Kind(StrEnum):
    """What can be wrong with posteriors."""

    BIASED = "biased"
    OVERCONFIDENT = "overconfident"
    UNDERCONFIDENT = "underconfident"
    SKEWED = "skewed"
    TAILS = "wrong tails"
    OUTLIERS = "outliers"
    BIAS_BY_DATA = "bias by data"
    WIDTH_BY_DATA = "width by data"
    IGNORES_DATA = "ignores the data"
    UNUSED_DATA = "ignores a part of the data"
    CORRELATION = "wrong correlation"
    CORRELATION_BY_DATA = "correlation by data"
    COMBINATION = "wrong combination"
    DEPENDENCE = "wrong dependence"
    POWER = "wrong power"
    SCALES = "wrong width at some scales"
    PHASES = "wrong places"
    ANISOTROPY = "wrong directions"
    CELLS = "wrong distribution of cells"
    FIT = "wrong fit to the data"
    ROUNDED = "rounded"
    VALUES = "wrong shares"
    OUTSIDE = "outside the draws"
    SCORE = "wrong score"
    SHAPE = "wrong shape"


_PAGES = {
    Kind.BIASED: "biased",
    Kind.OVERCONFIDENT: "overconfident",
    Kind.UNDERCONFIDENT: "underconfident",
    Kind.SKEWED: "skew",
    Kind.TAILS: "tails",
    Kind.OUTLIERS: "outliers",
    Kind.BIAS_BY_DATA: "bias-by-data",
    Kind.WIDTH_BY_DATA: "width-by-data",
    Kind.IGNORES_DATA: "ignores-the-data",
    Kind.UNUSED_DATA: "part-of-the-data",
    Kind.CORRELATION: "correlation",
    Kind.CORRELATION_BY_DATA: "correlation",
    Kind.COMBINATION: "combination",
    Kind.DEPENDENCE: "combination",
    Kind.POWER: "power",
    Kind.SCALES: "scales",
    Kind.PHASES: "places",
    Kind.ANISOTROPY: "directions",
    Kind.CELLS: "texture",
    Kind.ROUNDED: "rounded",
    Kind.VALUES: "shares",
    Kind.OUTSIDE: "modes",
    Kind.FIT: "fit",
    Kind.SCORE: "own-score",
    Kind.SHAPE: "shape",
}


@dataclass(frozen=True)
class Trend:
    """How an error changes along a feature of the data, or along a posterior mean or width.

    Arguments:
        what: The error: `"bias"` or `"width"`, as in `Parameter`, or `"correlation"`.
        names: The parameters: one, two for a correlation, none if it is the width of all.
        along: The feature; the data are standardised.
        place: The median of the feature in each bin, `(n_bins,)`.
        error: The error in each bin, with 95 % intervals.
        low: The error in the third of the simulations where the feature is lowest.
        high: The error in the third where it is highest.
        p_value: Exact, and adjusted for the number of trends of the kind.
        draws: Of a correlation, what the draws have where the feature is lowest and highest, if
            they are in memory.
    """

    what: str
    names: tuple[str, ...]
    along: str
    place: tuple[float, ...]
    error: tuple[Estimate, ...]
    low: Estimate
    high: Estimate
    p_value: float
    draws: tuple[float, float] | None = None


@dataclass(frozen=True)
class Finding:
    """A flaw as data; `str` gives it in words.

    Arguments:
        kind: What is wrong.
        parameters: The names of the parameters in which it is worst; none if it is in all.
        p_value: Exact, and adjusted for the number of flaws that are looked for.
        size: How large it is, with its 95 % interval, if one number says so: the bias, the
            scatter of the truths, their correlation, skewness or kurtosis, what data explain of
            them, the share of them beyond all draws, far from them or with a value; of fields,
            the power of the draws over that of the truths, or how truths follow posterior means;
            of errors that depend on something, how much they change from its lowest third to its
            highest.
        unit: The unit of the size.
        expected: What the size of accurate posteriors would be.
        direction: Where the draws lie (`"above"` or `"below"` the truths), on which side they
            miss a tail, what their tails are (`"heavy"` or `"light"`), whether a value is drawn
            `"too often"` or `"too rarely"`, whether they fit the data `"better"` or `"worse"` than
            truths, whether a field has `"too much"` or `"too little"`
            power, along which axes, or what a learned score has learned.
        where: What the flaw depends on, for example `"x[0]"`; the data that are not used; the
            combination of parameters; the share of posteriors with outliers; the value of a
            parameter that takes few; the scales or the patch of a field, or of the data that
            draws should fit; or the name of your own
            score.
        sizes: The sizes in all of the parameters, if there are several.
        trend: How the error changes with what it depends on.
        elsewhere: The size in the rest of a field, beside a patch of a wrong width.
    """

    kind: Kind
    parameters: tuple[str, ...]
    p_value: float
    size: Estimate | None = None
    unit: str | None = None
    expected: float | None = None
    direction: str | None = None
    where: str | None = None
    sizes: tuple[Estimate, ...] = ()
    trend: Trend | None = None
    elsewhere: Estimate | None = None

    @property
    def page(self) -> str:
        """The page of the documentation about the flaw: its look, its causes and its cure."""
        return f"docs/flaws/{_PAGES[self.kind]}.md"

    def cells(self) -> dict[str, str]:
        """Return its row in the table that `check.findings` prints, by column."""
        return {"finding": str(self), "p": number(self.p_value, 3)}

    def __str__(self) -> str:
        from . import words

        return words.sentence(self)
