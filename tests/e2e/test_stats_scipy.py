# SPDX-License-Identifier: Apache-2.0
"""The statistics of `sluice bench compare` beside those of SciPy, on the same numbers."""

import json
import os
import random
import subprocess

import pytest

scipy_stats = pytest.importorskip("scipy.stats", reason="python3-scipy is not installed: nobody to ask")
import numpy  # noqa: E402  (comes with it)


def ask(values):
    text = "".join(f"{value:.9f}\n" for value in values)
    done = subprocess.run([os.environ["STATS_FEED"]], input=text, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def walsh(values):
    values = numpy.array(values)
    first, second = numpy.triu_indices(len(values))
    return numpy.sort((values[first] + values[second]) / 2)


@pytest.mark.parametrize("count", [6, 7, 10, 20, 25, 40])
@pytest.mark.parametrize("shift", [0, 0.4])
def test_signed_ranks_without_ties(count, shift):
    source = random.Random(count)
    values = [round(source.gauss(shift, 1), 9) for _ in range(count)]
    ours = ask(values)
    assert ours["p"] == pytest.approx(scipy_stats.wilcoxon(values, mode="exact").pvalue, rel=1e-9)
    assert ours["location"] == pytest.approx(numpy.median(walsh(values)), abs=1e-9)


def test_few_with_ties_are_counted_out():
    """All 4096 ways to sign twelve ranks; the normal distribution would promise too much of so few."""
    source = random.Random(12)
    values = [value for value in (round(source.gauss(0.6, 2)) for _ in range(20)) if value][:12]
    ranks = scipy_stats.rankdata([abs(value) for value in values])
    found = sum(rank for rank, value in zip(ranks, values) if value > 0)
    less = min(found, sum(ranks) - found)
    signs = (numpy.arange(2 ** len(values))[:, None] >> numpy.arange(len(values))) & 1
    assert len(values) == 12 and len(set(ranks)) < 12
    assert ask(values)["p"] == pytest.approx(min(1, 2 * numpy.mean(signs @ ranks <= less + 1e-9)), rel=1e-9)


@pytest.mark.parametrize("count", [70, 400])
def test_ties_and_zeros(count):
    source = random.Random(count)
    values = [round(source.gauss(0.3, 2)) for _ in range(count)]
    theirs = scipy_stats.wilcoxon(values, zero_method="wilcox", correction=False, mode="approx")
    assert ask(values)["p"] == pytest.approx(theirs.pvalue, rel=1e-6)


@pytest.mark.parametrize("count", [8, 20, 50])
def test_the_interval_is_the_test_turned_round(count):
    """Just inside of its ends the test does not refuse the shift, just outside it does."""
    source = random.Random(count)
    values = [round(source.gauss(0, 1), 9) for _ in range(count)]
    for name, alpha in (("within_90", 0.10), ("within_95", 0.05)):
        for end, outwards in zip(ask(values)[name], (-1, 1)):
            inside = [value - (end - outwards * 1e-7) for value in values]
            outside = [value - (end + outwards * 1e-7) for value in values]
            assert scipy_stats.wilcoxon(inside, mode="exact").pvalue > alpha
            assert scipy_stats.wilcoxon(outside, mode="exact").pvalue <= alpha


def test_beyond_what_is_counted_out():
    source = random.Random(1)
    values = [round(source.gauss(0.05, 1), 9) for _ in range(3000)]
    theirs = scipy_stats.wilcoxon(values, mode="approx", correction=False)
    assert ask(values)["p"] == pytest.approx(theirs.pvalue, rel=1e-6)
