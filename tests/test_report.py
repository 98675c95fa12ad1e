"""The report as a file: what it says, and what it must not hold."""

import json
import re
from base64 import b64encode
from dataclasses import replace
from functools import cache, partial
from hashlib import sha256
from html.parser import HTMLParser

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import binom

import tarpon
from tarpon import report
from tarpon._base.text import clean, unsigned
from tarpon.checks import words
from tarpon.checks.comparing import paired
from tarpon.checks.flaws import Finding, Kind
from tarpon.checks.statistics import adjusted
from tarpon.cli import main
from tarpon.problems import zoo
from tarpon.report import _findings

FALSE_ALARM = 1e-6
SMALL = {"n_sims": 100, "n_draws": 50}
HOSTILE = [
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 1">',
    "</text></svg><script>window.hacked = 1</script>",
    "{{ 7 * 7 }}{% raw %}",
    "$\\frac{",
    "url(#p) id='x' &amp; javascript:hacked",
    "nothing\x00here\x1b\ud800\u202ebackwards\nand a line",
    "endless " * 60,
    "質量 🐟 µ",
]


def check(flaw, *, names=None, n_swaps=99, **size):
    """Check a flaw of the zoo, or a "gross" one: half as wide as it should be, and shifted."""
    sims = zoo("exact" if flaw == "gross" else flaw, rng=0, **SMALL | size)
    samples = sims.samples
    if flaw == "gross":
        samples = (samples + samples.mean(axis=0)) / 2
        samples[..., 0] += 0.5
    return tarpon.check(samples, sims.theta, x=sims.x, names=names, n_swaps=n_swaps, rng=0)


class Page(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, text):
        super().__init__()
        self.raw, self.tags, self.said = text, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.said.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.said).split())

    def values(self, name):
        return [attrs[name] for _, attrs in self.tags if attrs.get(name) is not None]


@pytest.fixture(scope="module")
def gross():
    return check("gross", n_dims=3)


@pytest.fixture(scope="module")
def exact():
    return check("exact", n_dims=3)


@pytest.fixture(scope="module")
def one():
    return check("shift", n_dims=1)


@pytest.fixture(scope="module")
def pages(gross, exact, one):
    """Return reports of every kind, each made once."""

    @cache
    def hostile():
        return check("gross", n_dims=len(HOSTILE), names=HOSTILE)

    make = {
        "broken": lambda: report.html(gross, names=["my flow"]),
        "good": lambda: report.html(exact),
        "one": lambda: report.html(one),
        "hostile": lambda: report.html(hostile(), names=HOSTILE[:1]),
        "several": lambda: report.html(gross, exact, hostile(), names=["a", "b", HOSTILE[1]]),
    }
    return cache(lambda kind: Page(make[kind]()))


every_kind = pytest.mark.parametrize(
    "kind",
    ["broken", "good"]
    + [pytest.param(kind, marks=pytest.mark.slow) for kind in ("one", "hostile", "several")],
)


def test_the_top_says_what_was_found(pages, gross):
    text = pages("broken").text
    for said in (
        *("my flow", "These posteriors are inaccurate.", "p\xa0=\xa00.01", "100 simulations"),
        *("What could have been missed.", words.power(gross.detectable), "99 swaps"),
    ):
        assert " ".join(said.split()) in text.replace("simulations 100", "100 simulations")
    assert "No evidence against these posteriors." in pages("good").text
    assert "What is wrong" not in pages("good").text


def test_findings_come_worst_first_each_with_its_figure(pages, gross):
    page = pages("broken").raw
    items = page[page.index('<ol class="findings">') : page.index("</ol>")]
    sizes = [words.size_of(finding) for finding in gross.findings]
    places = [items.index(f"{size[1:]}.") for size in sizes]
    assert places == sorted(places)
    above = re.findall(r'<a href="#([^"]+)">See the figure above', items)
    assert items.count("<figure") + len(above) == len(gross.findings)
    assert all(f'<figure class="wide" id="{key}"' in items for key in above)


@every_kind
def test_ids_are_unique_and_links_lead_somewhere(pages, kind):
    page = pages(kind)
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    targets = [target.removeprefix("#") for target in page.values("href") if target[:1] == "#"]
    styles = " ".join([*page.values("clip-path"), *page.values("style")])
    assert {*targets, *re.findall(r"url\(#([^)]+)\)", styles)} <= set(ids)


