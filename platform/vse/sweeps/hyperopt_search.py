"""HyperOpt's tree of Parzen estimators (Bergstra et al., NIPS 2011) as a proposer.

Points are entered in HyperOpt's internal form, because Tune's wrapper hangs on initial points of conditional spaces.
"""

from collections.abc import Mapping
from typing import Any

import hyperopt
from hyperopt import tpe
from ray.tune.search.hyperopt import HyperOptSearch

from vse.sweeps.informed_search import InformedSearch, Value
from vse.sweeps.space import alternatives, choices


class ParzenSearch(InformedSearch):
    """Proposes points by HyperOpt."""

    library = "HyperOpt"

    def _begin(self) -> None:
        self._trials = hyperopt.Trials()
        self._domain = hyperopt.Domain(lambda point: point, _expression(self.space.domains))

    def _enter(self, labels: Mapping[str, Any]) -> int:
        tid = len(self._trials._dynamic_trials)
        values = {name: [labels[name]] if name in labels else [] for name in self._domain.params}
        misc = {
            "tid": tid,
            "cmd": self._domain.cmd,
            "workdir": None,
            "idxs": {name: [tid] if each else [] for name, each in values.items()},
            "vals": values,
        }
        (document,) = self._trials.new_trial_docs([tid], [None], [{"status": hyperopt.STATUS_NEW}], [misc])
        document["state"] = hyperopt.JOB_STATE_NEW
        self._trials.insert_trial_docs([document])
        self._trials.refresh()
        return tid

    def _end(self, number: int, value: Value | None, *, diverged: bool) -> None:
        (document,) = (each for each in self._trials._dynamic_trials if each["tid"] == number)
        document["state"] = hyperopt.JOB_STATE_DONE
        if value is not None:
            document["result"] = {"status": hyperopt.STATUS_OK, "loss": -value[0]}
        elif diverged:
            document["result"] = {"status": hyperopt.STATUS_FAIL}
        else:
            document["state"] = hyperopt.JOB_STATE_ERROR
        self._trials.refresh()

    def _suggest(self, seed: int, *, informed: bool) -> dict[str, Any]:
        (document,) = tpe.suggest(
            [len(self._trials._dynamic_trials)],
            self._domain,
            self._trials,
            seed,
            n_startup_jobs=self.num_initial if informed else 10**9,
            verbose=False,
        )
        return {label: values[0] for label, values in document["misc"]["vals"].items() if values}


def _expression(domains: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The space as HyperOpt's expression, with the labels of `space.labels_of`; constants are left out."""
    built: dict[str, Any] = {}
    for key, domain in domains.items():
        name, inner = f"{prefix}{key}", alternatives(domain)
        if inner is not None:
            options = [{"taken": k, **_expression(each, f"{name}/{k}/")} for k, each in enumerate(inner)]
            built[name] = hyperopt.hp.choice(name, options)
        elif hasattr(domain, "categories"):
            built[name] = hyperopt.hp.choice(name, list(range(len(domain.categories))))
        elif choices(domain) is None:
            built[name] = HyperOptSearch.convert_search_space({name: domain})[name]
    return built
