"""Optuna's samplers as a proposer: tree of Parzen estimators, and Gaussian processes.

The study is in memory. `jobs/export_study.py` writes one that Optuna's dashboard opens.
"""

import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from vse.errors import InputError, install
from vse.sweeps.informed_search import InformedSearch, Value
from vse.sweeps.space import Space, alternatives, choices, leaves, upper_end

_Labels = Iterator[tuple[str, Any]]


def import_optuna(key: str) -> Any:
    """The library, without its log. Raises InputError that names the key if it is not installed."""
    try:
        import optuna
    except ImportError:
        raise InputError(f"{key}: needs the package optuna; {install('optuna')}") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def distribution(domain: Any, key: str) -> Any:
    """Optuna's distribution of a domain: positions in a list, or values in a range.

    Steps are left out: Optuna counts them from the lower end, Tune from zero (`_stepped`).

    Args:
        domain: of Tune, drawn from.
        key: names the domain in the error.

    Raises:
        InputError: the domain has no bounds.
    """
    from ray.tune.search import sample

    distributions = import_optuna("sweep.method=optuna").distributions
    if isinstance(domain, sample.Categorical):
        return distributions.CategoricalDistribution(tuple(range(len(domain.categories))))
    sampler = domain.get_sampler()
    inner = sampler.sampler if isinstance(sampler, sample.Quantized) else sampler
    if isinstance(inner, sample.Normal):
        raise InputError(
            f"{key}: a normal distribution has no bounds; use uniform or loguniform, or sweep.method=hyperopt"
        )
    log = isinstance(inner, sample.LogUniform)
    if isinstance(domain, sample.Integer):
        return distributions.IntDistribution(domain.lower, upper_end(domain), log=log)
    return distributions.FloatDistribution(domain.lower, domain.upper, log=log)


class OptunaSearch(InformedSearch):
    """Proposes points by a sampler of Optuna. Running trials count as bad ones, so parallel draws keep apart."""

    library = "Optuna"
    sampler = "tpe"

    @property
    def ignores_pruned(self) -> bool:
        """Whether the sampler learns nothing from pruned trials, as with several objectives."""
        return self.objectives > 1 or self.sampler == "gp"

    @classmethod
    def check_space(cls, space: Space) -> None:
        super().check_space(space)
        for key, domain in leaves(space.domains):
            if choices(domain) is None:
                distribution(domain, f"search space {space.where}: {key}")

    def _begin(self) -> None:
        self._optuna = import_optuna("sweep.method=optuna")
        self._study = self._optuna.create_study(directions=["maximize"] * self.objectives)
        self._distributions = dict(_distributions(self.space.domains, self._optuna, self.space.where))

    def _enter(self, labels: Mapping[str, Any]) -> int:
        params = {name: value for name, value in labels.items() if name in self._distributions}
        trial = self._optuna.trial.create_trial(
            state=self._optuna.trial.TrialState.RUNNING,
            params=params,
            distributions={name: self._distributions[name] for name in params},
        )
        self._study.add_trial(trial)
        return len(self._study.get_trials(deepcopy=False)) - 1

    def _end(self, number: int, value: Value | None, *, diverged: bool) -> None:
        states = self._optuna.trial.TrialState
        if diverged and self.ignores_pruned:
            value = (0.0,) * self.objectives  # sums and means of percentages, which cannot be lower
        if value is not None:
            self._study.tell(number, list(value))
        else:  # a pruned trial without a value is the worst for the samplers, a failed one says nothing
            self._study.tell(number, state=states.PRUNED if diverged else states.FAIL)

    def _suggest(self, seed: int, *, informed: bool) -> dict[str, Any]:
        samplers = self._optuna.samplers
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
            if not informed:
                sampler = samplers.RandomSampler(seed=seed)
            elif self.sampler == "gp":
                sampler = samplers.GPSampler(seed=seed, n_startup_trials=self.num_initial)
            else:
                sampler = samplers.TPESampler(seed=seed, n_startup_trials=self.num_initial, constant_liar=True)
            self._study.sampler = sampler
            trial = self._study.ask()
            labels = dict(_ask(trial, self.space.domains, self._distributions))
        self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)  # entered again if it is accepted
        return labels


class GaussianProcessSearch(OptunaSearch):
    """Proposes points by Optuna's Gaussian process; below alternatives points are drawn at random."""

    sampler = "gp"


SEARCHES = {"tpe": OptunaSearch, "gp": GaussianProcessSearch}  # by `sweep.sampler`


def _distributions(domains: Mapping[str, Any], optuna: Any, where: str, prefix: str = "") -> _Labels:
    """(label, distribution) of every domain that is drawn from, with the labels of `space.labels_of`."""
    for key, domain in domains.items():
        name, inner = f"{prefix}{key}", alternatives(domain)
        if inner is not None:
            yield name, optuna.distributions.CategoricalDistribution(tuple(range(len(inner))))
            for k, each in enumerate(inner):
                yield from _distributions(each, optuna, where, f"{name}/{k}/")
        elif choices(domain) is None:
            yield name, distribution(domain, f"search space {where}: {key}")


def _ask(trial: Any, domains: Mapping[str, Any], distributions: Mapping[str, Any], prefix: str = "") -> _Labels:
    """(label, drawn value) of the alternatives that are taken."""
    for key, domain in domains.items():
        name, inner = f"{prefix}{key}", alternatives(domain)
        if name not in distributions:
            continue
        each = distributions[name]
        if hasattr(each, "choices"):
            value = trial.suggest_categorical(name, each.choices)
        else:
            draw = trial.suggest_int if isinstance(each.low, int) else trial.suggest_float
            value = _stepped(domain, draw(name, each.low, each.high, log=each.log))
        yield name, value
        if inner is not None:
            yield from _ask(trial, inner[int(value)], distributions, f"{name}/{value}/")


def _stepped(domain: Any, value: float) -> float:
    """A value at the nearest multiple of the domain's step, as Tune and HyperOpt draw it."""
    step = getattr(domain.get_sampler(), "q", None)
    return value if step is None else round(value / step) * step