@every_kind
def test_nothing_is_asked_of_the_network(pages, kind):
    page = pages(kind)
    assert "http:" not in page.raw
    assert "https:" not in page.raw
    assert "@import" not in page.raw
    assert not page.values("src")
    assert all(target[:1] == "#" or target == "data:," for target in page.values("href"))
    assert not {"iframe", "object", "embed", "form", "base", "image"} & {
        tag for tag, _ in page.tags
    }


@every_kind
def test_only_the_script_of_the_report_may_run(pages, kind):
    page = pages(kind)
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    script = page.raw.split("<script>")[1].split("</script>")[0]
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = next(attrs["content"] for _, attrs in page.tags if "http-equiv" in attrs)
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


@pytest.mark.slow
def test_names_stay_text(pages):
    text = "".join(pages("hostile").said)
    for name in HOSTILE[:6]:
        assert name in text
    assert clean(HOSTILE[6]) in text
    assert HOSTILE[-1] in text


@every_kind
def test_every_figure_has_words_and_a_table(pages, kind):
    page = pages(kind)
    plots = [attrs for _, attrs in page.tags if attrs.get("class") == "plot"]
    assert plots
    for plot in plots:
        assert plot["role"] == "img"
        assert plot["aria-label"]
        assert plot["data-points"]
    assert page.raw.count('<details class="behind">') == len(plots)
    assert page.raw.count("<tr") == page.raw.count("</tr>")


def test_points_of_a_figure_lie_in_it(pages):
    for tag in re.findall(r'data-points="([^"]*)">(<svg viewBox="[^"]*")', pages("broken").raw):
        width, height = map(float, re.findall(r"[\d.]+", tag[1])[2:])
        for point in tag[0].split():
            x, y = map(float, point.split(","))
            assert -1 <= x <= width + 1
            assert -1 <= y <= height + 1


@pytest.mark.slow
def test_one_parameter_has_no_pairs(pages):
    assert "There is one parameter, and so no pair." in pages("one").text


@pytest.mark.slow
def test_twenty_parameters_fit_into_a_megabyte(tmp_path):
    check("wide", n_dims=20, n_draws=500).report(tmp_path / "report.html", name="twenty")
    assert (tmp_path / "report.html").stat().st_size < 1_000_000


@pytest.mark.slow
def test_three_hundred_parameters_are_all_in_the_table():
    many = check("shift", n_sims=40, n_draws=20, n_dims=300, n_swaps=19)
    page = report.html(many)
    rows = page[page.index('<table class="parameters') :].split("</table>")[0]
    assert rows.count("<tr") == 301
    assert len(page) < 3_000_000


@pytest.mark.slow
def test_several_checks_are_compared(pages):
    page = pages("several")
    assert "2 of 3 are inaccurate." in page.text
    assert "Who fails where" in page.text
    assert page.raw.count('<details class="study"') == 3


@pytest.mark.slow
def test_the_same_check_gives_the_same_file(pages, exact):
    assert report.html(exact) == pages("good").raw


@pytest.mark.slow
def test_a_file_is_whole_or_not_there(one, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(ValueError, match="`names` must name 1 check, but got 2"):
        report.write(path, one, names=["a", "b"])
    assert path.read_text() == "old"
    report.write(path, one)
    assert path.read_text().endswith("</html>")
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError):
        report.write(tmp_path / "nowhere" / "report.html", one)
    with pytest.raises(ValueError, match="at least one check"):
        report.write(path)


