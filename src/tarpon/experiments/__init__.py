"""The experiments and figures of the paper, and flaws that the paper's tests cannot detect.

An experiment is a function of a `Lab` that returns an `Outcome`: figures, the numbers behind them,
and claims about the numbers. `reproduce` runs an experiment and writes its files.
"""

from collections.abc import Callable
from dataclasses import dataclass

from .._base import arguments
from .._base.threads import one_thread_each
from ._blindspots import blindspots
from ._errata import errata
from ._gaussian import bias, choices_of_metric, choices_of_reference, toy
from ._lab import Answer, Claim, Lab, Outcome
from ._lensing import lensing
from ._pictures import connection, intuition, method
from ._record import write, write_page
from ._steps import steps
from ._uninformative import uninformative

__all__ = ["EXPERIMENTS", "Answer", "Claim", "Experiment", "Lab", "Outcome", "reproduce"]


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper.

    Arguments:
        figure: Figure of the paper, in words.
        run: Function that runs the experiment.
    """

    figure: str
    run: Callable[[Lab], Outcome]


EXPERIMENTS = {
    "method": Experiment("Figure 1, the test", method),
    "gaussian": Experiment("Figure 2, the Gaussian toy", toy),
    "uninformative": Experiment("Figure 3 and appendix D, an estimator without x", uninformative),
    "lensing": Experiment("Figures 4 and 5, gravitational lensing", lensing),
    "connection": Experiment("Appendix A, two ways to count coverage", connection),
    "intuition": Experiment("Appendix B, over- and underconfident curves", intuition),
    "bias": Experiment("Appendix C, the function of the biased case", bias),
    "references": Experiment(
        "Appendix D, distributions of reference points", choices_of_reference
    ),
    "metrics": Experiment("Appendix D, distances L2 and L1", choices_of_metric),
    "blindspots": Experiment("not in the paper: what TARP does not see", blindspots),
    "steps": Experiment("not in the paper: how many steps a sampler needs", steps),
    "errata": Experiment("not in the paper: formulas taken by the letter", errata),
}


def reproduce(name: str, lab: Lab) -> Outcome:
    """Run an experiment; write its figures (PNG, PDF), its numbers (JSON) and the common page.

    Example:
        >>> from pathlib import Path
        >>> outcome = reproduce("bias", Lab(Path("figures"), quick=True))
        >>> all(claim.holds for claim in outcome.claims)
        True
        >>> sorted(path.name for path in Path("figures").iterdir())
        ['README.md', 'bias.json', 'bias.pdf', 'bias.png']
    """
    arguments.one_of("name", name, list(EXPERIMENTS))
    # Our threads and the threads of linear algebra would wait for each other.
    with one_thread_each():
        outcome = EXPERIMENTS[name].run(lab)
    write(outcome, name, EXPERIMENTS[name].figure, lab)
    write_page(lab.out, list(EXPERIMENTS))
    return outcome
