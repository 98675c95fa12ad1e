"""Problems: a prior, a simulator and a sampler, from a file or from a program."""

import hashlib
import inspect
import sys
import textwrap
import traceback
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.random import Generator, SeedSequence

from .._base import disk
from .._base.arrays import Results
from .._base.fingerprint import of_attributes, of_code
from .._base.imports import imported
from .._base.types import Array, ArrayLike
from ..simulations import shapes
from .proposal import Proposal

PARTS = ("prior", "simulate", "posterior")
_OURS = str(Path(__file__).parents[1])
_STREAM = 2  # of random numbers that no test with the same seed uses


class Problem(Protocol):
    """A prior, a simulator and the posterior under test.

    It may also have `log_prob(theta, x)`, the estimator's log-density `(n,)` of parameters
    `(n, n_dims)` given one observation, up to a constant; `names`, one per parameter; and
    `log_prior(theta)`, the prior's log-density `(n,)`, which `near` needs.
    """

    def prior(self, rng: Generator) -> ArrayLike:
        """Return true parameters, of shape `(n_dims,)`, or a field."""
        ...

    def simulate(self, theta: Array, rng: Generator) -> ArrayLike:
        """Return an observation, of the same shape every time."""
        ...

    def posterior(self, x: Any, n_draws: int, rng: Generator) -> ArrayLike:
        """Return draws of the posterior given an observation, `(n_draws, *theta.shape)`."""
        ...


@dataclass(frozen=True)
class InFile:
    """Problem that is defined in a file.

    Workers run the content of the file at the start of the run, even if the file changes.

    Arguments:
        path: Path of the file.
        name: Name of the object; by default `problem`, or else the functions of the file.
        text: Content of the file.
        modules: Names and sources of the modules that it imports from its folder.
    """

    path: str
    name: str
    text: str
    modules: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, given: str | Path) -> "InFile":
        """Find `path/to/file.py` or `path/to/file.py:name`."""
        before, found, name = str(given).rpartition(".py:")
        path = disk.existing(f"{before}.py" if found else str(given)).absolute()
        text = _text(path)
        _, loaded = _run(str(path), text)
        modules = imported(path, text, loaded)
        return cls(str(path), name if found else "", text, tuple(modules.items()))

    def __call__(self) -> Problem:
        return _loaded(self)

    def identity(self) -> dict[str, Any]:
        """Return everything that simulations depend on but the seed."""
        return {
            "source": self.text,
            "modules": dict(self.modules),
            "object": self.name,
            "settings": of_attributes(self()),
        }


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{str(path)!r} is not a Python file: {error}. To test draws that exist already, use "
            f"`check`."
        ) from error


@dataclass(frozen=True, eq=False)
class InProgram:
    """Problem that is an object of the calling program."""

    problem: Problem

    def __call__(self) -> Problem:
        return self.problem

    def identity(self) -> dict[str, Any]:
        """Return everything that simulations depend on but the seed."""
        kind = type(self.problem)
        return {
            "source": _source(self.problem),
            "code": of_code(kind),
            "object": kind.__qualname__,
            "settings": of_attributes(self.problem),
        }


Source = InFile | InProgram


def source(given: Any) -> Source:
    """Return the source of a problem, given as a path or an object."""
    found = InFile.of(given) if isinstance(given, str | Path) else InProgram(given)
    problem = found()
    missing = [part for part in PARTS if not callable(getattr(problem, part, None))]
    if missing or isinstance(problem, type):
        a_class = " It is a class: pass an object of it." if isinstance(problem, type) else ""
        raise ValueError(
            f"a problem needs `prior(rng)`, `simulate(theta, rng)` and "
            f"`posterior(x, n_draws, rng)`, but {_called(given)} lacks "
            f"{', '.join(missing) or 'an object'}.{a_class}"
        )
    return found