@pytest.mark.parametrize("name", ["report.pdf", "report", "report.html.gz"])
def test_other_names_than_of_html_files_are_refused(gross, tmp_path, name):
    message = rf"`path` must end with .html or .htm, .* but got '{name}'. Write '.*\.html'"
    for write in (gross.report, lambda path: report.write(path, gross)):
        with pytest.raises(ValueError, match=message):
            write(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_names_of_html_files_may_be_short_and_in_capitals(one, tmp_path):
    one.report(tmp_path / "report.HTM")
    assert (tmp_path / "report.HTM").read_text().endswith("</html>")


CARD_TAGS = {
    *("div", "p", "strong", "span", "ol", "li", "code"),
    *("svg", "g", "path", "text", "tspan", "defs", "use", "clippath", "rect", "lineargradient"),
}


def test_cards_of_a_notebook_have_ids_of_their_own(gross, exact):
    ids = [Page(shown._repr_html_()).values("id") for shown in (gross, exact)]
    assert ids[0]
    assert ids[1]
    assert not set(ids[0]) & set(ids[1])
    assert gross._repr_html_() == gross._repr_html_()


def test_cards_of_many_parameters_draw_the_worst(gross):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(30, 300))
    theta[:, 123] += 10.0
    samples = rng.normal(size=(20, 30, 300))
    for test in (partial(tarpon.check, n_swaps=19), tarpon.sbc):
        card = test(samples, theta, rng=0)._repr_html_()
        assert "50 of 300, with the smallest p-values" in card
        assert len(card) < 100_000
    assert "smallest p-values" not in gross._repr_html_()
    drawn = report._worst(tarpon.sbc(samples, theta, rng=0))[0]
    assert "theta_123" in drawn.names
    assert len(drawn.names) == 50


def test_cards_of_too_few_simulations_say_how_many_are_needed():
    card = Page(check("exact", n_dims=1, n_sims=20)._repr_html_())
    assert "A pass needs" in card.text


def test_notebooks_show_checks_and_results_with_a_figure(gross):
    hostile = check("gross", n_dims=len(HOSTILE), names=HOSTILE, n_sims=60)
    sbc = tarpon.sbc(zoo("shift", n_dims=1, rng=0), rng=0)
    for shown in (gross, hostile, sbc):
        card = Page(shown._repr_html_())
        tags = {tag for tag, _ in card.tags}
        assert tags <= CARD_TAGS
        assert "svg" in tags
        assert '.report("report.html")' in card.text
    assert "Inaccurate , p = 0.01 (100 simulations" in Page(gross._repr_html_()).text
    assert "SBC" in Page(sbc._repr_html_()).text


@pytest.mark.slow
def test_a_check_without_joint_ranks_has_all_else(pages, one):
    bare = replace(one, evidence=replace(one.evidence, joint=()))
    without = report.html(bare, bare)
    shown = {"one": "Coverage of joint regions", "several": "Coverage side by side"}
    for kind, title in shown.items():
        assert title in pages(kind).raw
        assert title not in without


@pytest.mark.parametrize(
    ("flaw", "kind", "title"),
    [
        ("correlation_missed", Kind.CORRELATION, "theta_0 and theta_1"),
        ("local_width", Kind.WIDTH_BY_DATA, "Width of all parameters along"),
        ("bias_by_x", Kind.BIAS_BY_DATA, "Bias of theta_"),
        ("rounded", Kind.ROUNDED, None),
    ],
)
def test_every_finding_has_the_figure_that_shows_it(flaw, kind, title):
    found = check(flaw, n_dims=2, n_sims=400)
    finding = next(finding for finding in found.findings if finding.kind is kind)
    figure = _findings.of_finding(found, finding, "key")
    assert (figure is None) if title is None else (title in figure.title)


def test_a_score_has_its_own_figure_and_no_other():
    sims = zoo("shift", rng=0, **SMALL)
    scores = {name: lambda theta, x: theta[..., 0] for name in ("a", "an a")}
    found = tarpon.check(sims, scores=scores, n_swaps=19, rng=0)
    for name in scores:
        finding = Finding(Kind.SCORE, (), 0.01, where=name)
        assert _findings.of_finding(found, finding, "key").title == f"Ranks of {name}"
    assert _findings.of_finding(found, replace(finding, where="no such score"), "key") is None


def correlated(*, shift, n_sims=300, n_draws=60, names=None):
    """Check posteriors of two parameters that correlate by 0.95, the first of them shifted."""
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky([[1, 0.95], [0.95, 1]])
    x = 3 * rng.normal(size=(n_sims, 2))
    points = x + rng.normal(size=(n_draws + 1, n_sims, 2)) @ root.T
    samples, theta = points[1:] + np.array([shift, 0.0]), points[0]
    return tarpon.check(samples, theta, x=x, names=names, n_swaps=99, rng=0)


