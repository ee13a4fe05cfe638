"""All registered studies by name."""

from vse.studies.families import FAMILIES_PHOTOGRAPHS, FAMILIES_SCENES
from vse.studies.few_pairs import SEMI_SUPERVISED_SCENES
from vse.studies.robustness import PHOTOGRAPHS, ROBUSTNESS_SCENES
from vse.studies.sampling import SAMPLING_SCENES

STUDIES = {
    study.name: study
    for study in (
        ROBUSTNESS_SCENES,
        PHOTOGRAPHS,
        FAMILIES_SCENES,
        FAMILIES_PHOTOGRAPHS,
        SEMI_SUPERVISED_SCENES,
        SAMPLING_SCENES,
    )
}
