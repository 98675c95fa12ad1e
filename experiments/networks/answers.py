"""What the trial was for: answers in words, with numbers from the records."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

LEVEL = 0.05
WRONG = 0.05  # nats above which a network counts as wrong
APART = 0.55  # and C2ST, if its density is not known

Record = dict[str, Any]


def is_wrong(one: Record) -> bool:
    """Return whether an estimator is truly wrong."""
    if "nats" in one["true"]:
        return one["true"]["nats"] > WRONG
    return mean(one["true"]["c2st"]) > APART


def wrong(records: Sequence[Record]) -> list[Record]:
    """Return the trained estimators that are truly wrong."""
    return [one for one in records if one["n_train"] and is_wrong(one)]


def nats(one: Record) -> str:
    """Return the true divergence."""
    return f"{one['true']['nats']:.2f}" if "nats" in one["true"] else "–"


def named(one: Record) -> str:
    """Return the name of a network in a sentence."""
    return f"{one['problem'].replace('_', ' ')}, {one['estimator']}, {one['n_train']}"


def single(one: Record, records: Sequence[Record]) -> Record | None:
    """Return the single network of an ensemble."""
    if not one["estimator"].startswith("5 × "):
        return None
    same = (
        other for other in records
        if other["estimator"] == one["estimator"].removeprefix("5 × ")
        and (other["problem"], other["n_train"]) == (one["problem"], one["n_train"])
    )  # fmt: skip
    return next(same, None)


def text(records: Sequence[Record]) -> str:
    """Return the answers."""
    parts = [silence(records), tolerance(records), locally(records), together(records),
             mended(records), false_alarms(records), blind(records)]  # fmt: skip
    return "\n".join(f"- {part}" for part in parts if part)


def silence(records: Sequence[Record]) -> str:
    """Say how many training simulations it takes until `check` is silent."""
    parts = []
    for at, n in (("at_300", 300), ("at_3000", 3000)):
        for n_train in sorted({one["n_train"] for one in records if one["n_train"]}):
            some = [one for one in records if one["n_train"] == n_train and at in one]
            if some:
                passed = [one for one in some if one[at]["p"] > LEVEL]
                names = "; ".join(f"{named(one)}: {nats(one)} nats" for one in passed)
                parts.append(
                    f"of {len(some)} networks trained on {n_train} simulations, "
                    f"`check` at N = {n} passes {len(passed)}" + (f" ({names})" if names else "")
                )
    return f"**How many training simulations until `check` is silent?** {'; '.join(parts)}."


def tolerance(records: Sequence[Record]) -> str:
    """Say whether "within tolerance" agrees with the true divergence."""
    parts = []
    for at, n in (("at_300", 300), ("at_3000", 3000)):
        within = [one for one in records if one["n_train"] and at in one and one[at]["within"]]
        names = "; ".join(f"{named(one)}: {nats(one)} nats" for one in within) or "none"
        parts.append(f"at N = {n}, {names}")
    return f"**Which networks does `check` call within tolerance?** {'; '.join(parts)}."


def locally(records: Sequence[Record]) -> str:
    """Compare `near` and LC2ST where both were run."""
    both = [one for one in records if "lc2st" in one and "near" in one]
    if not both:
        return ""
    ours = [there["p"] <= LEVEL for one in both for there in one["near"]]
    theirs = [value <= LEVEL for one in both for value in one["lc2st"]]
    n_both = sum(a and b for a, b in zip(ours, theirs, strict=True))
    seconds = [(one["seconds"]["near"], one["seconds"]["lc2st"]) for one in both]
    return (
        f"**At single observations?** Of {len(ours)} observations of {len(both)} networks, `near` "
        f"rejects {sum(ours)}, LC2ST {sum(theirs)}, both {n_both}; "
        f"{mean(s for s, _ in seconds):.1f} s and {mean(s for _, s in seconds):.1f} s per network."
    )


def together(records: Sequence[Record]) -> str:
    """Say whether ensembles help."""
    pairs = [(before, one) for one in records if (before := single(one, records))]
    if not pairs:
        return ""
    parts = [
        f"{one['problem'].replace('_', ' ')} from {nats(before)} to {nats(one)} nats"
        for before, one in pairs
    ]
    passed = sum(one["at_300"]["p"] > LEVEL for _, one in pairs)
    return (
        f"**Do ensembles of five help?** {'; '.join(parts)}; {passed} of {len(pairs)} pass "
        f"`check` at N = 300."
    )


def mended(records: Sequence[Record]) -> str:
    """Say whether repairs help, on fresh simulations."""
    found = [one["repair"] for one in records if "p_after" in one.get("repair", {})]
    if not found:
        return ""
    called = [one for one in found if one["outcome"] == "repaired"]
    passed = sum(one["p_after"] > LEVEL for one in called)
    better = sum(one["nats_after"] < one["nats_before"] for one in found)
    share = mean(1 - one["nats_after"] / one["nats_before"] for one in found)
    return (
        f"**Does repair help?** Of {len(found)} networks, {len(called)} are called repaired, and "
        f"{passed} of these pass on 300 fresh simulations. The divergence at ten observations is "
        f"smaller in {better}; on average {share:.0%} of it is removed."
    )


def false_alarms(records: Sequence[Record]) -> str:
    """Say what the tests say about exact posteriors."""
    exact = [one for one in records if not one["n_train"]]
    values = [one["at_300"]["p"] for one in exact]
    values += [one["at_3000"]["p"] for one in exact if "at_3000" in one]
    there = [place["p"] for one in exact for place in one.get("near", [])]
    if not exact:
        return ""
    rejected = dict.fromkeys(
        one["problem"].replace("_", " ")
        for one in exact
        for at in ("at_300", "at_3000")
        if one.get(at, {}).get("p", 1) <= LEVEL
    )
    which = f" ({', '.join(rejected)})" if rejected else ""
    return (
        f"**And the references?** Checks of their draws that reject: "
        f"{sum(v <= LEVEL for v in values)} of {len(values)}{which}; calls of `near`: "
        f"{sum(v <= LEVEL for v in there)} of {len(there)}."
    )


def blind(records: Sequence[Record]) -> str:
    """Name the wrong networks that pass."""
    missed = [one for one in wrong(records) if one["at_300"]["p"] > LEVEL]
    names = "; ".join(f"{named(one)} ({nats(one)} nats)" for one in missed) or "none"
    return f"**Where is `check` blind at N = 300?** Wrong networks that pass: {names}."