def simulated(
    problem: Any, index: int, seed: int, n_draws: int, proposal: Proposal | None = None
) -> Results:
    """Return one simulation. Its random numbers depend on the seed and its index only.

    Arguments:
        problem: The `Problem`.
        index: Index of the simulation.
        seed: Seed of all simulations.
        n_draws: Number of draws.
        proposal: Distribution of truths; by default the prior.
    """
    prior, noise, draw = (
        np.random.default_rng(part)
        for part in SeedSequence((seed, _STREAM), spawn_key=(index,)).spawn(3)
    )
    theta = _truth(problem, prior) if proposal is None else proposal.draw(problem, prior)
    x = problem.simulate(theta, noise)
    samples = _finite("posterior(x, n_draws, rng)", problem.posterior(x, n_draws, draw))
    if samples.ndim == 1 and theta.shape == (1,):
        samples = samples[:, None]
    if samples.shape != (n_draws, *theta.shape):
        raise ValueError(
            f"`posterior(x, n_draws, rng)` must return {(n_draws, *theta.shape)}, draws first, "
            f"but returned {samples.shape}."
        )
    found = {"theta": theta, "samples": samples, "x": shapes.array("simulate(theta, rng)", x)}
    if proposal is not None:
        proposal.same_kind(found["x"])
        found |= proposal.weighted(problem, theta, samples)
    log_prob = getattr(problem, "log_prob", None)
    return found if log_prob is None else found | _densities(log_prob, theta, samples, x)


def _truth(problem: Problem, rng: Generator) -> Array:
    return np.atleast_1d(_finite("prior(rng)", problem.prior(rng)))


def _densities(log_prob: Any, theta: Array, samples: Array, x: Any) -> Results:
    values = shapes.array(
        "log_prob(theta, x)", log_prob(np.concatenate([theta[None], samples]), x)
    )
    if values.shape != (len(samples) + 1,):
        raise ValueError(
            f"`log_prob(theta, x)` of {len(samples) + 1} parameters must return "
            f"({len(samples) + 1},) numbers, but returned {values.shape}."
        )
    if np.isnan(values).any() or (values == np.inf).any():
        raise ValueError("`log_prob(theta, x)` must return numbers, but returned NaN or inf.")
    return {"log_prob_theta": values[0], "log_prob_samples": values[1:]}


def _finite(name: str, values: ArrayLike) -> Array:
    numbers = shapes.array(name, values)
    if not np.isfinite(numbers).all():
        raise ValueError(f"`{name}` must return finite numbers, but returned NaN or infinities.")
    return numbers


@cache
def _loaded(file: InFile) -> Problem:
    """Return the problem of a file; raise an error if its modules have changed."""
    module, _ = _run(file.path, file.text)
    now = imported(Path(file.path), file.text, dict(file.modules))
    changed = [name for name, text in file.modules if now.get(name) != text]
    if changed:
        raise ValueError(f"module {changed[0]!r} has changed since the run began.")
    if file.name and not hasattr(module, file.name):
        raise ValueError(f"{file.path!r} has no {file.name!r}.")
    problem: Problem = getattr(module, file.name or "problem", module)
    return problem


@cache
def _run(path: str, text: str) -> tuple[ModuleType, tuple[str, ...]]:
    """Run a source as a module; return the module and the names of those that it loaded."""
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    module = ModuleType(f"tarpon_problem_{digest}")
    module.__file__ = path
    sys.modules[module.__name__] = module
    folder = str(Path(path).parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # like a script, it can import from its folder
    before = set(sys.modules)
    try:
        exec(compile(text, path, "exec"), vars(module))
    except Exception as error:
        raise ValueError(f"{path!r} cannot be run: {where(error)}.") from error
    return module, tuple(set(sys.modules) - before)


def where(error: BaseException) -> str:
    """Return the message of an error, and the innermost line outside of tarpon."""
    said = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
    said = said.removesuffix(".")
    if isinstance(error, SyntaxError):
        places = [(error.filename, error.lineno)]
    else:
        frames = traceback.extract_tb(error.__traceback__)
        places = [(frame.filename, frame.lineno) for frame in frames]
    theirs = [(file, line) for file, line in places if file and not file.startswith(_OURS)]
    return f"{said} ({Path(theirs[-1][0]).name}, line {theirs[-1][1]})" if theirs else said


def _called(given: Any) -> str:
    return repr(str(given)) if isinstance(given, str | Path) else f"a {type(given).__qualname__}"


def _source(problem: Problem) -> str:
    """Return the source of an object's module; in the main program, of its class only.

    So the main program may change, for example to run longer, without changing the problem.
    """
    kind = type(problem)
    try:
        if kind.__module__ == "__main__":
            return textwrap.dedent(inspect.getsource(kind))
        return inspect.getsource(sys.modules[kind.__module__])
    except (OSError, TypeError, KeyError):
        pass
    try:  # In a notebook methods have a source, but classes do not.
        return "\n".join(textwrap.dedent(inspect.getsource(getattr(kind, part))) for part in PARTS)
    except (OSError, TypeError, AttributeError) as error:
        raise ValueError(
            f"the source of {kind.__qualname__} cannot be found, so a later change would not be "
            f"noticed. Write it to a file."
        ) from error