MIXTURES = {
    "one of two correlated ones shifted": lambda: correlated(shift=0.6),
    **{
        flaw: partial(check, flaw, n_dims=3, n_sims=200)
        for flaw in ("shift", "narrow", "wide", "skew", "heavy_tails", "correlation_missed",
                     "bias_by_x", "local_width")
    },
}  # fmt: skip
FLAWS = ("biased", "overconfident", "underconfident", "inaccurate", "wrong shape")
ESTIMATE = r"(-?[\d.]+ \[-?[\d.]+, -?[\d.]+\])"


@cache
def mixture(name):
    """Return a check of several flaws, or of one, and its report."""
    found = MIXTURES[name]()
    return found, Page(report.html(found))


@pytest.fixture(scope="module", params=["narrow and shifted", *MIXTURES])
def both(request, gross, pages):
    return mixture(request.param) if request.param in MIXTURES else (gross, pages("broken"))


@pytest.fixture(scope="module")
def found(both):
    return both[0]


@pytest.fixture(scope="module")
def page(both):
    return both[1]


class TestOneNumberForOneThing:
    """Every bias and width on a page is that of the table of parameters, or of a trend."""

    def test_a_bias_has_one_value(self, found, page):
        text = page.text
        known = {str(unsigned(p.bias)) for p in found.parameters}
        known |= {str(unsigned(end)) for end in self.ends(found, "bias")}
        for told_as in ("{} posterior sd", "by {} in "):
            told = set(re.findall(told_as.format(ESTIMATE), text))
            assert told <= known
        assert f"{found.parameters[0].bias.value:+.2f}".replace("-", "\u2212") in text

    def test_a_width_has_one_value(self, found, page):
        text = page.text
        known = {str(p.width) for p in found.parameters}
        known |= {str(end) for end in self.ends(found, "width")}
        whole = [f for f in found.findings if f.unit == "width of the draws" and not f.parameters]
        along = [f for f in found.findings if f.kind is Kind.COMBINATION]
        known |= {str(finding.size) for finding in (*whole, *along)}
        told = set(re.findall(f"scatter {ESTIMATE} times", text))
        assert told <= known
        assert f"{found.parameters[0].width.value:.2f}" in text

    def ends(self, found, what):
        """Return the errors at the ends of all trends of a check."""
        evidence = found.evidence
        trends = [f.trend for f in found.findings if f.trend]
        trends += [t for kind in (evidence.slopes, evidence.by_data, evidence.widths)
                   for t in kind.worst]  # fmt: skip
        return [end for t in trends if t.what == what for end in (t.low, t.high)]

    def test_findings_have_the_sizes_of_the_table(self, found):
        rows = {p.name: p for p in found.parameters}
        for finding in found.findings:
            sizes = finding.sizes or (finding.size,)
            for name, size in zip(finding.parameters, sizes, strict=False):
                if finding.kind is Kind.BIASED:
                    assert size == rows[name].bias
                elif finding.kind in (Kind.OVERCONFIDENT, Kind.UNDERCONFIDENT):
                    assert size == rows[name].width

    def test_captions_name_no_flaw_but_sizes(self, page):
        captions = re.findall(r'<p class="about">(.*?)</p>', page.raw, re.DOTALL)
        captions += re.findall(r'aria-label="([^"]*)" data-by', page.raw)
        assert captions
        assert not [c for c in captions for flaw in FLAWS if flaw in c.lower()]

    def test_ranks_are_captioned_with_the_sizes_of_their_parameter(self, found, page):
        for p in found.parameters:
            assert f"{p.name}. {words.errors(p)}" in page.raw

    def test_no_figure_is_shown_twice(self, page):
        drawn = page.values("data-points")
        assert len(drawn) == len(set(drawn))

    def test_only_parameters_that_fail_are_marked(self, found, page):
        failing = {p.name for p in found.parameters if p.p_value <= found.level}
        table = page.raw[page.raw.index('<table class="parameters') :].split("</table>")[0]
        assert set(re.findall(r"<tr class=fails>.*?<bdi>(.*?)</bdi>", table, re.DOTALL)) == failing
        listed = page.raw.partition("<caption>Directions")[2].split("</table>")[0]
        assert set(re.findall(r"<bdi>(.*?)</bdi>", listed)) <= failing


