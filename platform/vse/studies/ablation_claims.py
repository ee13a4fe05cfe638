"""What UniVSE's supplement (A.2, Tables 2 to 4) finds of its parts, registered before it is measured (see `claims`).

Five seeds each; arms are UniVSE's preset on scenes with one thing changed, scored at alpha = 0.75, and VSE++ on its
image side.
"""

from vse.studies.claims import Arm, Claim, Comparison

SEEDS = 5
ATTACKED = "attacks/rsum3"
AGGREGATIONS = ("sum", "max", "gru", "attention")


def _arm(name: str) -> Arm:
    return Arm(model=name, alpha=0.75 if name.startswith("univse") and name != "univse_learned_alpha" else None)


def _over(better: str, worse: str, metric: str, margin: float = 0.0, negligible: float = 3.0) -> Comparison:
    return Comparison(
        name=f"{metric}: {better} - {worse}",
        metric=metric,
        terms=((1.0, _arm(better)), (-1.0, _arm(worse))),
        margin=margin,
        negligible=negligible,
    )


def _claim(name: str, statement: str, *comparisons: Comparison) -> Claim:
    return Claim(name=name, paper="univse_supplement", statement=statement, comparisons=comparisons, seeds=SEEDS)


def _best_of_aggregations(best: str, metric: str) -> tuple[Comparison, ...]:
    others = ["univse", *(f"univse_aggregate_{kind}" for kind in AGGREGATIONS)]
    return tuple(_over(best, other, metric) for other in others if other != best)


ABLATION_CLAIMS = (
    _claim(
        "maxk_best",
        "Max-10 pooling is above average and max pooling on plain retrieval (Table 2: 469.5, 452.9, 462.5).",
        *(_over("univse", f"univse_{kind}_pooling", "rsum") for kind in ("average", "max")),
    ),
    _claim(
        "maxk_most_robust",
        "Max-10 pooling is above average and max pooling under attack (Table 2).",
        *(_over("univse", f"univse_{kind}_pooling", ATTACKED) for kind in ("average", "max")),
    ),
    _claim(
        "comp_makes_maxk_robust",
        "Without the loss on bags of components max-10 pooling finds fewer true captions under attack (Table 2).",
        _over("univse", "univse_no_comp", ATTACKED),
    ),
    _claim(
        "maxk_needs_components",
        "Max-10 pooling gains more over average and max pooling with UniVSE's losses than without them (A.2: it has to "
        "be trained under UniVSE's structure).",
        *(
            Comparison(
                name=f"rsum: gain over {kind} with UniVSE's losses - without",
                metric="rsum",
                terms=(
                    (1.0, _arm("univse")),
                    (-1.0, _arm(f"univse_{kind}_pooling")),
                    (-1.0, _arm("vsepp_maxk")),
                    (1.0, _arm(f"vsepp_{kind}_pooling")),
                ),
                negligible=3.0,
            )
            for kind in ("average", "max")
        ),
    ),
    _claim(
        "gru_best_plain",
        "As aggregation of components a GRU is best on plain retrieval (Table 3: 472.0; the next, sum, 471.1).",
        *_best_of_aggregations("univse_aggregate_gru", "rsum"),
    ),
    _claim(
        "max_best_attacked",
        "As aggregation of components the maximum is best under attack (Table 3: 628.4; the next, sum, 604.3).",
        *_best_of_aggregations("univse_aggregate_max", ATTACKED),
    ),
    _claim(
        "learned_alpha_free",
        "A learned alpha costs at most three points of plain rsum (Table 4: 468.1 against 469.5).",
        _over("univse_learned_alpha", "univse", "rsum", margin=-3.0, negligible=0.0),
    ),
    _claim(
        "learned_alpha_less_robust",
        "A learned alpha finds fewer true captions under attack than the fixed one (Table 4).",
        _over("univse", "univse_learned_alpha", ATTACKED),
    ),
)
