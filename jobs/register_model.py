"""Register a trained run as a model: `python jobs/register_model.py run=univse-scenes-s0-1a2b3c4d alpha=0.7`."""

import sys
from dataclasses import dataclass, field

from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.config import knob
from vse.errors import StorageError
from vse.inference.served_model import ALIAS, PackedModel, offer_model
from vse.report.model_card import CardOptions, model_card, publish
from vse.tracking.shipping import Shipper
from vse.workspace.layout import Workspace
from vse.workspace.redaction import redact_text


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelOptions:
    """What the model is called."""

    name: str = knob("", "registered model; empty: family and source of the run, as in univse-scenes")
    alias: str = knob(ALIAS, "alias that this version gets, and an earlier one loses")


@dataclass(frozen=True, kw_only=True, slots=True)
class RegisterOptions:
    """Keys of this job."""

    run: str = knob("", "name of a folder below runs/, or a path that a job printed")
    alpha: float | None = knob(None, "weight of u_sent if the family has it; default: as configured", low=0, high=1)
    registry: ModelOptions = field(default_factory=ModelOptions)
    card: CardOptions = field(default_factory=CardOptions)


def run(request: Request) -> str:
    """Pack the kept checkpoint, send it to MLflow's registry, print its address."""
    options = request.options
    set_up_logging()
    workspace = Workspace.open(request.workspace)
    folder = workspace.existing("runs", options.run, "run").check_writable()
    changes = {} if options.alpha is None else {"model.alpha": options.alpha}
    shipper = Shipper(request.workspace, request.tracking)
    named = options.registry
    card = model_card(folder, options.card, options.alpha)
    offer = offer_model(workspace, options.run, changes=changes, name=named.name, alias=named.alias, card=card)
    publish(folder.child(PackedModel.parent, offer.digest), options.card)
    shipped = shipper.ship(wait=60)
    version = shipped.models.get(offer.address) or shipper.version_of(offer.name, offer.alias, offer.digest)
    if version is None:
        why = shipped.trouble or f"it was not taken, or a later offer has the alias {offer.alias}"
        raise StorageError(f"the model waits in the journal of {options.run}: {why}")
    path = request.write_summary(
        folder.child(PackedModel.parent),
        headline={"model": offer.address, "version": version},
        outputs={"run": folder.uri, "mlflow": shipper.uri},
    )
    print(f"{offer.address} is version {version} in {redact_text(shipper.uri)}")
    return path


if __name__ == "__main__":
    sys.exit(
        main(
            "register_model",
            run,
            description="Register the kept checkpoint of a run in MLflow: it embeds pictures and sentences anywhere.",
            options=RegisterOptions(),
            check=lambda request: request.options.card.check(),
        )
    )