def test_an_innocent_parameter_is_not_listed_with_those_that_fail():
    found, page = mixture("one of two correlated ones shifted")
    innocent = found.parameters[1]
    assert innocent.p_value > found.level
    assert innocent.name in {direction.name for direction in found.evidence.directions.failed}
    assert "Directions that fail: 2 of 2." in page.text
    assert "Not listed: 1 of these, where the parameter passes on its own" in page.text


def test_the_top_has_three_findings_and_counts_the_others(one):
    rows = [Finding(Kind.SCORE, (), 0.01, where=f"score {k}") for k in range(5)]
    top = report.html(replace(one, findings=tuple(rows))).split("</section>")[0]
    assert [f"score {k}" in top for k in range(5)] == [True] * 3 + [False] * 2
    assert "And 2 more." in top
    exactly = report.html(replace(one, findings=tuple(rows[:3]))).split("</section>")[0]
    assert "more." not in exactly


def test_bias_and_width_are_at_the_top(pages):
    top = pages("broken").raw.split("</section>")[0]
    assert top.count("<figure") == 1
    assert "Bias and width" in top
    assert pages("broken").raw.count(">Bias and width</bdi>") == 1


def test_the_band_of_many_parameters_says_what_it_is(pages):
    assert "98.33% band = 95% for all 3" in pages("broken").text


@pytest.mark.parametrize(("n_draws", "notched"), [(59, False), (60, True)])
def test_a_notch_in_a_band_is_explained(n_draws, notched):
    page = report.html(check("narrow", n_dims=2, n_sims=200, n_draws=n_draws))
    assert ("Where the band has a notch" in page) == notched


def test_angles_are_folded(pages):
    page = pages("broken").raw
    folded = page[page.index('<details class="angles">') :].split("</details>")[0]
    assert "All angles" in folded.split("</summary>")[0]
    assert "Table of angles" in folded


@pytest.fixture(scope="module")
def formulas():
    names = [r"$\Omega_m$", r"$\frac", r"<b>$\sigma_8$</b>", "$a$", "a"]
    found = check("gross", n_dims=5, names=names)
    return found, Page(report.html(found, names=["flow"]))


def test_formulas_are_plain_in_text_and_typeset_in_figures(formulas):
    found, page = formulas
    text = page.text
    assert "Ω_m" in text
    assert "<b>σ_8</b>" in text
    assert r"$\frac" in text
    assert r"\Omega" not in text
    assert "b" not in {tag for tag, _ in page.tags}
    assert "tspan" in {tag for tag, _ in page.tags}
    assert r"\Omega" in str(found)


def test_names_that_read_alike_keep_their_own_figures(formulas):
    found, page = formulas
    assert all(page.raw.count(words.errors(p)) for p in found.parameters)


@pytest.fixture(scope="module")
def compared(gross, exact):
    return Page(report.html(gross, exact, names=["gross", "exact"], commands=["g", "e"]))


class TestComparison:
    def test_the_best_is_first(self, compared):
        table = compared.raw.partition('<table class="sortable outcomes">')[2].split("</table>")[0]
        assert re.findall(r'<a href="#(s\d)"><bdi>(.*?)</bdi>', table) == [
            ("s0", "exact"),
            ("s1", "gross"),
        ]
        assert re.findall(r"<dd><code>([a-z])</code>", compared.raw) == ["e", "g"]

    def test_the_better_one_is_tested(self, compared, gross, exact):
        gain = paired(exact.evidence.energy.values, gross.evidence.energy.values)
        sentence = words.better(gain, "“exact”", "“gross”")
        assert sentence[1:] in compared.text.replace("\xa0", " ")

    def test_other_simulations_are_ranked_by_outcome(self, one):
        other = tarpon.check(zoo("exact", **SMALL, n_dims=1, rng=1), n_swaps=99, rng=0)
        text = Page(report.html(one, other, names=["shifted", "other"])).text
        assert "The simulations are not the same" in text
        assert "score better" not in text
        assert text.index("other") < text.index("shifted")

    def test_no_figure_is_shown_twice(self, compared):
        drawn = compared.values("data-points")
        assert len(drawn) == len(set(drawn))


class TestEvidence:
    def test_ranks_are_those_of_the_tests_alone(self):
        sims = zoo("narrow", n_dims=3, rng=0)
        found = tarpon.check(sims, n_swaps=19, rng=0).evidence
        marginals, density = tarpon.sbc(sims, rng=0), tarpon.hpd(sims, rng=0)
        np.testing.assert_array_equal(found.marginals.ranks.values, marginals.ranks.values)
        np.testing.assert_array_equal(found.joint[1].ranks.values, density.ranks.values)
        assert check("gross").evidence.joint[0].p_value < FALSE_ALARM

    def test_the_correlation_that_was_missed_is_found(self):
        found = check("correlation_missed", n_dims=4, n_sims=400).evidence.pairs
        assert (found.n, found.n_failed) == (6, 2)
        assert {pair.names for pair in found.failed} == {
            ("theta_0", "theta_1"),
            ("theta_2", "theta_3"),
        }
        assert all(abs(pair.truths) > 0.3 > abs(pair.draws) for pair in found.failed)

    def test_errors_that_follow_the_data_are_found(self):
        found = check("bias_by_x", n_dims=2, n_sims=400).evidence
        assert found.by_data.n_failed
        assert found.by_data.worst[0].along in ("x[0]", "x[1]")
        assert found.has_x
        local = check("local_width", n_dims=2, n_sims=400).evidence
        assert local.widths.n_failed

    def test_what_failed_is_kept_for_programs(self):
        found = check("correlation_missed", n_dims=2).to_dict()["evidence"]["pairs"]
        assert found["n"] == found["n_failed"] == len(found["failed"]) == 1

    def test_adjusted_p_values_alarm_at_the_level(self):
        rng, n_studies, alarms = np.random.default_rng(0), 4000, 0
        for _ in range(n_studies):
            common = rng.normal(size=(20, 1))
            alarms += adjusted(common + rng.normal(size=(20, 5))).min() <= 0.05
        assert alarms <= binom.isf(FALSE_ALARM, n_studies, 0.05)
        assert alarms >= binom.ppf(FALSE_ALARM, n_studies, 0.05)

    @pytest.mark.slow
    def test_scores_of_ones_own_get_a_figure(self):
        sims = zoo("narrow", n_dims=2, rng=0)
        own = tarpon.check(
            sims, scores={"size <b>": lambda t, x: (t**2).sum(-1)}, rng=0, n_swaps=99
        )
        assert own.evidence.joint[-1].names == ("size <b>",)
        assert "<b>" not in report.html(own)


class TestCommandLine:
    @pytest.fixture
    def files(self, tmp_path):
        for flaw in ("exact", "swapped_axes"):
            sims = zoo(flaw, rng=0, **SMALL)
            np.savez(tmp_path / f"{flaw}.npz", samples=sims.samples, theta=sims.theta, x=sims.x)
        return tmp_path / "exact.npz", tmp_path / "swapped_axes.npz"

    def run(self, *words):
        return CliRunner().invoke(
            main, ["check", *map(str, words), "--rng", "0", "--n-swaps", "99"]
        )

    @pytest.mark.slow
    def test_one_file_gets_a_report_that_says_how_to_have_it_again(self, files, tmp_path):
        answer = self.run(files[0], "--report", tmp_path / "out.html")
        page = Page((tmp_path / "out.html").read_text())
        assert answer.exit_code == 0
        assert f"report: {tmp_path / 'out.html'}" in answer.output
        command = f"tarpon check {files[0]} --rng 0 --level 0.05 --n-swaps 99"
        assert command in page.text
        again = CliRunner().invoke(main, command.split()[1:])
        assert again.output == answer.output.split("report:")[0]

    @pytest.mark.slow
    def test_command_line_compares_several_files(self, files, tmp_path):
        answer = self.run(*files, "--report", tmp_path / "out.html")
        page = Page((tmp_path / "out.html").read_text())
        assert answer.exit_code == 1
        assert [line for line in answer.output.splitlines() if line.endswith(".npz:")] == [
            f"{file}:" for file in files
        ]
        assert "1 of 2 are inaccurate." in page.text
        assert "swapped_axes.npz" in page.text
        both = json.loads(self.run(*files, "--json").output)
        assert list(both) == [str(file) for file in files]

    def test_commands_of_one_file_refuse_several(self, files, tmp_path):
        answer = self.run(*files, "--plot", tmp_path / "figure.png")
        assert answer.exit_code == 2
        assert "--plot takes one file, but got 2." in answer.output
